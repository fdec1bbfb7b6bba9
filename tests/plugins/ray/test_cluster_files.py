"""Cluster files in YAML: Ray's own schema takes that of `ray up`, and KubeRay's has the fields that make it work."""

import copy
import re
from typing import Any

import pytest
from tests.typed_commands import ROOT, commands, read

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]

DEPLOY = ROOT / "deploy"


def loaded(path: str) -> Any:
    import yaml

    return yaml.safe_load((DEPLOY / path).read_text())


def test_ray_takes_the_configuration_of_ray_up() -> None:
    from jsonschema import ValidationError
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = loaded("ray/cluster.yaml")
    validate_config(prepare_config(copy.deepcopy(config)))
    head = config["available_node_types"][config["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    wrong = {**config, "max_wrokers": 3}
    with pytest.raises(ValidationError, match="max_wrokers"):
        validate_config(prepare_config(wrong))


def test_the_job_of_kuberay_is_whole() -> None:
    job = loaded("kuberay/rayjob.yaml")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["spec"].keys() == {"entrypoint", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "rayClusterSpec"}
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster.keys() == {
        "rayVersion",
        "enableInTreeAutoscaling",
        "autoscalerOptions",
        "headGroupSpec",
        "workerGroupSpecs",
    }
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    assert head.keys() == {"rayStartParams", "template"}
    assert head["rayStartParams"] == {"num-cpus": "0"}
    assert workers.keys() == {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    for group in (head, workers):
        (container,) = group["template"]["spec"]["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": "harness-store"}}]
        assert container["resources"]["requests"] == container["resources"]["limits"]
    (words,) = commands(job["spec"]["entrypoint"])
    read(words)
    port = words[words.index("--metrics-port") + 1].rpartition(":")[2]
    (container,) = head["template"]["spec"]["containers"]
    assert int(port) in {port_entry["containerPort"] for port_entry in container["ports"]}
    assert head["template"]["metadata"]["annotations"]["prometheus.io/port"] == port


def test_all_cluster_files_name_one_image_and_one_version_of_ray() -> None:
    import ray
    from packaging.version import Version

    job, cluster = (DEPLOY / "kuberay/rayjob.yaml").read_text(), loaded("ray/cluster.yaml")
    (version,) = re.findall(r"^ARG RAY=(\S+)$", (DEPLOY / "Dockerfile").read_text(), re.M)
    assert loaded("kuberay/rayjob.yaml")["spec"]["rayClusterSpec"]["rayVersion"] == version
    assert set(re.findall(r"image: (\S+)", job)) == {cluster["docker"]["image"]}
    assert Version("2.55") <= Version(version) <= Version(ray.__version__)
