"""What a headline says and leaves out, on scores whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest

from imharness.contests import Contest, Yardstick, contest, share_of
from imharness.results.told import told_of
from imharness.tables import Column, Value, Wins

from .studies import STUDIES, most
from .test_policy import CLAIM, PROTECTION, blocks, levels, ranked


def test_a_headline_says_of_each_entry_what_keeps_it_from_winning_and_nothing_else() -> None:
    """A flagged entry keeps all its utility, and nobody knows what an unmeasured one keeps."""
    short = levels(4, 3, 3, 3)
    short[2, ::2] = np.nan
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": short, "costly": levels(2, 1, 1, 1)}
    flags = {"good": ("a black box did better",)}
    held = {"none": 0.9, "good": 0.9, "late": 0.9, "costly": 0.5}
    said = ranked(scores, flags=flags, utility=held).rankings[0].claim
    assert said == (
        "No entry may win, as costly costs too much; good is flagged; late lacks an attack or a unit that others met: "
        "there is no winner."
    )
    unknown = ranked({**scores, "same": scores["costly"]}, flags=flags, utility={**held, "same": 0.5}).rankings[0].claim
    assert "costly and same cost too much" in unknown
    partial = {label: own for label, own in held.items() if label != "costly"}
    alone = ranked({**scores, "best": levels(7, 4, 4, 4)}, flags=flags, utility={**partial, "best": 0.9}).rankings[0]
    assert alone.winner == "best"
    assert alone.claim.endswith(
        "No other entry may win: costly was not measured on all that has to be kept; good is flagged; late lacks an "
        "attack or a unit that others met."
    )
    assert ranked({"none": scores["none"]}).rankings[0].claim == "Only controls were measured: there is no winner."
    lone = ranked({label: scores[label] for label in ("none", "good")}).rankings[0].claim
    assert lone.endswith(" No other entry was measured.")


@pytest.mark.parametrize(("undefined", "whose"), [(("none", "good", "late"), "none"), (("good", "late"), "good")])
def test_a_utility_that_is_not_defined_is_said_to_be_so(undefined: tuple[str, ...], whose: str) -> None:
    scores = {"none": levels(0, 20, 20, 20), "good": levels(1, 5, 5, 5), "late": levels(2, 6, 6, 6)}
    own = blocks(scores, 10)
    why = "in every condition all images have the same score, or fewer than 3 have one"
    known = {label: Value(missing=why) if label in undefined else Value(value=0.9) for label in scores}
    rules = Contest(
        own,
        PROTECTION,
        Column("srocc", "SROCC", "S.", "higher", value=lambda label: known[label]),
        "none",
        CLAIM,
        gates=[share_of("SROCC", "none", 0.05, lambda _: None)],
        controls={"none": "undefended"},
    )
    (ranking,) = contest(rules, id="r", title="", caption="", entry="defense").rankings
    assert ranking.winner == ""
    assert ranking.claim == (
        f"SROCC of {whose} is not defined ({why}), so that no entry can be said to keep it: there is no winner."
    )


def test_where_nothing_is_defined_there_is_a_table_without_places() -> None:
    """One photograph has no order of images: no entry has a number, and none is ahead."""
    nothing = {label: np.full((3, 4), np.nan) for label in ("none", "good")}
    found = ranked(nothing, unknown=dict.fromkeys(nothing, "of one photograph"))
    assert found.rankings[0].winner == ""
    assert [row.values["worst"].missing for row in found.tables[0].rows] == ["of one photograph"] * 2


def test_a_winner_that_no_control_stands_beside_says_so() -> None:
    scores = {"good": levels(1, 5, 5, 5), "late": levels(2, 6, 6, 6)}
    alone = ranked(scores).rankings[0].claim
    assert "No control that an entry has to be better than was measured in every setting." in alone
    equal = ranked({**scores, "late": levels(2, 5, 5, 5)}).rankings[0].claim
    assert "better than every control" not in equal
    assert "No control" in equal
    assert "No control" not in ranked({**scores, "none": levels(0, 20, 20, 20)}).rankings[0].claim


def test_no_sentence_rounds_what_is_shown_to_nothing_or_what_lacks_to_everything() -> None:
    scores = {"none": 1e-4 * levels(0, 20, 20, 20), "good": 1e-4 * levels(1, 5, 5, 5)}
    said = {own.kind: own.text for own in ranked(scores).rankings[0].findings}
    assert "D is lower by 0.0015 [0.0015, 0.0015]" in said["better"]
    short = {name: levels(i, 5, 5, 5, n=300) for i, name in enumerate(("none", "good"))}
    short["good"][2, 0] = np.nan
    said = {own.kind: own.text for own in ranked(short).rankings[0].findings}
    assert said["incomplete"] == "good is incomplete: it has 99% of the units and settings that count."


@pytest.mark.parametrize("offset", [1e6, -1e9])
def test_a_large_offset_of_all_scores_changes_nothing_that_is_said_of_their_differences(offset: float) -> None:
    """float32 holds 1e6 in steps of 0.06, and 1e9 in steps of 64; the entries differ by 0.005 to 0.02."""
    means = {"none": 20, "good": 5, "late": 6, "costly": 5}
    scores = {label: 1e-3 * levels(i, *[mean] * 3) for i, (label, mean) in enumerate(means.items())}
    plain, moved = (ranked({e: own + far for e, own in scores.items()}) for far in (0.0, offset))
    (known, _), (own, numbers) = plain.comparisons[0].stored(), moved.comparisons[0].stored()
    assert numbers.dtype == np.float64
    found, wanted = told_of(own, numbers), plain.comparisons[0].told
    assert found.better.any()
    np.testing.assert_array_equal(found.better, wanted.better)
    np.testing.assert_allclose(found.value, wanted.value, atol=1e-6)
    assert own.tail == pytest.approx(known.tail, rel=0.01)
    np.testing.assert_array_equal(moved.comparisons[0].rates.rate, plain.comparisons[0].rates.rate)
    assert moved.rankings[0].may_be_best == plain.rankings[0].may_be_best
    assert [f.kind for f in moved.rankings[0].findings] == [f.kind for f in plain.rankings[0].findings]


def test_what_a_control_is_shown_to_be_holds_among_all_pairs_and_no_control_ahead_is_left_unsaid() -> None:
    """Four controls are equal to the one candidate: one of them is called better in at most 5 % of studies.

    The candidate has a sentence on each control that is ahead of it, by each of two yardsticks.
    """
    wrong, names = 0, ("none", "good", "c1", "c2", "c3")
    for seed in range(STUDIES):
        noise = np.random.default_rng(seed).normal(20, 1, (2, 5, 3, 12))
        first, second = (dict(zip(names, own, strict=True)) for own in noise)
        yardstick = Yardstick(
            blocks(second, 12), replace(PROTECTION, key="e", of="d", label="E", wins=Wins("e", "", ""))
        )
        facts = {"controls": dict.fromkeys(set(names) - {"good"}, "control"), "utility": dict.fromkeys(names, 0.9)}
        ranking = ranked(first, 12, yardsticks=[yardstick], **facts).rankings[0]
        wrong += ranking.claim.startswith("No entry that may be best is better than every control")
        for measure, scores in (("D", first), ("E", second)):
            worst = {label: own.max(axis=0).mean() for label, own in scores.items()}
            kinds = ("better", "worse", "not told")
            found = [own for own in ranking.findings if own.kind in kinds and own.measure == measure]
            said = {other for own in found for other in own.against}
            assert said >= {label for label, mean in worst.items() if mean < worst["good"]}
    assert wrong <= most()
