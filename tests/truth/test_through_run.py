"""How often each kind of sentence is said in whole studies, planned, computed, stored and ranked.

`tests/truth/tiny.py` is the track. This file runs `SEEDS` whole studies of each kind; `test_sentences.py`,
`test_findings.py` and `test_wilcoxon_table.py` simulate 100 studies from their tables alone.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy
from tests.recomputed import of_report

from imharness.exports.marks import Marks
from imharness.ranking.tables import win_table
from imharness.tracks import TrackReport

from .tiny import PLAIN, Constant, Plain, Shield, boarded, ran

SEEDS = 12
"""The number of studies of each kind.

It detects a false sentence that is said in 60 % of studies, or a true one that is said in 20 %, in 9 of 10 cases.
"""
MOST = int(scipy.stats.binom.ppf(0.999, SEEDS, 0.05))
"""A false sentence that is said in 5 % of studies is said in more of the `SEEDS` studies once in a thousand times."""
LEAST = int(scipy.stats.binom.ppf(0.001, SEEDS, 0.8))
"""A true sentence that is said in 80 % of studies is said in fewer of the `SEEDS` studies once in a thousand times."""


def studies(
    folder: Path, entries: Sequence[Shield], images: int = 12, each: int = 1, seeds: int = SEEDS
) -> Iterator[TrackReport]:
    for seed in range(seeds):
        yield ran(folder / str(seed), entries, seed=seed, images=images, each=each)


def test_one_wins_one_is_broken_and_one_costs_too_much(tmp_path: Path) -> None:
    """`good` is moved by 10, `late` by 4 or, by an attack that knows it, 19; `costly` loses 40 % of right answers."""
    good, late, costly = Shield(unaware=10, aware=10), Shield(unaware=4, aware=19), Shield(unaware=3, aware=3, lost=0.4)
    true = dict.fromkeys(("wins", "better", "moves", "broken", "costs", "passes"), 0)
    false = dict.fromkeys(("another wins", "worse", "moves", "broken", "costs", "undecided", "fails"), 0)
    for result in studies(tmp_path, [Plain(), good, late, costly]):
        (ranking,) = result.rankings
        sentences = {(finding.kind, finding.entry) for finding in ranking.findings}
        true["wins"] += ranking.winner == good.label and ranking.claim.startswith(f"{good.label} holds best: ")
        true["passes"] += ranking.places[good.label].gate == "passes"
        for kind, entry in (("better", good), ("moves", late), ("broken", late), ("costs", costly)):
            true[kind] += (kind, entry.label) in sentences
        false["another wins"] += ranking.winner not in ("", good.label)
        false["worse"] += any(kind == "worse" for kind, _ in sentences)
        false["fails"] += ranking.places[good.label].gate == "fails"
        for kind, entry in (("moves", good), ("broken", good), ("costs", good), ("undecided", good)):
            false[kind] += (kind, entry.label) in sentences
        of_report(result)
    assert {kind: n for kind, n in true.items() if n < LEAST} == {}
    assert {kind: n for kind, n in false.items() if n > MOST} == {}


def test_of_two_that_are_equal_both_may_be_best_and_a_gate_at_its_margin_is_not_told(tmp_path: Path) -> None:
    entries = [Plain(), Shield(unaware=9, aware=9, name="a", lost=0.05), Shield(unaware=9, aware=9, name="b")]
    true, false = dict.fromkeys(("may be best", "gate", "better"), 0), dict.fromkeys(("wins", "answered"), 0)
    for result in studies(tmp_path, entries):
        (ranking,) = result.rankings
        both, edge = {entry.label for entry in entries[1:]}, entries[1].label
        sentences = {finding.kind: finding for finding in ranking.findings}
        true["may be best"] += set(ranking.may_be_best) == both and " leads with " in ranking.claim
        true["gate"] += ranking.places[edge].gate == "undecided" and "gate" in sentences
        false["wins"] += bool(ranking.winner)
        false["answered"] += ranking.places[edge].gate in ("passes", "fails")
        true["better"] += both <= {finding.entry for finding in ranking.findings if finding.kind == "better"}
        of_report(result)
    assert {kind: n for kind, n in true.items() if n < LEAST} == {}
    assert {kind: n for kind, n in false.items() if n > MOST} == {}


def test_a_control_that_beats_all_or_equals_one_is_named_as_what_it_is(tmp_path: Path) -> None:
    """In one kind of study a constant is ahead of all; in the other an entry equals no defense."""
    beats, tells, crowned = 0, 0, 0
    constant, good, idle = Constant(unaware=2, aware=2), Shield(unaware=9, aware=9), Shield()
    for result in studies(tmp_path / "constant", [Plain(), constant, good]):
        (ranking,) = result.rankings
        beats += ranking.claim.startswith(f"{constant.label} (a constant) beats every defense that may win: ")
        crowned += bool(ranking.winner)
        of_report(result)
    for result in studies(tmp_path / "idle", [Plain(), idle]):
        (ranking,) = result.rankings
        tells += ranking.claim.startswith("No defense that may win takes more than ")
        crowned += bool(ranking.winner)
        of_report(result)
    assert min(beats, tells) >= LEAST
    assert crowned <= MOST


def test_with_the_units_that_a_leaderboard_asks_for_four_of_five_studies_tell(tmp_path: Path) -> None:
    """The number of units is that of the pilot whose estimate is nearest to the truth, a D of 1."""
    entries = [Plain(), Shield(unaware=19, aware=19)]
    pilots = [
        (abs(finding.against[PLAIN].value - 1.0), finding.against[PLAIN].needed)
        for result in studies(tmp_path / "pilots", entries)
        for finding in result.rankings[0].findings
        if finding.kind == "undecided" and finding.against[PLAIN].needed is not None
    ]
    _, many = min(pilots)
    detected = [
        any(finding.kind == "better" for finding in result.rankings[0].findings)
        for result in studies(tmp_path / "studies", entries, many)
    ]
    assert sum(detected) >= LEAST


@pytest.mark.parametrize(("images", "each"), [(8, 1), (20, 2), (24, 2)])
def test_the_table_of_wilcoxon_tests_says_what_it_takes_and_then_tells(images: int, each: int, tmp_path: Path) -> None:
    """Two entries and no defense, in three conditions, make 18 tests; with k photographs the least p is 18 / 2^k.

    So 9 photographs are needed. Two images of a photograph count once. Equal entries have ties, and are not told apart.
    """
    same = [Shield(unaware=12, aware=12, grain=1, name=name) for name in "ab"]
    wrong, right = 0, 0
    seeds = SEEDS if images // each >= 9 else 2  # that units are too few does not depend on chance
    for result in studies(tmp_path, [Plain(grain=1), *same], images, each, seeds):
        table = win_table(result.comparisons[0])
        cells = {row.label: row.values for row in table.rows}
        a, b = (entry.label for entry in same)
        (plain,) = (label for label in cells if label.startswith(PLAIN))
        if images // each < 9:
            assert {cells[x][y].missing for x in cells for y in cells if x != y} == {
                f"needs at least 9 photographs, and has {images // each}"
            }
        else:
            wrong += bool(cells[a][b].value or cells[b][a].value)
            right += cells[a][plain].value == cells[b][plain].value == 100
            assert np.nanmax([cells[plain][x].value for x in (a, b)]) == 0
    assert wrong <= MOST
    assert images < 9 or right >= LEAST


def test_who_gives_no_score_for_some_images_has_no_place_and_the_headline_says_so(tmp_path: Path) -> None:
    """On the images that have a score, the entry would be the best by far."""
    short = Shield(unaware=1, aware=1, missing=0.25)
    result = ran(tmp_path, [Plain(), short])
    (ranking,) = result.rankings
    assert ranking.claim == "No defense may win: 1 is incomplete."
    (incomplete,) = (finding for finding in ranking.findings if finding.kind == "incomplete")
    assert "it was measured in 75 % of the settings that count" in incomplete.text
    of_report(result)


def test_marks_are_of_the_best_that_may_win_whatever_a_control_or_an_incomplete_entry_reaches(tmp_path: Path) -> None:
    """Two are equal, one is worse; a constant, and one without a score for some images, have better numbers."""
    a, b, worse = Shield(unaware=9, aware=9, name="a"), Shield(unaware=9, aware=9, name="b"), Shield(aware=16)
    short, constant = Shield(unaware=1, aware=1, missing=0.25), Constant(unaware=2, aware=2)
    right = 0
    for seed in range(SEEDS):
        leaderboard = boarded(tmp_path / str(seed), [Plain(), a, b, worse, short, constant], seed=seed)
        table = next(candidate for candidate in leaderboard.tables if candidate.id == "ranking")
        column = next(candidate for candidate in table.columns if candidate.key == "worst")
        marks = {row.label: Marks(table, leaderboard).of(row, column) for row in table.rows}
        right += {marks[a.label], marks[b.label]} == {"best", "tied"} and marks[worse.label] == ""
        assert marks[constant.label] != "best"
    assert right >= LEAST
