"""Who wins: worst case, controls, gates and intervals of ranks, on scores whose truth is known beforehand."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imharness.leaderboard import (
    Blocks,
    Column,
    Contest,
    Value,
    Wins,
    Words,
    common,
    contest,
    differences,
    front,
    share_of,
)
from imharness.tracks import TrackReport

ATTACKS = (("fgsm", "fixed"), ("pgd", "fixed"), ("pgd", "adaptive"))
PROTECTION = Column(
    "d", "D", "Change of the score, %.", "lower", 2, wins=Wins("wins", "Who", "lower D"), cluster="photograph"
)
WORDS = Words("holds best", lambda x: f"{x:.1f}", "D", "takes more than {bound} off the {plain} {of} {without}")
UTILITY = {"none": 0.9, "good": 0.88, "late": 0.88, "costly": 0.5}


def blocks(scores: Mapping[str, np.ndarray], clusters: int, settings=ATTACKS) -> Blocks:
    """Return scores (entry -> ``(settings, units)``) as blocks; units are spread over `clusters` photographs."""
    entries = tuple(sorted(scores))
    n = next(iter(scores.values())).shape[1]
    names = np.array([f"i{k:03d}" for k in range(n)], dtype=object)
    photographs = np.array([f"p{k % clusters}" for k in range(n)], dtype=object)
    return Blocks(
        entries,
        tuple({"attack": a, "attacker": k, "metric": "m"} for a, k in settings),
        (names,) * len(settings),
        {"d": tuple(np.stack([scores[e][c] for e in entries]) for c in range(len(settings)))},
        {"photograph": (photographs,) * len(settings)},
    )


def beside(utility: Mapping[str, float], label: str, undefended: str = "none", **_: object):
    """Return what 20 photographs add to the utility of an entry and of the undefended one; None without a number."""
    noise = 0.002 * np.where(np.arange(20) % 2, 1, -1)
    return (utility[label] + noise, utility[undefended] - noise) if {label, undefended} <= set(utility) else None


def ranked(
    scores: Mapping[str, np.ndarray], clusters: int = 10, utility=UTILITY, protection=PROTECTION, **more
) -> TrackReport:
    """Return the ranking of entries by their scores, ``(settings, units)`` each; `more`: facts of the contest."""
    gate = share_of("SROCC clean", more.get("undefended", "none"), 0.05, lambda label: beside(utility, label, **more))
    facts = {"controls": {"none": "undefended"}, "undefended": "none", "words": WORDS, "gates": [gate], **more}
    value = lambda label: Value(value=utility[label]) if label in utility else Value(missing="no model")  # noqa: E731
    column = Column("srocc", "SROCC clean", "Clean.", "higher", value=value)
    rules = Contest(blocks(scores, clusters), protection, column, **facts)
    return contest(rules, id="ranking", title="Ranking", caption="", entry="defense")


def levels(seed: int, *means: float, n: int = 30) -> np.ndarray:
    """Return scores of n images under attacks, ``(len(means), n)``: normal noise around each mean, never negative."""
    return np.abs(np.random.default_rng(seed).normal(0, 0.3, (len(means), n)) + np.array(means)[:, None])


def test_a_defense_that_one_adaptive_attack_breaks_does_not_win() -> None:
    """In the mean over attacks "late" is better (1, 1, 9 against 5, 5, 5): the attack that knows it breaks it."""
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 1, 1, 9)}
    result = ranked(scores)
    (ranking,), rows = result.rankings, {row.label: row.values for row in result.tables[0].rows}
    assert ranking.winner == "good"
    worst = np.max(scores["late"], axis=0).mean()
    assert rows["late"]["worst"].value == pytest.approx(worst)
    assert rows["late"]["aware"].value == pytest.approx(scores["late"][2].mean())
    assert rows["late"]["unaware"].value == pytest.approx(scores["late"][1].mean())
    gain = rows["good"]["gain"]
    assert gain.low < gain.value < gain.high < 0
    assert [row.label for row in result.tables[0].rows] == ["good", "late", "none"]
    assert list(ranking.places["late"].broken_by) == ["pgd"]
    assert rows["good"]["rank"] == Value(value=1, low=1, high=1)
    assert rows["late"]["behind"].low < worst - np.max(scores["good"], axis=0).mean() < rows["late"]["behind"].high
    good = np.max(scores["good"], axis=0).mean()
    undefended = np.max(scores["none"], axis=0).mean()
    assert ranking.claim == f"good holds best: {good:.1f} D, {undefended:.1f} without a defense."


def test_what_costs_too_much_or_is_a_control_does_not_win() -> None:
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "costly": levels(2, 1, 1, 1)}
    result = ranked({**scores, "constant": levels(3, 0, 0, 0)}, controls={"none": "undefended", "constant": "constant"})
    places = result.rankings[0].places
    worst = {
        label: np.max(values, axis=0).mean() for label, values in {**scores, "constant": levels(3, 0, 0, 0)}.items()
    }
    assert result.rankings[0].claim == (
        f"constant (constant) beats every defense that may win: {worst['constant']:.1f} D, good {worst['good']:.1f}."
    )
    without = ranked(scores).rankings[0]
    assert (without.winner, without.may_be_best) == ("good", ("good",))
    assert result.rankings[0].gate == pytest.approx(0.9 * 0.95)
    assert (places["good"].gate, places["costly"].gate, places["constant"].gate) == ("passes", "fails", "not measured")
    assert {label for label, position in places.items() if position.front} == {"good", "costly", "none"}
    nobody = ranked({"none": scores["none"], "costly": scores["costly"]}).rankings[0].claim
    assert nobody == "No defense may win: 1 costs too much."


def test_without_a_difference_to_a_control_or_with_few_photographs_there_is_no_winner() -> None:
    same = {"none": levels(0, 20, 20, 20), "good": levels(1, 20, 20, 20) - 0.02}
    assert not ranked(same).rankings[0].winner
    assert ranked(same).rankings[0].claim.startswith("No defense that may win takes more than 0.")
    few = ranked({"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5)}, clusters=4, proxies=("labels",))
    assert few.rankings[0].claim == "4 photographs are too few to compare any defense with no defense."
    assert few.rankings[0].proxies == ("labels",)
    assert few.tables[0].rows[0].values["rank"] == Value(value=1)
    assert few.rankings[0].places["good"].headline[0].startswith("good is not compared with none: ")


def test_what_a_finding_shows_to_be_better_than_none_is_not_said_to_be_level_with_it() -> None:
    """Between the level of "better than no defense", 4 % one-sided, and that of a win, 2.5 %, there is room.

    The t of the differences over five photographs is 2.7; a win needs 2.78.
    """
    pattern = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    pattern *= np.sqrt(5) / 2.7 / pattern.std(ddof=1)
    scores = {"none": 20 + np.zeros((3, 5)), "good": np.tile(19 + pattern, (3, 1))}
    (ranking,) = ranked(scores, 5).rankings
    assert (ranking.winner, ranking.not_behind, ranking.places["good"].against.verdict) == ("", ("none",), "better")
    assert next(f.text for f in ranking.findings if f.kind == "better").startswith("good is better than none: ")
    assert ranking.claim == "No winner. good leads with 19.0 D, 20.0 without a defense; a win needs more photographs."


def test_rounding_to_32_bits_crowns_nobody() -> None:
    """Two entries have the same mean: one is ahead by a tenth on nine of ten units, and far behind on the other.

    With 12 units the rare ones are missing in 28 % of studies. Then all differences are equal, but tenths are
    rounded to 32 bits. An earlier version took the rounding for a spread, and crowned an entry in 21 % of studies; it
    crowned none where the same scores are whole numbers.
    """
    winners = {1.0: 0, 0.1: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        plain = rng.integers(9, 19, 12)
        ahead = plain + np.where(rng.random(12) < 0.9, -1, 9)
        for unit in winners:
            scores = {"none": plain + 20, "good": ahead, "late": plain}
            scores = {label: np.tile(values * unit, (3, 1)) for label, values in scores.items()}
            winners[unit] += ranked(scores, 12).rankings[0].winner == "good"
    assert winners[0.1] == winners[1.0] <= 0.06 * 60


def test_of_a_difference_near_zero_no_exact_number_of_units_is_told() -> None:
    none = levels(0, 20, 20, 20)
    sides = np.where(np.arange(none.shape[1]) % 2, 1.0, -1.0)  # half of the photographs are better, half are worse
    for mean, count in ((0.001, "more than 1,000 photographs would settle it"), (0.2, "; about ")):
        (finding,) = ranked({"none": none, "good": none + sides - mean}).rankings[0].findings
        assert (finding.kind, count in finding.text) == ("undecided", True)
    (level,) = ranked({"none": none, "good": none.copy()}).rankings[0].findings
    assert "would settle it" not in level.text


def test_an_entry_that_met_less_has_no_place_stands_on_no_front_and_never_wins() -> None:
    """The only number of "costly", 3, is the best of the table, but under that attack two others have 1 and 2."""
    lone = np.full((3, 30), np.nan)
    lone[0] = levels(5, 3)[0]
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 1, 5, 5), "late": levels(2, 2, 9, 9), "costly": lone}
    result = ranked(scores, utility={**UTILITY, "costly": 0.9})
    rows, places = {row.label: row.values for row in result.tables[0].rows}, result.rankings[0].places
    assert rows["costly"]["rank"].value is None
    assert "not complete" in rows["costly"]["rank"].missing
    assert rows["costly"]["coverage"].value == pytest.approx(100 / 3)
    assert not places["costly"].complete
    assert {label for label, position in places.items() if position.front} == {"good", "none"}
    assert result.rankings[0].winner == "good"
    assert [rows[label]["rank"] for label in ("good", "late")] == [
        Value(value=number, low=number, high=number) for number in (1, 2)
    ]


def test_a_control_has_no_place_and_takes_none_from_an_entry() -> None:
    """A constant is ahead of both entries, and no defense lies between them."""
    scores = {"constant": levels(0, 1, 1, 1), "good": levels(1, 5, 5, 5), "none": levels(2, 9, 9, 9)}
    controls = {"none": "undefended", "constant": "constant"}
    result = ranked({**scores, "late": levels(3, 15, 15, 15)}, controls=controls)
    rows = {row.label: row.values for row in result.tables[0].rows}
    assert [row.label for row in result.tables[0].rows] == ["good", "late", "constant", "none"]
    assert rows["good"]["rank"] == Value(value=1, low=1, high=1)
    assert rows["late"]["rank"] == Value(value=2, low=2, high=2)
    for label in controls:
        assert rows[label]["rank"].value is None
        assert rows[label]["rank"].missing == "controls have no rank"
    assert rows["good"]["behind"].missing == "no entry is ahead"
    gap = np.max(scores["none"], axis=0).mean() - np.max(scores["good"], axis=0).mean()
    assert rows["none"]["behind"].missing == "controls have no rank"
    assert rows["good"]["gain"].value == pytest.approx(-gap)


def test_scores_that_are_withheld_where_an_attack_succeeds_win_nothing() -> None:
    """The cheat returns NaN for the images on which it would look bad."""
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 1, 1, 1)}
    scores["late"][2, ::2] = np.nan
    result = ranked(scores)
    assert result.rankings[0].winner == "good"
    assert {row.label: row.values["rank"].value for row in result.tables[0].rows}["good"] == 1


@pytest.mark.parametrize("prefix", ["harness/", "acme/"])
def test_who_was_measured_on_further_images_takes_nobody_s_place(prefix: str) -> None:
    """Once, one more image of "bad/late" alone made every other entry incomplete, and "bad/late" the winner."""
    wide = {
        f"{prefix}{label}": np.pad(levels(i, *[mean] * 3), ((0, 0), (0, 1)), constant_values=np.nan)
        for i, (label, mean) in enumerate({"none": 20, "good": 5, "fair": 8}.items())
    }
    scores = {**wide, "bad/late": levels(2, 15, 15, 15, n=31)}
    facts = {
        "utility": dict.fromkeys(scores, 0.9),
        "undefended": f"{prefix}none",
        "controls": {f"{prefix}none": "undefended"},
    }
    result = ranked(scores, **facts)
    assert {position.complete for position in result.rankings[0].places.values()} == {True}
    assert result.rankings[0].winner == f"{prefix}good"
    alone = {label: values[:, :30] for label, values in scores.items()}
    assert result.rankings[0].findings == ranked(alone, **facts).rankings[0].findings


def test_many_entries_that_withhold_an_attack_do_not_take_it_out_of_the_contest() -> None:
    scores = {"harness/none": levels(0, 20, 20, 20), "harness/good": levels(1, 5, 5, 5), "late": levels(2, 1, 1, 19)}
    for i in range(4):
        scores[f"silent{i}"] = levels(9 + i, 30, 30, 30)
        scores[f"silent{i}"][2] = np.nan
    ranking = ranked(scores, utility=dict.fromkeys(scores, 0.9), undefended="harness/none").rankings[0]
    assert ranking.winner == "harness/good"
    assert {label for label, position in ranking.places.items() if position.complete} == {
        "harness/none",
        "harness/good",
        "late",
    }


def test_a_setting_counts_by_half_of_the_harness_s_own_entries_or_of_all_where_it_has_none() -> None:
    entries = ["harness/a", "harness/b", "harness/m + harness/d", "harness/m + acme/d", "acme/x"]
    had = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 1, 1, 1, 1]], dtype=bool)
    assert common(entries, had).tolist() == [True, False, False, True]
    assert common(["acme/x", "acme/y"], np.array([[1, 0], [0, 0]], dtype=bool)).tolist() == [True, False]


@pytest.mark.parametrize("crowd", [4, 40])
def test_no_crowd_of_strangers_adds_a_setting_that_the_harness_s_own_entries_never_met(crowd: int) -> None:
    """If this setting counted, all entries but those of the crowd would be incomplete."""
    scores = {
        "harness/none": levels(0, 20, 20, 20),
        "harness/good": levels(1, 5, 5, 5),
        "acme/fair": levels(2, 9, 9, 9),
    }
    alone = np.full((1, 30), np.nan)
    met = {label: np.concatenate([values, alone]) for label, values in scores.items()}
    met |= {f"bad/{i:02d}": levels(9 + i, 12, 12, 12, 1) for i in range(crowd)}
    gate = share_of("U", "harness/none", 0.05, lambda label: (np.ones(20), np.ones(20)))
    rules = Contest(
        blocks(met, 10, (*ATTACKS, ("own", "adaptive"))),
        PROTECTION,
        Column("u", "U", "U.", "higher", value=lambda _: Value(value=1)),
        "harness/none",
        WORDS,
        [gate],
        controls={"harness/none": "undefended"},
    )
    result = contest(rules, id="r", title="", caption="", entry="defense")
    assert {row.values["coverage"].value for row in result.tables[0].rows} == {100}
    assert result.rankings[0].winner == "harness/good"


def test_flagged_entries_do_not_win() -> None:
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 1, 1, 1)}
    assert ranked(scores).rankings[0].winner == "late"
    flagged = ranked(scores, flags={"late": ("more steps lowered the attack's success",)})
    assert flagged.rankings[0].winner == "good"


def test_a_setting_that_few_entries_have_does_not_count() -> None:
    scores = {name: levels(i, 5, 5, 5) for i, name in enumerate(("none", "good", "late", "costly", "sixth"))}
    alone = np.full_like(scores["good"], np.nan)
    six = {name: np.concatenate([values, alone[:1]]) for name, values in scores.items()}
    six["late"][3] = 99.0
    score_blocks = blocks(six, 10, (*ATTACKS, ("own", "adaptive")))
    rules = Contest(
        score_blocks, PROTECTION, Column("u", "U", "U.", "higher", value=lambda _: Value(value=1)), "none", WORDS, ()
    )
    result = contest(rules, id="r", title="", caption="", entry="defense")
    assert {row.values["coverage"].value for row in result.tables[0].rows} == {100}
    assert max(row.values["worst"].value for row in result.tables[0].rows) < 10


@pytest.mark.parametrize("clusters", [None, 8])
def test_under_the_null_the_interval_of_a_rank_fails_as_often_as_it_says(clusters: int | None) -> None:
    """Six equal entries: each may hold any place, and the interval must say so in 95% of the studies."""
    generator, failed, studies = np.random.default_rng(7), 0, 300
    names = None if clusters is None else np.repeat(np.arange(clusters), 5)
    for _ in range(studies):
        if names is None:
            gains = generator.normal(size=(6, 40))
        else:
            gains = generator.normal(size=(6, clusters))[:, names] + 0.3 * generator.normal(size=(6, len(names)))
        failed += differences(gains, names, resamples=500).places(0) != (1, 6)
    assert failed / studies < 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_nobody_on_the_front_is_beaten_and_everybody_else_is(points) -> None:
    first, second = np.array(points, dtype=float).T
    for i, on_front in enumerate(front(first, second)):
        beaten = ((first >= first[i]) & (second >= second[i]) & ((first > first[i]) | (second > second[i]))).any()
        assert on_front == (not beaten)


def silent_where_missing(score_blocks: Blocks) -> Contest:
    """Return the rules of a contest in which an attack says nothing where it has no number; utilities are equal."""
    met = tuple(np.isnan(values).astype(float) for values in score_blocks.values["d"])
    return Contest(
        replace(score_blocks, values={**score_blocks.values, "silent": met}),
        PROTECTION,
        Column("u", "U", "U.", "higher", value=lambda _: Value(value=1.0)),
        "none",
        WORDS,
        gates=(),
        controls={"none": "undefended"},
        met="silent",
    )


def test_the_front_compares_entries_on_the_units_that_both_have() -> None:
    """No attack converged on the easy half for "good": its mean is larger than that of "late", which it beats."""
    hard = np.where(np.arange(30) % 2, 10.0, 0.0)
    scores = {"none": levels(0, 30, 30, 30), "good": levels(1, 5, 5, 5) + hard, "late": levels(2, 8, 8, 8) + hard}
    scores["good"][:, ::2] = np.nan
    score_blocks = blocks(scores, 30)
    result = contest(silent_where_missing(score_blocks), id="r", title="", caption="", entry="defense")
    (ranking,), rows = result.rankings, {row.label: row.values["worst"].value for row in result.tables[0].rows}
    assert rows["good"] > rows["late"] + 1
    assert ranking.winner == ranking.first == "good"
    assert {label for label, position in ranking.places.items() if position.front} == {"good"}


def test_an_attack_that_says_nothing_is_not_withheld_by_the_entry() -> None:
    """On half of the images pgd did not converge for "good": the others count there, and "good" stays complete."""
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 8, 8, 8)}
    scores["good"][2, ::2] = np.nan
    score_blocks = blocks(scores, 10)
    rules = silent_where_missing(score_blocks)
    result = contest(rules, id="r", title="", caption="", entry="defense")
    rows = {row.label: row.values for row in result.tables[0].rows}
    assert result.rankings[0].winner == "good"
    assert result.rankings[0].silent == {"good": tuple(range(60, 90, 2))}
    assert rows["good"]["coverage"].value == 100
    assert rows["good"]["worst"].value == pytest.approx(np.nanmax(scores["good"], axis=0).mean())
    without = contest(replace(rules, met=""), id="r", title="", caption="", entry="defense")
    assert without.rankings[0].winner == "late"


def test_an_entry_of_which_nothing_is_known_stands_last_with_its_reason() -> None:
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": np.full((3, 30), np.nan)}
    score_blocks = blocks(scores, 10)
    silent = tuple(np.isnan(block).astype(float) for block in score_blocks.values["d"])
    rules = Contest(
        replace(score_blocks, values={**score_blocks.values, "silent": silent}),
        PROTECTION,
        Column("u", "U", "U.", "higher", value=lambda _: Value(value=1.0)),
        "none",
        WORDS,
        gates=(),
        controls={"none": "undefended"},
        met="silent",
        unknown={"late": "no attack converged"},
    )
    result = contest(rules, id="r", title="", caption="", entry="defense")
    last = [row for row in result.tables[0].rows if not result.rankings[0].places[row.label].control][-1]
    assert (last.label, last.values["worst"].missing) == ("late", "no attack converged")
    assert not result.rankings[0].places["late"].complete
    assert result.rankings[0].winner == "good"


@pytest.mark.parametrize("clusters", [False, True])
def test_families_weigh_the_same_however_many_units_they_have(clusters: bool) -> None:
    """Over all units "many" has the lower mean; over families "few" has, and the interval covers the truth."""
    generator, sizes = np.random.default_rng(4), {"large": 90, "small": 30}
    means = {"many": {"large": 1.0, "small": 6.0}, "few": {"large": 3.0, "small": 2.0}, "none": dict.fromkeys(sizes, 9)}
    conditions = tuple({"attack": "a", "attacker": "fixed", "family": name} for name in sizes)
    units = tuple(np.array([f"{name}{k:02d}" for k in range(n)], dtype=object) for name, n in sizes.items())
    photographs = tuple(np.array([f"p{k % 30}" if clusters else u for k, u in enumerate(names)]) for names in units)
    covered, placed = [], []
    for _ in range(40):
        values = tuple(
            np.stack([generator.normal(means[e][name], 1, n) for e in sorted(means)]) for name, n in sizes.items()
        )
        score_blocks = Blocks(tuple(sorted(means)), conditions, units, {"d": values}, {"photograph": photographs})
        rules = Contest(
            score_blocks,
            PROTECTION,
            Column("u", "U", "U.", "higher", value=lambda _: Value(value=1.0)),
            "none",
            WORDS,
            gates=(),
            controls={"none": "undefended"},
            balanced="family",
        )
        result = contest(rules, id="r", title="", caption="", entry="metric")
        rows = {row.label: row.values for row in result.tables[0].rows}
        few = [block[0].mean() for block in values]
        assert rows["few"]["worst"].value == pytest.approx(np.mean(few))
        assert rows["few"]["unaware"].value == pytest.approx(np.mean(few))
        covered.append(rows["many"]["behind"].low <= 1.0 <= rows["many"]["behind"].high)
        placed.append(result.rankings[0].may_be_best[0] == "few")
    assert sum(covered) >= 35
    assert all(placed)
    assert result.rankings[0].balanced == "family"


def test_of_a_utility_that_is_0_without_a_defense_nothing_may_be_lost() -> None:
    gate = share_of("U", "none", 0.05, lambda label: (np.full(20, -0.1), np.tile([1.0, -1.0], 10)))
    np.testing.assert_allclose(gate.above("x"), -0.1 - np.tile([1.0, -1.0], 10))
