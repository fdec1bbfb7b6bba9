"""An outside package, tests/packages/acme-track, adds a fifth track and its part of a profile."""

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imharness.components.loading import load_plugins
from imharness.components.registry import build_registry
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.results.store import Store


def test_a_fifth_track_is_planned_run_ranked_and_shown(harness_forked, tmp_path: Path) -> None:
    run = harness_forked(
        "run",
        "--track",
        "acme/flips",
        "--limit",
        "4",
        "--workers",
        "1",
        "--device",
        "cpu",
        "--store",
        "store",
        "--site",
        "site",
        cwd=tmp_path,
        packages=("acme-track",),
    )
    assert run.returncode == 0, run.stderr
    leaderboard = json.loads((tmp_path / "store" / "leaderboards" / "acme--flips.json").read_text())
    assert {(e["kind"], e["label"]) for e in leaderboard["entries"]} >= {
        ("metric", "harness/l2"),
        ("metric", "harness/linf"),
    }
    flips, wins = leaderboard["tables"]
    assert {row["label"] for row in flips["rows"]} == {"harness/l2", "harness/mae"}
    means = [row["values"]["score"]["value"] for row in flips["rows"]]
    assert means == sorted(means)
    assert flips["rows"][0]["values"]["score"]["n"] == 4
    assert wins["id"] == "flip-wins"
    assert leaderboard["comparisons"][0]["entries"] == ["harness/l2", "harness/mae"]
    assert (tmp_path / "site" / "acme--flips.html").exists()
    assert (tmp_path / "site" / "acme--flips" / "conditions-metric.html").exists()
    (_, record), *_ = Store(tmp_path / "store").records()
    spec = record.spec
    assert set(spec.named()) == {"dataset", "metric"}
    assert "judged.linf" in spec.identity()["components"]
    assert "linf" not in next(
        iter(json.loads(next((tmp_path / "store" / "sweeps").rglob("*.json")).read_text())["tasks"])
    )


def test_its_part_joins_the_profile_and_leaves_the_other_tracks_as_they_were(install_packages) -> None:
    alone = load_profile("embedded")
    points = _with(install_packages("acme-track"))
    joined = load_profile("embedded", points)
    assert set(joined.tracks) - set(alone.tracks) == {"acme/flips"}
    assert list(joined.tracks) == list(load_profile("embedded", points[::-1]).tracks)
    for track in alone.tracks:
        assert joined.identity(track) == alone.identity(track)
    assert joined.identity("acme/flips") != alone.identity("harness/iqa")


def test_run_configurations_of_the_embedded_profile_stay(install_packages) -> None:
    """A leaderboard is found by its run configuration; a package with another track does not change it."""
    alone, joined = (
        plan_track("harness/perceptual", load_profile("embedded"), build_registry(load_plugins(_with(points))))
        for points in (install_packages(), install_packages("acme-track"))
    )
    assert alone.run_configuration == joined.run_configuration


def test_the_code_of_a_track_is_part_of_its_steps_alone(install_packages) -> None:
    """Tasks of the track depend on its code though their components are the harness's; those of other tracks do not."""
    registry = build_registry(load_plugins(_with(install_packages("acme-track"))))
    profile = load_profile("embedded", _with(install_packages()))
    code = registry.provenance(registry.track("acme/flips")).provenance.code
    assert code is not None
    specs = [task.spec for task in plan_track("acme/flips", profile, registry).tasks.values()]
    assert {spec.version.rpartition("+")[2] for spec in specs} == {code.digest}
    assert not any("+" in ref.version for spec in specs for ref in spec.components.values())
    others = plan_track("harness/perceptual", profile, registry).tasks.values()
    assert not any("+" in task.spec.version for task in others)


NOTEBOOK = """
import sys
import numpy as np
import imharness as ih

def largest(images, reference):
    return (images - reference).abs().amax(dim=(1, 2, 3))

pixels = np.random.default_rng(0).random((3, 3, 64, 64))
own = ih.metric(largest, reference=True, bounds=(0, 1), higher_means="worse_quality", name="largest")
for data, names in ((pixels, {"image-0000", "image-0001", "image-0002"}), (sys.argv[1], {"one.png", "two.png"}),
                    (None, None)):
    found = ih.evaluate(own, track="flips", dataset=data, limit=3, progress=False)
    rows = found.rows("flip")
    assert set(found.table().labels) == {"local/largest", "harness/l2", "harness/mae"}, found
    assert names is None or set(rows["name"]) == names, rows
    ours = rows["metric"] == "local/largest"
    assert np.array_equal(rows["score"][ours], rows["judged"][ours])  # the same distance as the track's judge
for wrong, said in (({"track": "membership", "dataset": sys.argv[1]}, "track harness/membership cannot read a folder"),
                    ({"track": "flips"}, "track acme/flips does not take your own defense; it takes: metric.")):
    try:
        ih.evaluate(ih.defense(lambda images: images, differentiable=True), progress=False, **wrong)
    except ih.errors.UsageError as error:
        assert said in str(error), error
    else:
        raise AssertionError(said)
"""


def test_a_fifth_track_says_what_an_evaluation_takes(
    harness_forked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for seed, name in enumerate(("one.png", "two.png")):
        pixels = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ended = harness_forked("-c", NOTEBOOK, str(folder), cwd=tmp_path, packages=("acme-track",))
    assert ended.returncode == 0, ended.stderr


def _with(points):
    """Return entry points beside those that are installed."""
    return [*importlib.metadata.entry_points(group="imharness"), *points]
