"""Studies of image-quality metrics whose answer is known: through plan, run and tables, and through tables alone."""

import json
from pathlib import Path

import numpy as np
import pytest

from imharness.ranking.comparisons import not_worse, pairwise
from imharness.tracks import Blocks
from imharness_iqa.tables import BASELINE, overall
from imharness_iqa.tables.data import Part, Study

SMALL = """
name = "truth"
description = "Defenses whose order is known."
[tracks."harness/iqa"]
select = { dataset = ["acme/greys"], metric = ["acme/brightness", "acme/darkness"], attack = ["harness/ifgsm"], defense = ["harness/none", "acme/idle", "acme/trapdoor"] }
options = { strengths = ["medium"], shown = [] }
"""  # noqa: E501
ALPHA = 0.05


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory, harness) -> dict:
    folder = tmp_path_factory.mktemp("truth")
    (folder / "truth.toml").write_text(SMALL)
    run = harness(
        "run", "--all", "--profile", "truth.toml", "--workers", "0", "--device", "cpu", cwd=folder,
        packages=("acme-truth",),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(Path(folder / "store" / "boards" / "harness--iqa.json").read_text())


def column(board: dict, key: str, table: str = "defenses") -> dict[str, dict]:
    rows = next(t for t in board["tables"] if t["id"] == table)["rows"]
    return {row["label"]: row["values"][key] for row in rows}


def test_a_defense_that_does_nothing_has_the_numbers_of_none(board: dict) -> None:
    for key in ("fixed_d", "adaptive_d", "common_d", "fixed_srocc", "adaptive_srocc", "srocc_clean"):
        found = column(board, key)
        assert found["acme/idle"]["value"] == found[BASELINE]["value"]
    marked = next(t for t in board["tables"] if t["id"] == "defenses")["not_worse"]
    assert {BASELINE, "acme/idle"} & set(marked["adaptive_d"])


def test_a_defense_that_is_broken_by_construction_ends_last_under_adaptive_attack(board: dict) -> None:
    fixed, adaptive = (column(board, f"{kind}_d") for kind in ("fixed", "adaptive"))
    assert fixed["acme/trapdoor"]["value"] == pytest.approx(0, abs=0.2)
    assert fixed[BASELINE]["value"] == pytest.approx(100 * 4 / 255, abs=0.01)
    assert adaptive["acme/trapdoor"]["value"] > 20 > adaptive[BASELINE]["value"]
    assert column(board, "common_d")["acme/trapdoor"] == fixed["acme/trapdoor"]


def test_a_metric_equal_to_the_label_has_a_perfect_correlation_whatever_its_direction(board: dict) -> None:
    assert {m["label"] for m in board["entries"] if m["kind"] == "metric"} >= {"acme/brightness", "acme/darkness"}
    for table, key in (
        ("defenses", "srocc_clean"),
        ("correlations", "clean_spearman"),
        ("correlations", "clean_pearson"),
    ):
        assert column(board, key, table)[BASELINE]["value"] == pytest.approx(1)
    assert column(board, "clean_conditions", "correlations")[BASELINE]["value"] == 2


def test_images_and_photographs_are_both_counted(board: dict) -> None:
    value = column(board, "fixed_d")[BASELINE]
    assert (value["n"], value["clusters"]) == (12, 6)


def simulated(seed: int, *, gain: float = 0.0) -> Study:
    """Return twenty photographs of five images under two attacks; a defense that moves scores by chance, or by a gain.

    What a defense does to a photograph it does to all images made of it.
    """
    rng = np.random.default_rng(seed)
    photographs = np.repeat([f"p{k:02d}" for k in range(20)], 5)
    names = np.array([f"i{k:03d}" for k in range(100)], dtype=object)
    facets = ("dataset", "metric", "strength", "type", "attack", "labels")
    conditions, blocks = [], []
    chance = np.repeat(rng.normal(0, 1, 20), 5)
    for attack in ("a", "b"):
        none = 10 + np.repeat(rng.normal(0, 3, 20), 5) + rng.normal(0, 1, 100)
        conditions.append({**dict.fromkeys(facets, "x"), "attack": attack, "attacker": "fixed"})
        blocks.append(np.stack([none + chance + rng.normal(0, 0.3, 100) - gain, none]))
    about = {"mos": (np.full(100, np.nan),) * 2, "sign": (np.ones(100),) * 2}
    values = dict.fromkeys(("score", "d", "ssim"), tuple(blocks))
    found = Blocks(("acme/chance", BASELINE), tuple(conditions), (names, names), values, about)
    sources = {name: (photograph, "x") for name, photograph in zip(names, photographs, strict=True)}
    part = Part.whole(found, sources)
    return Study(part, part, sources, ["acme/chance", BASELINE], part, part, "", {}, {}, frozenset(), "")


def marked_worse(study: Study) -> bool:
    """Return whether the marks of the main table say that one of the two defenses is worse than the other."""
    paired = next(own for own in overall.comparisons(study) if own.id == "wins-d-fixed")
    comparison, numbers = paired.stored()
    best = comparison.entries[pairwise(comparison, numbers).order[0]]
    return len(not_worse(comparison, numbers, best)) == 0


def test_marks_of_a_defense_that_does_nothing_are_wrong_as_often_as_they_say() -> None:
    wrong = sum(marked_worse(simulated(seed)) for seed in range(200))
    assert wrong <= 200 * ALPHA + 2 * (200 * ALPHA * (1 - ALPHA)) ** 0.5


def test_a_defense_that_helps_is_told_apart() -> None:
    assert np.mean([marked_worse(simulated(seed, gain=1.0)) for seed in range(20)]) > 0.8


def test_intervals_of_d_cover_the_truth_as_often_as_they_say() -> None:
    values = [simulated(seed).attacked.of(BASELINE).mean("d") for seed in range(200)]
    assert np.mean([v.low <= 10 <= v.high for v in values]) >= 0.91
