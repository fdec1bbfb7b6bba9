"""The precision of training is an option of its tasks, which tasks of strict training do not name."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from imharness.components.registry import installed
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task

SELECT = {
    "dataset": ["digits"],
    "model": ["mlp[hidden=[4]]"],
    "evaluator": ["confidence"],
    "defense": ["plain-training"],
}


def planned(**options: str) -> Graph:
    settings = TrackProfile(select=SELECT, options={"splits": 1, "epochs": 1, "part": 20, "references": 3, **options})
    return plan_track(
        "harness/membership",
        Profile(name="small", description="", tracks={"harness/membership": settings}),
        installed(),
    )


@pytest.mark.parametrize("precision", ["strict", "tf32"])
def test_training_rounds_factors_only_where_the_profile_says_so(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = planned(training_precision=precision)
    key, task = next((key, entry) for key, entry in graph.tasks.items() if entry.spec.step == "train")
    assert ("precision" in task.spec.options) == (precision == "tf32")
    requested = list[bool]()

    def heard(wanted: bool) -> nullcontext[None]:
        requested.append(wanted)
        return nullcontext()

    monkeypatch.setattr("imharness_membership.networks.tensor_cores", heard)
    cache = BuildCache(installed(), Store(tmp_path), torch.device("cpu"), 16)
    assert run_task(cache, key, task.spec, lambda done, total: None).failure is None
    assert requested == [precision == "tf32"]


def test_tasks_of_strict_training_are_those_without_the_option() -> None:
    assert planned().tasks.keys() == planned(training_precision="strict").tasks.keys()
