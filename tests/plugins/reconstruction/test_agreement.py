"""Which metric ranks models as people do, on a study whose answer is known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from imharness.components.registry import installed
from imharness.papers.published import find_table
from imharness.planning.profiles import load_profile
from imharness.tables import Blocks
from imharness_reconstruction.agreement import Study, agreement, agreement_table, comparison_table, matrix_table
from imharness_reconstruction.plots import scatter

MODELS, IMAGES = 12, 20


def study() -> Study:
    rng = np.random.default_rng(0)
    leak = np.linspace(0.1, 0.9, MODELS)
    people = (rng.random((MODELS, IMAGES)) < leak[:, None]).astype(float)
    near = leak[:, None] + rng.normal(0, 0.05, (MODELS, IMAGES))
    far = rng.normal(size=(MODELS, IMAGES))
    return Study("d", "harness/a", tuple(f"m{i}" for i in range(MODELS)), {"near": near, "far": far}, people, "people")


def test_agreement_is_that_of_scipy() -> None:
    s = study()
    for ranking, reference in (("rho", stats.spearmanr), ("tau", stats.kendalltau)):
        value = agreement(s, "near", ranking)
        expected = reference(s.scores["near"].mean(axis=1), s.people.mean(axis=1)).statistic
        assert value.value == pytest.approx(expected)
        assert value.n == MODELS
        assert value.low is not None
        assert value.low <= expected <= value.high + 0.05


def test_a_metric_that_ranks_backwards_is_the_worst_and_keeps_its_size_as_the_papers_column() -> None:
    s = study()
    s.scores["backwards"] = -s.scores["near"]
    table = agreement_table([s])
    assert [row.label for row in table.rows] == ["near", "far", "backwards"]
    cells = {row.label: row.values for row in table.rows}
    good, bad = (cells[name]["d, harness/a rho"] for name in ("near", "backwards"))
    assert bad.value == -good.value
    assert bad.high < 0 < good.low
    assert cells["near"]["d, harness/a rho absolute"].value == cells["backwards"]["d, harness/a rho absolute"].value
    shown = {column.key: (column.label, column.better) for column in table.columns}
    assert shown["d, harness/a rho"] == ("rho, a", "higher")
    assert shown["d, harness/a rho absolute"] == ("|rho|, a", "")


def test_tables_order_metrics_and_test_them() -> None:
    s = study()
    table = agreement_table([s])
    assert [row.label for row in table.rows] == ["near", "far"]
    matrix = matrix_table(s)
    assert matrix.rows[0].label == "recognised"
    assert matrix.rows[1].values["far"].value == pytest.approx(1)
    by_tau = matrix_table(s, "tau")
    assert by_tau.id == f"metric-matrix-tau-{s.slug}"
    expected = stats.kendalltau(s.leakage("near"), s.leakage("far")).statistic
    (near,) = (row for row in by_tau.rows if row.label == "near")
    assert near.values["far"].value == pytest.approx(expected)
    tests = comparison_table(s)
    assert tests.rows[0].values["near"].value < 0.05
    assert tests.rows[0].values["far"].missing == "the same metric"


def test_networks_with_one_data_set_left_out_are_one_metric_of_the_table() -> None:
    s = study()
    other = replace(s, dataset="e")
    for own in (s, other):
        own.scores["harness/semsim[backbone=resnet50,unseen=each]"] = own.scores["near"]
    table = agreement_table([s, other])
    (row,) = (row for row in table.rows if "semsim" in row.label)
    assert all(value.value is not None for value in row.values.values())
    assert "trained without it" in table.caption
    assert "trained without it" not in agreement_table([study()]).caption


def test_what_shows_psnr_says_how_much_of_it_counts(tmp_path: Path) -> None:
    s, said = study(), "PSNR counts as at most 58.9 dB, the noise of 8 bits, also for identical images."
    assert not any(said in table.caption for table in (agreement_table([s]), matrix_table(s), comparison_table(s)))
    s.scores["harness/psnr"] = s.scores["near"]
    assert all(said in table.caption for table in (agreement_table([s]), matrix_table(s), comparison_table(s)))
    assert said in scatter([s], tmp_path)[0].read_text()


def came_back(s: Study, whole: np.ndarray) -> Blocks:
    """Return blocks with one metric, of which less is closer, one of whole sets, and what was recognised."""
    names = np.array([f"n{i:02d}" for i in range(IMAGES)], dtype=object)
    units = (names, np.array([""], dtype=object), names)
    return Blocks(
        s.models,
        tuple({"dataset": "d", "attack": "a", "metric": m} for m in ("mse", "set", "recognised")),
        units,
        {"score": (-s.scores["near"], whole[:, None], s.people)},
        {
            "closeness": tuple(np.full(len(u), sign) for u, sign in zip(units, (-1, 1, 1), strict=True)),
            "whole": tuple(np.full(len(u), yes) for u, yes in zip(units, (False, True, False), strict=True)),
            "who": tuple(np.full(len(u), "people", dtype=object) for u in units),
        },
    )


def test_blocks_become_a_study_and_few_models_none() -> None:
    s = study()
    scores = came_back(s, np.arange(MODELS) / 2)
    found = Study.of(scores)
    assert found is not None
    assert (found.models, found.who) == (s.models, "people")
    np.testing.assert_array_equal(found.scores["mse"], s.scores["near"])
    np.testing.assert_array_equal(found.scores["set"], np.arange(MODELS)[:, None] / 2)
    scores.values["score"][2][0, :3] = np.nan
    kept = Study.of(scores)
    assert kept is not None
    np.testing.assert_array_equal(kept.people, s.people[:, 3:])
    np.testing.assert_array_equal(kept.scores["mse"], s.scores["near"][:, 3:])
    scores.values["score"][0][1, 7] = np.nan
    without = Study.of(scores)
    assert without is not None
    np.testing.assert_array_equal(without.scores["mse"], np.delete(s.scores["near"][:, 3:], 4, axis=1))
    scores.values["score"][2][5:] = np.nan
    assert Study.of(scores) is None


def test_the_matrix_that_figure_3_points_to_is_the_one_of_the_paper_profile() -> None:
    part = load_profile("paper").tracks["harness/reconstruction"]
    (dataset,) = (installed().one("dataset", d).label for d in part.select["dataset"] if "cifar100" in d)
    attack = installed().one("attack", "invgrad").with_parameters(**part.parameters["harness/invgrad"]).label
    s = replace(study(), dataset=dataset, attack=attack, state="trained")
    (column,) = find_table("reconstruction/figure-3").columns
    assert column.ours.partition(":")[0] == matrix_table(s, "tau").id
