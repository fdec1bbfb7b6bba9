"""Scores that are small, nearly constant, or flat where attacks lead do not improve the rank of an entry."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, ttest_1samp
from tests.iqa_rows import Finished, rows, written
from tests.truth.test_iqa import BASELINE, column, leaderboard_of, ran

from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness_iqa.tables import report
from imharness_iqa.tables.order import Others

PROFILE = """
name = "truth"
description = "Defenses that make scores small, and protect nobody."
[tracks."harness/iqa"]
select = { dataset = ["acme/patterns"], metric = ["light/brightness", "light/darkness"], attack = ["harness/ifgsm", "harness/square"], defense = ["harness/none", "harness/squeeze", "harness/crush", "harness/flat", "acme/damper", "acme/picture", "acme/bent", "acme/inflated"] }
options = { strengths = ["strong"], shown = [] }
parameters."harness/square" = { queries = 15 }
"""  # noqa: E501
CONTROLS = ("harness/squeeze", "harness/crush")
RESCALED = (*CONTROLS, "acme/damper", "acme/picture", "acme/bent")


@pytest.fixture(scope="module")
def leaderboard(tmp_path_factory: pytest.TempPathFactory, harness_forked) -> dict:
    return leaderboard_of(ran(tmp_path_factory.mktemp("rescaling"), harness_forked, PROFILE))


def test_small_scores_have_a_small_d_d_and_turn_as_many_pairs(leaderboard: dict) -> None:
    small, worst = column(leaderboard, "dd_worst", "cost"), column(leaderboard, "worst", "ranking")
    for label in RESCALED:
        assert small[label]["value"] < 0.6 * small[BASELINE]["value"], label
        assert worst[label]["value"] >= worst[BASELINE]["value"] - 1e-4, label
    assert small["acme/picture"]["value"] < small[BASELINE]["value"] / 50


@pytest.mark.parametrize("label", CONTROLS)
def test_the_controls_equal_the_undefended_metric_within_its_interval(label: str, leaderboard: dict) -> None:
    unaware, worst = (column(leaderboard, key, "ranking") for key in ("unaware", "worst"))
    assert unaware[label]["value"] == unaware[BASELINE]["value"]
    assert worst[BASELINE]["low"] <= worst[label]["value"] <= worst[BASELINE]["high"]
    position = leaderboard["rankings"][0]["places"][label]
    assert (position["control"], position["complete"], position["gate"] != "fails") == (
        {"harness/squeeze": "squeezed scores", "harness/crush": "crushed scores"}[label],
        True,
        True,
    )


def test_nobody_wins_by_it(leaderboard: dict) -> None:
    (ranking,) = leaderboard["rankings"]
    assert ranking["winner"] == ""
    assert ranking["outcome"] == "bound"


def test_one_picture_for_all_fails_the_gate_on_fidelity(leaderboard: dict) -> None:
    (ranking,) = leaderboard["rankings"]
    assert ranking["places"]["acme/picture"]["gate"] == "fails"
    assert ranking["places"]["acme/damper"]["gate"] in ("passes", "undecided")
    costs = [
        finding["why"]
        for finding in ranking["findings"]
        if (finding["kind"], finding["entry"]) == ("costs", "acme/picture")
    ]
    assert "image fidelity (SSIM), at least 0.5; an image counts up to 0.6" in costs
    srocc = column(leaderboard, "utility", "ranking")
    assert srocc["acme/picture"]["value"] == pytest.approx(srocc[BASELINE]["value"], abs=0.01)


def test_who_spreads_clean_scores_by_a_key_of_the_image_fails_the_gate_on_the_order(leaderboard: dict) -> None:
    """Few pairs are reversed, because scores are far apart, but their order says nothing about quality."""
    worst, srocc = column(leaderboard, "worst", "ranking"), column(leaderboard, "utility", "ranking")
    assert worst["acme/inflated"]["value"] < worst[BASELINE]["value"] / 3
    assert srocc["acme/inflated"]["value"] < leaderboard["rankings"][0]["gate"]
    assert leaderboard["rankings"][0]["places"]["acme/inflated"]["gate"] == "fails"


def test_an_inflated_order_fails_by_the_order_alone(finished: Finished) -> None:
    """The same holds for an entry that changes scores and leaves images as they are."""
    rng = np.random.default_rng(0)
    clean = {BASELINE: np.arange(40.0) / 10, "x/keyed": rng.permutation(40) * 10.0}
    tables = tables_of(finished, clean, {label: values + 1.0 for label, values in clean.items()})
    assert tables["x/keyed"][0] == 0 < tables[BASELINE][0]
    position = report(finished.query(), 0.05, 0.5).rankings[0].places["x/keyed"]
    assert position.gate == "fails"


def test_one_score_for_all_has_no_number_and_is_never_first(leaderboard: dict) -> None:
    rank, worst = (column(leaderboard, key, "ranking")["harness/flat"] for key in ("rank", "worst"))
    assert worst["missing"].startswith("not defined: the scores of clean images are nearly equal")
    assert rank["value"] is None
    table = next(t for t in leaderboard["tables"] if t["id"] == "ranking")
    assert table["rows"][-1]["label"] == "harness/flat"


@pytest.mark.parametrize("factor", [1e-6, 0.0])
def test_scores_that_differ_by_less_than_can_be_told_are_not_defined(factor: float, finished: Finished) -> None:
    untouched = np.linspace(2, 8, 20)
    clean = {BASELINE: untouched, "x/tiny": 5 + factor * untouched}
    tables = tables_of(finished, clean, {BASELINE: untouched + 1, "x/tiny": 5 + factor * (untouched + 1)})
    assert tables[BASELINE][0] > 0
    assert tables["x/tiny"] == (None, None)


def tables_of(finished: Finished, clean: dict, attacked: dict) -> dict[str, tuple[float | None, float | None]]:
    """Return by defense the share of pairs reversed and the shift in spreads."""
    n = len(clean[BASELINE])
    columns: dict[str, list] = {}
    for label, scores in clean.items():
        more = rows(attacked[label].tolist(), clean[BASELINE].tolist(), defense=[label] * n, defended=scores.tolist())
        columns = {name: [*columns.get(name, []), *values] for name, values in more.items()}
    written(finished, columns)
    tables = {table.id: table for table in report(finished.query(), 0.05).tables}
    turned, shift = (
        {row.label: row.values[key].value for row in tables[table].rows}
        for table, key in (("ranking", "worst"), ("cost", "shift"))
    )
    return {label: (turned[label], shift[label]) for label in clean}


def test_a_map_that_is_flat_where_attacks_lead_makes_the_shift_in_spreads_small_and_not_the_pairs(
    finished: Finished,
) -> None:
    """So the shift in spreads does not rank entries: the order of images is as broken as before."""
    rng = np.random.default_rng(0)
    untouched = rng.uniform(2, 8, 30)
    attacked = untouched + rng.uniform(20, 40, 30)

    def bent(scores: np.ndarray) -> np.ndarray:
        return np.where(scores < 8, scores, 8 + 1e-3 * (scores - 8))

    tables = tables_of(
        finished, {BASELINE: untouched, "x/bent": bent(untouched)}, {BASELINE: attacked, "x/bent": bent(attacked)}
    )
    assert tables["x/bent"][0] == pytest.approx(tables[BASELINE][0])
    assert tables["x/bent"][1] < tables[BASELINE][1] / 5


@given(seed=st.integers(0, 2**32 - 1), power=st.floats(0.2, 5), factor=st.floats(1e-3, 1e3), ties=st.booleans())
def test_no_increasing_map_changes_the_pairs_reversed(seed: int, power: float, factor: float, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    scores, moved = rng.uniform(1, 2, 25), rng.uniform(1, 2, 25)
    if ties:
        scores, moved = scores.round(1), moved.round(1)
    photographs = rng.integers(0, 9, 25)

    def mapped(scores: np.ndarray) -> np.ndarray:
        return factor * np.sign(scores - 1.5) * np.abs(scores - 1.5) ** power

    plain = Others.of(scores, photographs).passed(scores, moved, photographs)
    other = Others.of(mapped(scores), photographs).passed(mapped(scores), mapped(moved), photographs)
    np.testing.assert_array_equal(plain, other)
    for i in range(25):
        turned = [
            np.sign(scores[i] - scores[j]) != np.sign(moved[i] - scores[j])
            for j in range(25)
            if photographs[j] != photographs[i]
        ]
        assert plain[i] == pytest.approx(np.mean(turned))


def test_equal_scores_gain_nothing() -> None:
    """Ten scores have two levels, and an attack raises all to the upper one: equal pairs then count as reversed."""
    photographs = np.arange(10)
    levels = np.repeat([0.0, 1.0], 5)
    passed = Others.of(levels, photographs).passed(levels, np.ones(10), photographs)
    np.testing.assert_array_equal(passed, np.repeat([1.0, 0.0], 5))
    assert np.isnan(Others.of(levels, np.zeros(10, int)).passed(levels, levels, np.zeros(10, int))).all()


@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_a_difference_of_two_entries_holds_its_level_though_both_have_a_ruler_of_their_own(shift: float) -> None:
    """Attacks move the scores of two entries by equally many of their own spreads in truth (30 photographs)."""
    wrong, studies = 0, 400
    for seed in range(studies):
        rng = np.random.default_rng(seed)
        levels, gains = rng.normal(size=30), []
        for spread in (1.0, 0.01):
            clean = spread * (levels + rng.normal(0, 0.2, 30))
            moved = clean + spread * shift * np.exp(rng.normal(0, 0.5, 30))
            gains.append(Others.of(clean, np.arange(30)).passed(clean, moved, np.arange(30)))
        wrong += ttest_1samp(gains[0] - gains[1], 0).pvalue < 0.05
    assert wrong <= studies * 0.05 + 2 * (studies * 0.05 * 0.95) ** 0.5


def test_the_mean_over_images_is_unbiased() -> None:
    """Normal scores that rise by one standard deviation pass Phi(x + 1) - Phi(x) of the others; its mean is .260."""
    drawn = np.random.default_rng(0).normal(size=(2000, 12))
    means = [np.mean(Others.of(scores, np.arange(12)).passed(scores, scores + 1, np.arange(12))) for scores in drawn]
    truth = norm.cdf(1 / 2**0.5) - 0.5
    assert np.mean(means) == pytest.approx(truth, abs=4 * np.std(means) / 2000**0.5)


def test_the_controls_stand_in_every_profile_of_the_track() -> None:
    for name in ("embedded", "quick", "kodak", "paper"):
        profile = load_profile(name)
        selected = profile.tracks["harness/iqa"].select["defense"]
        named = {label.removeprefix("harness/") for label in selected}
        assert "*" in named or {"squeeze", "crush"} <= named, name
    tasks = plan_track("harness/iqa", load_profile("quick"), installed()).tasks.values()
    met = {
        t.spec.components["defense"].label for t in tasks if t.spec.step == "evaluate" and t.spec.options["adaptive"]
    }
    assert met >= set(CONTROLS)


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    return Finished(tmp_path)
