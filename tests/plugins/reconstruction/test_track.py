"""The track from plan to tables on a few real thumbnails: models as initialised and trained, images protected."""

from pathlib import Path

import torch

from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness_reconstruction.tables import report

TRACK = "harness/reconstruction"


def test_both_states_of_a_model_and_batches_of_protected_images(tmp_path: Path) -> None:
    lenet = "harness/lenet[channels=16,activation=relu]"
    select = {
        "dataset": ["thumbnails[size=16,per_photograph=1]"], "model": ["untrained", lenet], "metric": ["psnr"],
        "attack": ["invgrad[steps=8]", "cafe[steps=2,batch=2]"], "defense": ["plain-gradient", "mixup"],
    }  # fmt: skip
    options = {"epochs": 1, "judge": lenet, "narrow": {"harness/cafe": ["harness/untrained"]}}
    profile = Profile(name="small", description="", tracks={TRACK: TrackProfile(select=select, options=options)})
    registry = installed()
    graph = plan_track(TRACK, profile, registry, limit=4)
    cache = BuildCache(registry, Store(tmp_path), torch.device("cpu"), 16)
    records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    found = ResultQuery(cache.store, records)
    states = found("SELECT DISTINCT attack, model, defense, state FROM reconstruct ORDER BY ALL")
    own = list(zip(states["attack"], states["model"], states["state"], strict=True))
    initial, trained = ("harness/untrained", "as initialised"), (lenet, "trained")
    expected = [("harness/cafe[batch=2,steps=2]", *initial)] * 2
    expected += [("harness/invgrad[steps=8]", *trained)] * 2 + [("harness/invgrad[steps=8]", *initial)] * 2
    assert sorted(own) == sorted(expected)
    fit = found("SELECT loss, attainable, grey FROM reconstruct")
    assert abs(fit["attainable"]).max() < 1e-5  # nothing was added to any of these gradients
    assert (fit["grey"] > 0).all()
    assert found("SELECT DISTINCT source FROM reconstruct ORDER BY 1")["source"].tolist() == [
        "astronaut", "chelsea", "china", "rocket",
    ]  # fmt: skip
    tables = [table.title for table in report(found).tables if table.id.startswith("models")]
    assert len(tables) == 3
    assert tables[0].endswith("as initialised")
    assert tables[-1].endswith("trained")


def test_an_attack_is_narrowed_by_its_label_and_else_by_its_id() -> None:
    lenet = "harness/lenet[channels=16,activation=relu]"
    select = {
        "dataset": ["thumbnails[size=16]"], "model": ["untrained", lenet], "metric": ["psnr"],
        "attack": ["invgrad", "invgrad[surviving=false]"], "defense": ["plain-gradient"],
    }  # fmt: skip
    narrow = {"harness/invgrad": ["harness/untrained"], "harness/invgrad[surviving=False]": [lenet]}
    part = TrackProfile(select=select, options={"narrow": narrow, "judge": lenet})
    graph = plan_track(TRACK, Profile(name="small", description="", tracks={TRACK: part}), installed())
    cells = [task.spec.named() for task in graph.tasks.values() if task.spec.step == "reconstruct"]
    assert sorted((own["attack"].label, own["model"].label) for own in cells) == [
        ("harness/invgrad", "harness/untrained"), ("harness/invgrad[surviving=False]", lenet),
    ]  # fmt: skip
    guessed = [task.spec.components["metric"].label for task in graph.tasks.values() if task.spec.step == "guess"]
    assert guessed == ["harness/psnr"]
