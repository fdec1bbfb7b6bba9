"""An attack whose distortion is a known linear function of its parameter: the measured strengths are the known ones."""

import json
from pathlib import Path

import pytest
from tests.truth.test_iqa import leaderboard_of, ran

from imharness.components.registry import installed
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.store import Store

LIFT = """
name = "truth"
description = "An attack by two grey levels for each step."
[tracks."harness/iqa"]
select = { dataset = ["acme/greys"], metric = ["light/brightness"], attack = ["light/lift"], defense = ["harness/none", "acme/idle"] }
options = { strengths = ["weak", "medium", "strong"], shown = [], calibration_dataset = "acme/greys[photograph=q]" }
"""  # noqa: E501
KNOWN = {"weak": 1.0, "medium": 2.0, "strong": 4.0}
"""Steps of two grey levels; 1, 2 and 4 steps change an image by 2, 4 and 8 of 255. The attack declares 3, 5 and 9."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, harness_forked) -> Path:
    return ran(tmp_path_factory.mktemp("lift"), harness_forked, LIFT)


def rows_of(leaderboard: dict, id: str) -> dict[str, dict]:
    (table,) = (candidate for candidate in leaderboard["tables"] if candidate["id"] == id)
    return {
        row["facets"]["strength"]: {key: value["value"] for key, value in row["values"].items()}
        for row in table["rows"]
    }


def test_the_measured_strengths_are_the_known_ones_and_the_attacks_land_on_their_targets(folder: Path) -> None:
    leaderboard = leaderboard_of(folder)
    strengths = rows_of(leaderboard, "strengths")
    assert {name: value["value"] for name, value in strengths.items()} == KNOWN
    assert {strength_row["reached"] for strength_row in strengths.values()} == {1.0}
    for row in rows_of(leaderboard, "distortion").values():
        assert row["achieved"] == pytest.approx(row["target"])
        assert row["flag"] == 0


def test_what_was_measured_is_part_of_the_identity_of_each_attack(folder: Path) -> None:
    records = [record.model_dump(mode="json") for _, record in Store(folder / "store").records()]
    (measured,) = (record["key"] for record in records if record["spec"]["step"] == "calibrate")
    attacks = [record["spec"] for record in records if record["spec"]["step"] == "attack"]
    assert len(attacks) == 3 * 2  # on the metric alone and through one defense
    assert all(spec["needs"]["calibrated"] == measured for spec in attacks)


def plan(**options: object) -> Graph:
    select = {
        "dataset": ["thumbnails[size=16]"],
        "attack": ["harness/ifgsm", "harness/one-pixel", "harness/uap"],
        "metric": ["harness/spaq", "harness/cnniqa"],
        "defense": ["harness/none", "harness/flip"],
    }
    settings = {"strengths": ("weak", "strong"), "calibration_dataset": "harness/thumbnails", **options}
    profile = Profile(name="p", description="", tracks={"harness/iqa": TrackProfile(select=select, options=settings)})
    return plan_track("harness/iqa", profile, installed(), whole=True)


def measured(graph: Graph) -> set[tuple[str, str]]:
    """Return the pairs of attack and metric whose strengths a plan measures."""
    specs = [task.spec for task in graph.tasks.values() if task.spec.step == "calibrate"]
    assert len(specs) == len({(s.components["attack"].id, s.components["metric"].id) for s in specs})
    return {(spec.components["attack"].id, spec.components["metric"].id) for spec in specs}


def test_strengths_are_measured_only_where_nobody_published_them(tmp_path: Path) -> None:
    """SPAQ has published strengths of I-FGSM and UAP; a trained attack is trained once for both steps."""
    missing = {("harness/one-pixel", "harness/spaq")}
    missing |= {(f"harness/{name}", "harness/cnniqa") for name in ("ifgsm", "one-pixel", "uap")}
    graph = plan()
    assert measured(graph) == missing
    assert measured(plan(calibration_dataset="")) == set()
    presets = [{"attack": "harness/one-pixel", "metric": "harness/spaq", "field": "pixels", "distortion": "psnr",
              "strengths": {"weak": 3, "medium": 5, "strong": 9}}]  # fmt: skip
    (tmp_path / "presets.json").write_text(json.dumps(presets))
    assert measured(plan(presets=str(tmp_path / "presets.json"))) == missing - {("harness/one-pixel", "harness/spaq")}
    fits = [t for t in graph.tasks.values() if t.spec.step == "fit" and not t.spec.options["adaptive"]]
    assert len(fits) == 2
    attacks = [t.spec for t in graph.tasks.values() if t.spec.step == "attack"]
    for spec in attacks:
        pair = spec.components["attack"].id, spec.components["metric"].id
        assert ("calibrated" in spec.needs) == (pair in missing)


def test_where_strengths_are_known_an_attack_is_the_same_task_as_without_the_option() -> None:
    keys = [
        {key for key, task in graph.tasks.items() if task.spec.step == "attack" and "calibrated" not in task.spec.needs}
        for graph in (plan(), plan(calibration_dataset=""))
    ]
    assert keys[0]
    assert keys[0] < keys[1]
