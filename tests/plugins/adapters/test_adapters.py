"""Attacks and metrics of other libraries: they run and rank beside others, and do what is known of them.

Those marked `extra` need the libraries; the weights of the network from pyiqa are random numbers in its layout.
"""

import html
import importlib.util
import socket
import sys
import threading
from pathlib import Path
from socket import gaierror
from types import SimpleNamespace
from urllib.error import URLError

import pytest
import torch
from click.testing import CliRunner

from imharness.cli import cli
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import Registry, installed
from imharness.contracts.randomness import ImageRng
from imharness.errors import Unavailable, UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.running.target import MetricTarget
from imharness.testing import check_component, samples
from imharness.testing.conformance import failed
from imharness_adapters import foolbox as foolbox_attack
from imharness_adapters import torchattacks as torchattacks_attack
from imharness_adapters.pyiqa import metrics as pyiqa_metrics
from imharness_adapters.pyiqa.preparing import why
from imharness_iqa.workload import METRICS
from imharness_vision.offline import offline

CPU = torch.device("cpu")
LIBRARIES = pytest.mark.filterwarnings("ignore:.*gaussian_filter. from:DeprecationWarning")
"""foolbox imports a name of scipy by its old place."""


def attacked(name: str, n: int = 2, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Return images, the attacked images, and for each the number of scores that the attack asked for."""
    component, score = installed().one("attack", name), samples.Quality(0)
    images = samples.images(n, 48, 48, 0)
    target = MetricTarget(
        score, score.bounds, images=n, differentiable=True, budget=component.budget().queries, micro_batch=8
    )
    result = component.build(CPU)(images, target, ImageRng([seed + i for i in range(n)]))
    return images, result, target.queries.tolist()


@pytest.mark.parametrize(
    ("module", "library"),
    [(foolbox_attack, "foolbox"), (torchattacks_attack, "torchattacks"), (pyiqa_metrics, "pyiqa")],
)
def test_without_its_library_an_adapter_says_how_to_install_it(
    module, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imharness_vision.libraries.find_spec", lambda name: None)
    for component in module.components():
        assert component.address
        with pytest.raises(Unavailable, match=rf"{library} is not installed; get it with: pip install .*\[{library}\]"):
            component.require()


@pytest.mark.extra
@LIBRARIES
@pytest.mark.parametrize("name", ["foolbox[method=LinfBasicIterativeAttack,{}]", "torchattacks[method=BIM,{}]"])
def test_the_basic_iterative_method_is_i_fgsm(name: str) -> None:
    """Both take the same steps along the signs of the gradient, which the two logits for torchattacks do not change."""
    radius, steps = 8 / 255, 5
    _, ours, _ = attacked(f"ifgsm[radius={radius},alpha={radius / 4},iterations={steps}]")
    _, other, queries = attacked(name.format(f"radius={radius},step=0.25,steps={steps}"))
    assert queries == [steps, steps]
    torch.testing.assert_close(other, ours, rtol=0, atol=1e-6)


@pytest.mark.extra
@LIBRARIES
@pytest.mark.parametrize("library", ["foolbox", "torchattacks"])
def test_every_method_gains_within_its_ball_and_disturbs_no_global_randomness(library: str) -> None:
    score = samples.Quality(0)
    for component in installed().find("attack", library)[0].variants():
        radius = 8 / 255 if component.info.norm == "linf" else 1.0
        before = torch.get_rng_state()
        name = f"{library}[method={component.method},radius={radius},steps=4]"
        images, result, _ = attacked(name)
        assert torch.equal(before, torch.get_rng_state()), component.method
        change = (result - images).flatten(1)
        sizes = change.abs().amax(dim=1) if component.info.norm == "linf" else change.norm(dim=1)
        assert float(sizes.max()) <= radius * (1 + 1e-4), component.method
        assert bool((score(result) > score(images)).all()), component.method
        again, other = attacked(name)[1], attacked(name, seed=5)[1]
        assert torch.equal(result, again), component.method
        random = component.method in ("LinfPGD", "L2PGD", "LinfAdamPGD", "L2AdamPGD", "PGD", "PGDL2", "FFGSM", "RFGSM")
        assert not random or not torch.equal(result, other), component.method


@pytest.mark.extra
def test_what_does_not_fit_a_metric_is_refused_in_one_line() -> None:
    for name, message in (
        ("foolbox:L2DeepFoolAttack", "only attacks that raise a loss within a radius fit a metric: LinfPGD"),
        ("torchattacks:AutoAttack", "only attacks that raise a loss within a radius fit a metric: FGSM"),
    ):
        with pytest.raises((UsageError, ValueError), match=message):
            installed().one("attack", name)
    for name, message in (("pyiqa:lpips", "write pyiqa-fr:lpips"), ("pyiqa:nosuch", "no such metric of mode NR")):
        with pytest.raises((UsageError, ValueError), match=message):
            installed().one("metric", name)
    with pytest.raises(Unavailable, match="harness pyiqa prepare musiq"):
        installed().one("metric", "pyiqa:musiq").require()


def test_a_metric_that_cannot_be_prepared_is_one_line_and_the_rest_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str, *arguments: object) -> pyiqa_metrics.Prepared:
        if name == "ms_ssim":
            raise AssertionError("Image size should be larger than 160\ndue to the 4 downsamplings")
        return pyiqa_metrics.Prepared(pyiqa="0", lower=0, upper=1, differentiable=True, data="d", images=9)

    monkeypatch.setattr(pyiqa_metrics, "configurations", lambda mode: {"ms_ssim": {}, "gmsd": {}})
    monkeypatch.setattr("imharness_adapters.pyiqa.preparing.prepared_on", found)
    result = CliRunner().invoke(cli, ["pyiqa", "prepare", "ms_ssim", "gmsd"])
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "warning: ms_ssim is not prepared: Image size should be larger than 160 due to the 4 downsamplings",
        "gmsd: 0 to 1 on 9 images of d; gradients reach the images",
    ]
    assert CliRunner().invoke(cli, ["pyiqa", "prepare", "gmsd"]).exit_code == 0


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a folder of weights of pyiqa, with random ones for cnniqa in the published layout."""
    import pyiqa
    from pyiqa.archs import cnniqa_arch
    from pyiqa.utils import download_util

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(download_util, "DEFAULT_CACHE_DIR", str(tmp_path / "weights"))
    (tmp_path / "weights").mkdir()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = cnniqa_arch.CNNIQA(pretrained=None)
    file = Path(cnniqa_arch.default_model_urls["koniq10k"]).name
    torch.save({"params": network.state_dict()}, tmp_path / "weights" / file)
    assert pyiqa.list_models()
    return tmp_path


@pytest.mark.extra
@LIBRARIES
def test_they_run_in_the_iqa_track_and_rank(cached: Path) -> None:
    cli_result = CliRunner().invoke(
        cli, ["pyiqa", "prepare", "cnniqa", "gmsd", "--images", "9"], catch_exceptions=False
    )
    assert "cnniqa:" in cli_result.output
    metric = installed().one("metric", "pyiqa:cnniqa")
    lower, upper = metric.bounds
    assert lower < upper
    assert f"{lower:g} to {upper:g} on 9 images" in cli_result.output
    assert metric.closeness == 1
    assert metric.info.differentiable
    assert installed().one("metric", "pyiqa-fr:gmsd").closeness == -1
    for name in ("pyiqa:cnniqa", "pyiqa-fr:gmsd"):
        assert [o.message for o in failed(check_component(installed().one("metric", name)))] == []

    words = {
        "--track": ["iqa"],
        "--profile": ["quick"],
        "--dataset": ["severity-ladder[severities=[],size=64]"],
        "--metric": ["pyiqa:cnniqa"],
        "--attack": ["ifgsm", "foolbox:LinfPGD", "torchattacks:PGD"],
        "--defense": ["none", "flip"],
        "--limit": ["8"],
        "--workers": ["0"],
        "--store": [cached / "store"],
        "--site": [cached / "site"],
        "--progress": ["none"],
    }
    line = [str(word) for option, values in words.items() for value in values for word in (option, value)]
    result = CliRunner().invoke(cli, ["run", *line, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    page = (cached / "site" / "iqa.html").read_text()
    for attack in ("harness/ifgsm", "harness/foolbox[method=LinfPGD]", "harness/torchattacks[method=PGD]"):
        assert html.escape(attack.removeprefix("harness/")) in page


@pytest.mark.extra
def test_metrics_of_the_profile_recent_are_those_of_pyiqa_and_say_how_to_prepare_them(cached: Path) -> None:
    """Names, mode and direction are those of pyiqa; the range is the one that was measured on this machine."""
    import importlib.metadata

    names = [m for m in load_profile("recent").tracks["harness/iqa"].select["metric"] if m.startswith("pyiqa:")]
    assert names == ["pyiqa:arniqa", "pyiqa:liqe", "pyiqa:qualiclip"]
    for name in (n.partition(":")[2] for n in names):
        metric = installed().one("metric", f"pyiqa:{name}")
        assert metric.closeness == 1
        assert name in METRICS
        with pytest.raises(Unavailable, match=f"harness pyiqa prepare {name}"):
            metric.require()
        path = pyiqa_metrics.record(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        version = importlib.metadata.version("pyiqa")
        facts = {"pyiqa": version, "lower": 1, "upper": 5, "differentiable": True, "data": "x", "images": 9}
        path.write_text(pyiqa_metrics.Prepared(**facts).model_dump_json())
        metric.require()
        assert metric.bounds == (1, 5)


def test_a_package_that_a_metric_of_pyiqa_lacks_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """LIQE and QualiCLIP import the package clip, which needs pkg_resources of older versions of setuptools."""

    def lacking(*arguments: object, **further: object) -> None:
        raise ModuleNotFoundError("No module named 'pkg_resources'", name="pkg_resources")

    monkeypatch.setitem(sys.modules, "pyiqa", SimpleNamespace(create_metric=lacking))
    with pytest.raises(Unavailable, match=r"liqe of pyiqa needs pkg_resources.*pip install 'setuptools<81'"):
        pyiqa_metrics.Pyiqa(name="").model_copy(update={"name": "liqe"}).build(CPU)


@pytest.mark.extra
def test_a_build_never_downloads(cached: Path) -> None:
    """With the record but without the weights, the metric says how to get them."""
    path = pyiqa_metrics.record("musiq")
    path.parent.mkdir(parents=True)
    import importlib.metadata

    facts = pyiqa_metrics.Prepared(
        pyiqa=importlib.metadata.version("pyiqa"), lower=0, upper=1, differentiable=True, data="x", images=1
    )
    path.write_text(facts.model_dump_json())
    metric = installed().one("metric", "pyiqa:musiq")
    metric.require()
    with pytest.raises(Unavailable, match="not on this machine; get it with: harness pyiqa prepare musiq"):
        metric.build(CPU)


def test_a_star_means_no_component_that_only_stands_for_others() -> None:
    """A library that is installed changes no table: its attacks take part only where they are named."""
    registered = Registered(foolbox_attack.Foolbox(method="LinfPGD"), "foolbox", Provenance("foolbox", ""))
    plain = Registry(e for e in installed().entries.values() if not e.component.info.id.endswith("foolbox"))
    profile, only = load_profile("embedded"), {"defense": ["none"], "metric": ["embedded-cnn"]}
    graphs = [
        plan_track("harness/iqa", profile, registry, only=only) for registry in (plain, plain.joined([registered]))
    ]
    tasks = [{*(task.address for task in graph.tasks.values()), *graph.missing} for graph in graphs]
    assert tasks[0] == tasks[1]
    assert any("harness/square" in address for address in tasks[0])


def test_the_hugging_face_hub_is_not_asked_for_newer_files_and_what_it_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class LocalEntryNotFoundError(OSError):
        """As the library calls it."""

    hub = SimpleNamespace(HF_HUB_OFFLINE=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", hub)
    with offline("prepare it"):
        assert hub.HF_HUB_OFFLINE
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = LocalEntryNotFoundError()
    with pytest.raises(Unavailable, match="prepare it"), offline("prepare it"):
        raise wrapped
    with pytest.raises(RuntimeError, match="something else"), offline("prepare it"):
        raise RuntimeError("something else")
    assert not hub.HF_HUB_OFFLINE


def test_two_threads_that_build_at_once_leave_the_look_up_of_hosts_as_it_was() -> None:
    before, inside, go = socket.getaddrinfo, threading.Event(), threading.Event()

    def first() -> None:
        with offline("prepare it"):
            inside.set()
            go.wait(120)

    def second() -> None:
        inside.wait(120)
        threading.Timer(0.2, go.set).start()
        with offline("prepare it"):
            pass

    threads = [threading.Thread(target=job) for job in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert socket.getaddrinfo is before


@pytest.mark.extra
def test_no_metric_of_pyiqa_runs_code_that_it_downloads() -> None:
    folder = Path(str(importlib.util.find_spec("pyiqa").origin)).parent / "archs"  # type: ignore[union-attr]
    remote = [file.read_text() for file in folder.glob("*_arch.py") if "trust_remote_code" in file.read_text()]
    assert remote
    for facts in pyiqa_metrics.configurations("NR").values():
        assert not any(f"class {facts['metric_opts']['type']}(" in text for text in remote)


@pytest.mark.parametrize(
    "error",
    [
        URLError(gaierror(-3, "Temporary failure in name resolution")),
        ConnectionResetError(104, "reset"),
        TimeoutError("timed out"),
    ],
)
def test_weights_that_cannot_be_fetched_are_one_clear_line(error: OSError) -> None:
    wrapped = RuntimeError("something of a library")
    wrapped.__cause__ = error
    for raised in (error, wrapped):
        assert why(raised).startswith("its weights are not on this machine, and cannot be fetched")
        assert "urlopen" not in why(raised)
    assert why(FileNotFoundError(2, "no such file", "x")).startswith("[Errno 2] no such file")
    assert why(ValueError("too\n small")) == "too small"


def test_without_pyiqa_it_says_so_and_not_that_a_metric_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyiqa_metrics, "configurations", lambda mode: {})
    result = CliRunner().invoke(cli, ["pyiqa", "prepare", "niqe"])
    assert isinstance(result.exception, Unavailable)
    assert "the package pyiqa is not installed" in str(result.exception)
