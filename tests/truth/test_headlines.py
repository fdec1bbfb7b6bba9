"""What the headline of a ranking says and omits, on simulated scores.

``levels(seed, a, b, c)``: the scores of 30 images under three attacks, with noise around a, b and c. Lower is better,
and the third attack knows the defense.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.recomputed import of_report
from tests.verdicts import of_report as contradictions_in

from imharness.documents.pairwise import pairwise_intervals
from imharness.leaderboard import Column, Contest, SecondaryMeasure, Value, Wins, Words, contest, share_of
from imharness.ranking.headline import LONGEST
from imharness.tracks import TrackReport

from .test_policy import PROTECTION, WORDS, blocks, levels, ranked


def test_a_headline_says_of_each_entry_what_keeps_it_from_winning_and_nothing_else() -> None:
    """A flagged entry may have full utility; the utility of an unmeasured entry is unknown."""
    short = levels(4, 3, 3, 3)
    short[2, ::2] = np.nan
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": short, "costly": levels(2, 1, 1, 1)}
    flags = {"good": ("a black box did better",)}
    accuracy = {"none": 0.9, "good": 0.9, "late": 0.9, "costly": 0.5}
    ranking = ranked(scores, flags=flags, utility=accuracy).rankings[0]
    assert ranking.outcome == "nobody"
    assert ranking.claim == "No defense may win: 1 costs too much; 1 is flagged; 1 is incomplete."
    both = (
        ranked({**scores, "same": scores["costly"]}, flags=flags, utility={**accuracy, "same": 0.5}).rankings[0].claim
    )
    assert "2 cost too much" in both
    again = {"flags": dict.fromkeys(("good", "odd"), flags["good"]), "utility": {**accuracy, "odd": 0.9}}
    most = ranked({**scores, "odd": scores["good"]}, **again).rankings[0].claim
    assert most == "No defense may win: 2 are flagged; 1 costs too much; 1 is incomplete."
    partial = {label: value for label, value in accuracy.items() if label != "costly"}
    alone = ranked({**scores, "best": levels(7, 4, 4, 4)}, flags=flags, utility={**partial, "best": 0.9}).rankings[0]
    assert (alone.winner, alone.outcome) == ("best", "winner")
    assert ranked({"none": scores["none"]}).rankings[0].claim == "No defense was measured beside the controls."


@pytest.mark.parametrize(("undefined", "whose"), [(("none", "good", "late"), "none"), (("good", "late"), "good")])
def test_a_utility_that_is_not_defined_is_said_to_be_so(undefined: tuple[str, ...], whose: str) -> None:
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 6, 6, 6)}
    score_blocks = blocks(scores, 10)
    why = "in every condition all images have the same score, or fewer than 3 have one"
    values = {label: Value(missing=why) if label in undefined else Value(value=0.9) for label in scores}
    rules = Contest(
        score_blocks,
        PROTECTION,
        Column("srocc", "SROCC", "S.", "higher", value=lambda label: values[label]),
        "none",
        WORDS,
        gates=[share_of("SROCC", "none", 0.05, lambda _: None)],
        controls={"none": "undefended"},
    )
    (ranking,) = contest(rules, id="r", title="", caption="", entry="defense").rankings
    assert ranking.winner == ""
    assert ranking.outcome == "nobody"
    if whose == "none":
        assert ranking.claim == "No defense may win: SROCC without a defense is not defined."
    else:
        assert ranking.claim == "No defense may win: 2 were not measured on all that has to be kept."


def test_where_nothing_is_defined_there_is_a_table_without_places() -> None:
    """Images of one photograph have no order: no entry has a number, and none is ahead."""
    nothing = {label: np.full((3, 4), np.nan) for label in ("none", "good")}
    result = ranked(nothing, unknown=dict.fromkeys(nothing, "of one photograph"))
    assert result.rankings[0].winner == ""
    assert [row.values["worst"].missing for row in result.tables[0].rows] == ["of one photograph"] * 2


def test_one_entry_alone_wins_nothing_and_of_two_without_a_control_the_better_one_does() -> None:
    assert ranked({"good": levels(1, 5, 5, 5)}).rankings[0].outcome == "leader"
    scores = {"good": levels(1, 5, 5, 5), "late": levels(2, 6, 6, 6)}
    assert ranked(scores).rankings[0].winner == "good"
    assert "without" not in ranked(scores).rankings[0].claim


def test_no_sentence_rounds_what_is_shown_to_nothing_or_what_lacks_to_everything() -> None:
    scores = {"none": 1e-4 * levels(0, 20, 20, 20), "good": 1e-4 * levels(1, 5, 5, 5)}
    sentences = {finding.kind: finding.text for finding in ranked(scores).rankings[0].findings}
    assert {finding.unit for finding in ranked(scores).rankings[0].findings} == {"photograph"}
    assert "gain +0.0015 [+0.0015, +0.0015]" in sentences["better"]
    short = {name: levels(i, 5, 5, 5, n=300) for i, name in enumerate(("none", "good"))}
    short["good"][2, 0] = np.nan
    sentences = {finding.kind: finding.text for finding in ranked(short).rankings[0].findings}
    assert sentences["incomplete"] == "good is incomplete: it was measured in 99 % of the settings that count."


@pytest.mark.parametrize("offset", [1e6, -1e9])
def test_a_large_offset_of_all_scores_changes_nothing_that_is_said_of_their_differences(offset: float) -> None:
    """float32 holds 1e6 in steps of 0.06, and 1e9 in steps of 64; the entries differ by 0.005 to 0.02."""
    means = {"none": 20, "good": 5, "late": 6, "costly": 5}
    scores = {label: 1e-3 * levels(i, *[mean] * 3) for i, (label, mean) in enumerate(means.items())}
    plain, moved = (ranked({e: values + far for e, values in scores.items()}) for far in (0.0, offset))
    (plain_index, _), (moved_index, numbers) = plain.comparisons[0].stored(), moved.comparisons[0].stored()
    assert numbers.dtype == np.float64
    verdicts, wanted = pairwise_intervals(moved_index, numbers), plain.comparisons[0].differences
    assert verdicts.better.any()
    np.testing.assert_array_equal(verdicts.better, wanted.better)
    np.testing.assert_allclose(verdicts.value, wanted.value, atol=1e-6)
    assert moved_index.pairwise_alpha == pytest.approx(plain_index.pairwise_alpha, rel=0.01)
    np.testing.assert_array_equal(moved.comparisons[0].rates.rate, plain.comparisons[0].rates.rate)
    assert moved.rankings[0].may_be_best == plain.rankings[0].may_be_best
    assert [f.kind for f in moved.rankings[0].findings] == [f.kind for f in plain.rankings[0].findings]


def test_a_headline_has_at_most_20_words_and_both_numbers() -> None:
    none = levels(0, 20, 20, 20)
    cases = {
        "winner": {"good": levels(1, 5, 5, 5), "late": levels(2, 9, 9, 9)},
        "leader": {"good": levels(1, 5, 5, 5), "late": levels(2, 5, 5, 5)},
        "bound": {"good": levels(1, 20, 20, 20)},
        "worse": {"good": levels(1, 25, 25, 25), "late": levels(2, 26, 26, 26)},
    }
    for outcome, scores in cases.items():
        ranking = ranked({"none": none, **scores}).rankings[0]
        assert ranking.outcome == outcome, ranking.claim
        assert len(ranking.claim.split()) <= 20
        assert f"{np.max(none, axis=0).mean():.1f}" in ranking.claim
    crowd = {f"e{i}": levels(i, 5, 5, 5) for i in range(1, 9)}
    many = ranked({"none": none, **crowd}, utility=dict.fromkeys(["none", *crowd], 0.9)).rankings[0]
    assert len(many.claim.split()) <= 20


def test_headlines_of_a_measure_with_a_long_name_have_at_most_20_words_too() -> None:
    """The measure is members named at 1 % FPR; no lead is shown, nobody gains, or all entries are worse."""
    words = Words(
        "leaks least",
        lambda x: f"{x:.1f} %",
        "of members named at 1% FPR",
        "takes more than {bound} off the {plain} {of} {without}",
    )
    crowd = {"none": levels(0, 20, 20, 20), **{f"e{i}": levels(i, 5, 5, 5) for i in range(1, 9)}}
    idle = {"none": levels(0, 20, 20, 20), **{f"e{i}": levels(i, 20, 20, 20) for i in range(1, 4)}}
    worse = {"none": levels(0, 20, 20, 20), **{f"e{i}": levels(i, 29, 29, 29) for i in range(1, 4)}}
    for outcome, scores in (("leader", crowd), ("bound", idle), ("worse", worse)):
        report = ranked(scores, words=words, utility=dict.fromkeys(scores, 0.9))
        (ranking,) = report.rankings
        assert ranking.outcome == outcome, ranking.claim
        assert len(ranking.claim.split()) <= 20, ranking.claim
        assert contradictions_in(report) == []


def test_an_entry_has_a_headline_of_its_own_with_both_numbers() -> None:
    """The winner; entries better than none, not separated, seemingly strong, too costly, and worse than none."""
    scores = {
        "none": levels(0, 20, 20, 20),
        "good": levels(1, 5, 5, 5),
        "late": levels(2, 9, 9, 9),
        "idle": levels(0, 20, 20, 20) + levels(7, 0, 0, 0) * np.resize([1, -1], 30),
        "seems": levels(3, 1, 1, 19.9) + levels(7, 0, 0, 0) * np.resize([1, -1], 30),
        "costly": levels(4, 4, 4, 4),
        "bad": levels(5, 26, 26, 26),
    }
    utility = {**dict.fromkeys(scores, 0.9), "costly": 0.5}
    (ranking,) = (report := ranked(scores, utility=utility)).rankings
    values = {row.label: row.values for row in report.tables[0].rows}
    number = {label: f"{cells['worst'].value:.1f}" for label, cells in values.items()}
    unaware = {label: f"{cells['unaware'].value:.1f}" for label, cells in values.items()}
    plain = f"{number['none']} without a defense."
    first = {label: position.headline[:1] for label, position in ranking.places.items()}
    assert ranking.winner == "good"
    assert first["good"] == (ranking.claim,)
    assert first["late"] == (f"late is better than none: {number['late']} D, {plain}",)
    assert first["idle"] == (f"idle is not separated from none: {number['idle']} D, {plain}",)
    assert first["bad"] == (f"bad is worse than none: {number['bad']} D, {plain}",)
    assert first["seems"] == (
        f"seems looks strong: {unaware['seems']} D, {unaware['none']} without; "
        f"under the worst attack {number['seems']}, {number['none']} without.",
    )
    assert ranking.places["costly"].headline == (
        f"costly is better than none: {number['costly']} D, {plain}",
        "It costs too much: SROCC clean 0.500, 0.900 without a defense.",
    )
    assert ranking.places["none"].headline == ()
    assert all(len(text.split()) <= 20 for position in ranking.places.values() for text in position.headline)
    assert contradictions_in(report) == []


def test_the_headline_of_an_entry_without_a_full_number_says_why() -> None:
    short = levels(4, 3, 3, 3)
    short[2, ::2] = np.nan
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": short}
    scores["a-odd"] = np.full((3, 30), np.nan)
    flags = {"good": ("a black box did better",)}
    (ranking,) = ranked(scores, flags=flags, unknown={"a-odd": "its module cannot be loaded"}).rankings
    (flagged,), (late,), (odd,) = (ranking.places[label].headline for label in ("good", "late", "a-odd"))
    assert flagged.startswith("good is flagged, and its number is only an upper bound: ")
    (waiting,) = ranked(scores, flags={"good": ("not judged yet: it took too long",)}).rankings
    assert (
        waiting.places["good"].headline[0].startswith("good is not judged yet, and its number is only an upper bound")
    )
    assert late == "late is incomplete: it was measured in 83 % of the settings that count."
    assert odd == "a-odd is not ranked: its module cannot be loaded."


def test_an_entry_without_any_number_changes_nothing_of_the_others() -> None:
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 9, 9, 9)}
    (without,), (ranking,) = (
        ranked(entries).rankings for entries in (scores, {"empty": np.full((3, 30), np.nan), **scores})
    )
    assert ranking.claim == without.claim
    for label in scores:
        assert ranking.places[label].against == without.places[label].against


@pytest.mark.parametrize("room", [np.inf, 0.03])
@pytest.mark.parametrize("seed", range(6))
def test_a_bound_is_never_less_than_the_end_of_an_interval_nor_more_than_there_is(seed: int, room: float) -> None:
    """`room`: by how much D without a defense exceeds the lowest possible D; no gain is larger."""
    scores = {"none": levels(10 * seed, 20, 20, 20), "good": levels(10 * seed + 1, 20, 20, 20)}
    limited = replace(PROTECTION, limits=(np.max(scores["none"], axis=0).mean() - room, 100.0))
    (ranking,) = ranked(scores, utility=dict.fromkeys(scores, 0.9), protection=limited).rankings
    against = ranking.places["good"].against
    assert ranking.outcome == "bound"
    bound = float(ranking.claim.partition("more than ")[2].partition(" ")[0])
    assert min(against.high, room) <= bound < min(against.high, room) + 0.1


def test_a_control_beats_all_that_may_win_only_where_it_is_shown_to_be_better_than_each() -> None:
    """The entry "wild" is far ahead on half of the photographs and far behind on others, so it is not separated."""
    wild = np.repeat((9 + 25 * np.where(np.arange(30) % 10 % 2, 1.0, -1.0))[None], 3, axis=0)
    scores = {"none": levels(0, 20, 20, 20), "half": levels(1, 5, 5, 5), "good": levels(2, 7, 7, 7)}
    facts = {"controls": {"none": "control", "half": "halved"}}
    alone = ranked(scores, utility=dict.fromkeys(scores, 0.9), **facts).rankings[0]
    assert alone.claim.startswith("half (halved) beats every defense that may win: ")
    second = {"none": levels(4, 20, 20, 20), "half": levels(5, 20, 20, 20), "good": levels(6, 5, 5, 5)}
    measure = replace(PROTECTION, key="e", of="d", label="E", wins=Wins("e", "", ""))
    facts_of_two = {**facts, "secondary_measures": [SecondaryMeasure(blocks(second, 10), measure)]}
    (ranking,) = ranked(scores, utility=dict.fromkeys(scores, 0.9), **facts_of_two).rankings
    assert [f.text for f in ranking.findings if f.kind == "worse"] == [
        f.text for f in alone.findings if f.kind == "worse"
    ]
    beside = ranked({**scores, "wild": wild}, utility=dict.fromkeys([*scores, "wild"], 0.9), **facts).rankings[0]
    assert beside.outcome == "worse"
    assert beside.claim.startswith("half (halved) beats good, which leads: ")


def test_measures_that_disagree_take_the_crown_and_one_that_shows_nothing_does_not() -> None:
    """By D "good" is best; by E it is worse than "late", worse than none, not separated, or equal to all."""
    first = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 9, 9, 9)}
    worse = {"none": levels(7, 20, 20, 20), "good": levels(8, 12, 12, 12), "late": levels(9, 5, 5, 5)}
    harmful = {"none": levels(7, 5, 5, 5), "good": levels(8, 12, 12, 12), "late": levels(9, 20, 20, 20)}
    deaf = {label: levels(27 + i, 20, 20, 20) for i, label in enumerate(first)}
    flat = {label: np.zeros((3, 30)) for label in first}
    for second, winner in ((worse, ""), (harmful, ""), (deaf, "good"), (flat, "good")):
        further = SecondaryMeasure(
            blocks(second, 10), replace(PROTECTION, key="e", of="d", label="E", wins=Wins("e", "", ""))
        )
        ranking = ranked(first, secondary_measures=[further]).rankings[0]
        assert ranking.winner == winner
        assert (ranking.outcome == "measures disagree") == (not winner)
    assert ranked(first, secondary_measures=[further]).rankings[0].claim == ranked(first).rankings[0].claim
    never = replace(further, protection=replace(further.protection, limits=(0.0, 100.0)))
    note = ranked(first, secondary_measures=[never]).tables[0].note
    assert note.endswith("E could not show even a perfect entry to beat none, and decides nothing.")
    assert "decides nothing" not in ranked(first).tables[0].note


@pytest.mark.parametrize(("had", "lacking"), [(0, "not measured: E"), (15, "E measured on 50 %")])
def test_a_winner_without_a_further_measure_is_said_to_lack_it(had: int, lacking: str) -> None:
    """By E "good" would be worse than "late", which takes the crown away; whoever withholds E keeps it, and is told."""
    first = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 9, 9, 9)}
    second = {"none": levels(7, 20, 20, 20), "good": levels(8, 12, 12, 12), "late": levels(9, 5, 5, 5)}
    measure = replace(PROTECTION, key="e", of="d", label="E", wins=Wins("e", "", ""))

    def ranked_with(e_of_good: np.ndarray) -> TrackReport:
        return ranked(first, secondary_measures=[SecondaryMeasure(blocks({**second, "good": e_of_good}, 10), measure)])

    (whole,) = ranked_with(second["good"]).rankings
    assert (whole.winner, whole.places["good"].lacks) == ("", {})
    assert not [finding for finding in whole.findings if finding.kind == "incomplete"]
    withheld = second["good"].copy()
    withheld[:, had:] = np.nan
    withheld[:, :had] = second["late"][:, :had] - 0.01  # what it shows of E looks well
    report = ranked_with(withheld)
    (ranking,) = report.rankings
    assert (ranking.winner, ranking.places["good"].lacks) == ("good", {"E": had / 30})
    assert ranking.claim.endswith(f" without a defense; {lacking}.")
    assert len(ranking.claim.split()) <= LONGEST
    assert ranking.places["good"].headline == (ranking.claim,)
    assert [f.text for f in ranking.findings if f.kind == "incomplete"] == [
        f"good could not be denied a win by every measure: {lacking}."
    ]
    assert report.tables[0].note.endswith(f"good: {lacking}; what was not measured could not deny a win.")


def test_a_copy_of_the_first_under_another_name_is_said_to_be_equal() -> None:
    """It takes the win from both. An entry that differs in one number, or in more than rounding, is not equal."""
    good = levels(1, 5, 5, 5)
    scores = {"none": levels(0, 20, 20, 20), "good": good, "late": levels(2, 9, 9, 9)}
    utility = dict.fromkeys(("none", "good", "late", "copy"), 0.9)
    assert ranked(scores, utility=utility).rankings[0].winner == "good"
    both = ranked({**scores, "copy": good}, utility=utility).rankings[0]
    assert not both.winner
    assert "; good equals it on all 10 photographs." in both.claim.replace("copy equals", "good equals")
    assert len(both.claim.split()) <= LONGEST
    (sentence,) = [finding for finding in both.findings if finding.kind == "may be best"]
    assert "equals" in sentence.text
    assert sentence.text.endswith("on every photograph.")
    other = good.copy()
    other[2, 7] += 0.01
    near = ranked({**scores, "copy": other}, utility=utility).rankings[0]
    assert not near.winner
    assert "10 photographs cannot separate it from" in near.claim
    assert not any("equal" in finding.text for finding in near.findings)


@pytest.mark.parametrize("ahead", ["late", "mid"])
def test_of_several_that_are_better_by_another_measure_the_one_furthest_ahead_is_named(ahead: str) -> None:
    names = ("none", "good", "late", "mid")
    first = {name: levels(i, *[d] * 3) for i, (name, d) in enumerate(zip(names, (20, 5, 9, 9), strict=True))}
    means = {**dict(zip(names, (20, 12, 8, 8), strict=True)), ahead: 5}
    second = {name: levels(7 + i, *[e] * 3) for i, (name, e) in enumerate(means.items())}
    further = SecondaryMeasure(
        blocks(second, 10), replace(PROTECTION, key="e", of="d", label="E", wins=Wins("e", "", ""))
    )
    utility = dict.fromkeys(first, 0.9)
    claim = ranked(first, secondary_measures=[further], utility=utility).rankings[0].claim
    assert claim.startswith(f"Measures disagree: good leads {ahead} by ")
    assert f" D, but {ahead} is better by " in claim


def test_a_control_made_for_one_entry_stands_against_that_entry_alone() -> None:
    """Early stopping at the accuracy of "late" ("stopped") beats "good", too, but counts against "late" alone."""
    scores = {
        "none": levels(0, 20, 20, 20),
        "good": levels(1, 5, 5, 5),
        "late": levels(2, 9, 9, 9),
        "stopped": levels(3, 2, 2, 2),
    }
    accuracy = dict.fromkeys(scores, 0.9)
    facts = {"controls": {"none": "undefended", "stopped": "early stopping"}, "utility": accuracy}
    everybody = ranked(scores, **facts).rankings[0]
    assert (everybody.winner, everybody.outcome) == ("", "worse")
    assert everybody.claim.startswith("stopped (early stopping) beats every defense that may win: ")
    matched = ranked(scores, **facts, matched={"stopped": "late"}).rankings[0]
    assert matched.winner == "good"
    assert [finding.entry for finding in matched.findings if finding.kind == "worse"] == ["late"]
    assert ranked(scores, **facts, matched={"stopped": "good"}).rankings[0].winner == ""
    costly = {**facts, "utility": {**accuracy, "stopped": 0.5}, "matched": {"stopped": "good"}}
    assert ranked(scores, **costly).rankings[0].winner == "good", "a control that fails the gate stands against nobody"


@pytest.mark.parametrize("label", ["a", "z"])
def test_an_entry_without_any_number_is_incomplete_and_changes_nothing_of_the_others(label: str) -> None:
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 9, 9, 9)}
    utility = dict.fromkeys([*scores, label], 0.9)
    alone = ranked(scores, utility=utility)
    report = ranked({**scores, label: np.full((3, 30), np.nan)}, utility=utility)
    (before,), (after,) = alone.rankings, report.rankings
    assert (after.winner, after.claim) == (before.winner, before.claim) == ("good", before.claim)
    assert [finding.text for finding in after.findings if finding.entry == label] == [
        f"{label} is incomplete: it was measured in 0 % of the settings that count."
    ]
    assert {x: after.places[x].against for x in scores} == {x: before.places[x].against for x in scores}
    assert of_report(report)


@pytest.mark.parametrize("missing", [np.s_[:, 3], np.s_[2]])
def test_nobody_wins_where_no_defense_itself_lacks_an_image_or_an_attack(missing: object) -> None:
    """In an earlier version "good" won here, because it was ahead of the other entries."""
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 9, 9, 9)}
    scores["none"][missing] = np.nan
    (ranking,) = ranked(scores).rankings
    five = np.max(scores["good"], axis=0).mean()
    assert ranking.claim == (
        f"No winner: none is incomplete, and nothing is compared with it. good leads with {five:.1f} D."
    )
    assert (ranking.winner, ranking.may_be_best, ranking.outcome) == ("", ("good",), "leader")


def test_one_photograph_is_too_few() -> None:
    (ranking,) = ranked({"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5)}, clusters=1).rankings
    assert ranking.claim == "1 photograph is too few to compare any defense with no defense."
    assert "good is not compared with none: 1 photograph is too few." in {finding.text for finding in ranking.findings}
