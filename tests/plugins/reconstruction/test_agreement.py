"""Which metric ranks models as people do, on a study whose answer is known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from imharness.components.registry import installed
from imharness.leaderboard import Blocks
from imharness.papers.published import find_table
from imharness.planning.profiles import load_profile
from imharness_reconstruction.agreement import Study, agreement, agreement_table, comparison_table, matrix_table
from imharness_reconstruction.plots import scatter
from imharness_reconstruction.positive_control import FLAG, uncontrolled

MODELS, IMAGES = 12, 20


def study() -> Study:
    """Return a study in which the metric "near" follows what people recognise, and "far" is noise."""
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
    tasks = {row.label: row.values for row in table.rows}
    good, bad = (tasks[name]["d, harness/a rho"] for name in ("near", "backwards"))
    assert bad.value == -good.value
    assert bad.high < 0 < good.low
    assert tasks["near"]["d, harness/a rho absolute"].value == tasks["backwards"]["d, harness/a rho absolute"].value
    headings = {column.key: (column.label, column.better) for column in table.columns}
    assert headings["d, harness/a rho"] == ("rho, a", "higher")
    assert headings["d, harness/a rho absolute"] == ("|rho|, a", "")


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
    for each_study in (s, other):
        each_study.scores["harness/semsim[backbone=resnet50,unseen=each]"] = each_study.scores["near"]
    table = agreement_table([s, other])
    (row,) = (row for row in table.rows if "semsim" in row.label)
    assert all(value.value is not None for value in row.values.values())
    assert "trained without it" in table.caption
    assert "trained without it" not in agreement_table([study()]).caption


def test_what_shows_psnr_says_how_much_of_it_counts(tmp_path: Path) -> None:
    s, sentence = study(), "PSNR counts as at most 58.9 dB, the noise of 8 bits, also for identical images."
    assert not any(sentence in table.caption for table in (agreement_table([s]), matrix_table(s), comparison_table(s)))
    s.scores["harness/psnr"] = s.scores["near"]
    assert all(sentence in table.caption for table in (agreement_table([s]), matrix_table(s), comparison_table(s)))
    assert sentence in scatter([s], tmp_path)[0].read_text()


def test_a_panel_has_the_leakage_of_each_model_against_what_was_recognised(
    tmp_path: Path, figures: list[Figure]
) -> None:
    s = study()
    s.scores["harness/flat"] = np.ones((MODELS, IMAGES))
    other = replace(s, dataset="e")
    files = scatter([s, other], tmp_path)
    assert files == [tmp_path / f"{each.slug}.svg" for each in (s, other)]
    for figure, each in zip(figures, (s, other), strict=True):
        for axis, metric in zip(figure.axes, sorted(s.scores), strict=True):
            (points,) = axis.collections
            expected = np.stack([s.scores[metric].mean(axis=1), s.people.mean(axis=1)], axis=1)
            np.testing.assert_allclose(points.get_offsets(), expected)
        assert figure.get_suptitle() == f"{each.setting} ({MODELS} models; people)"
    titles = [axis.get_title().split("\n")[1] for axis in figures[0].axes]
    far, near = ([agreement(s, name, ranking).value for ranking in ("rho", "tau")] for name in ("far", "near"))
    assert titles == [f"rho {far[0]:.2f}, tau {far[1]:.2f}", "not defined", f"rho {near[0]:.2f}, tau {near[1]:.2f}"]


def came_back(s: Study, whole: np.ndarray) -> Blocks:
    """Return blocks of a metric where less is closer, one with a number for a whole set, and what people recognised.

    The set's numbers are `whole`, one for each model.
    """
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


def attacked(lead: float, converged: float = 1.0) -> tuple[Blocks, dict[str, float]]:
    """Return the PSNR of an undefended and a defended model, and that of the mean image, by image.

    The undefended model lies `lead` dB above the mean image, the defended one 9 dB.
    """
    names = np.array([f"d n{i:02d}" for i in range(IMAGES)], dtype=object)
    guess = np.random.default_rng(1).normal(12, 1, IMAGES)
    rows = np.stack([guess + lead + np.random.default_rng(2).normal(0, 0.5, IMAGES), guess + 9])
    return (
        Blocks(
            ("m + harness/plain-gradient", "m + harness/ats"),
            ({"dataset": "d", "attack": "a", "metric": "harness/psnr", "state": ""},),
            (names,),
            {"score": (rows,), "converged": (np.full(rows.shape, converged),)},
            {"source": (names,)},
        ),
        dict(zip(names, guess, strict=True)),
    )


def test_a_study_needs_an_attack_that_beats_the_mean_image_without_a_defense() -> None:
    assert uncontrolled(*attacked(3)) == ""
    for scores, guesses in (attacked(-3), attacked(0), attacked(3, converged=0)):
        assert uncontrolled(scores, guesses) == FLAG, "the defended model is no control"
    assert uncontrolled(attacked(-3)[0], {}) == "", "without the mean image nothing is known"
    table = agreement_table([replace(study(), uncontrolled=FLAG)])
    assert {value.missing for row in table.rows for value in row.values.values()} == {FLAG}


def test_blocks_become_a_study_and_few_models_none() -> None:
    s = study()
    scores = came_back(s, np.arange(MODELS) / 2)
    rebuilt = Study.of(scores)
    assert rebuilt is not None
    assert (rebuilt.models, rebuilt.who) == (s.models, "people")
    np.testing.assert_array_equal(rebuilt.scores["mse"], s.scores["near"])
    np.testing.assert_array_equal(rebuilt.scores["set"], np.arange(MODELS)[:, None] / 2)
    scores.values["score"][2][0, :3] = np.nan
    remaining = Study.of(scores)
    assert remaining is not None
    np.testing.assert_array_equal(remaining.people, s.people[:, 3:])
    np.testing.assert_array_equal(remaining.scores["mse"], s.scores["near"][:, 3:])
    scores.values["score"][0][1, 7] = np.nan
    without = Study.of(scores)
    assert without is not None
    np.testing.assert_array_equal(without.scores["mse"], np.delete(s.scores["near"][:, 3:], 4, axis=1))
    scores.values["score"][2][5:] = np.nan
    assert Study.of(scores) is None


def test_the_matrix_that_figure_3_points_to_is_the_one_of_the_paper_profile() -> None:
    settings = load_profile("paper").tracks["harness/reconstruction"]
    (dataset,) = (installed().one("dataset", d).label for d in settings.select["dataset"] if "cifar100" in d)
    attack = installed().one("attack", "invgrad").with_parameters(**settings.parameters["harness/invgrad"]).label
    s = replace(study(), dataset=dataset, attack=attack, state="trained")
    (column,) = find_table("reconstruction/figure-3").columns
    assert column.ours.partition(":")[0] == matrix_table(s, "tau").id
