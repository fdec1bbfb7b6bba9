"""Each kind of sentence, in studies that are planned, computed, stored and ranked, where it is true or false.

`tests/truth/tiny.py` is the track. Its tables alone are simulated 100 times in `test_sentences.py`, `test_findings.py`
and `test_wilcoxon_table.py`; here are `SEEDS` whole studies of each kind.
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
"""With so many, a false sentence that is said in 60 % of studies, or a true one in 20 %, is found in 9 of 10 cases."""
MOST = int(scipy.stats.binom.ppf(0.999, SEEDS, 0.05))
"""A sentence that is false in 5 % of studies is said in more of these once in a thousand times."""
LEAST = int(scipy.stats.binom.ppf(0.001, SEEDS, 0.8))
"""A sentence that is said in 80 % of studies where it is true is said in fewer of these once in a thousand times."""


def studies(
    folder: Path, entries: Sequence[Shield], images: int = 12, each: int = 1, seeds: int = SEEDS
) -> Iterator[TrackReport]:
    for seed in range(seeds):
        yield ran(folder / str(seed), entries, seed=seed, images=images, each=each)


def test_one_wins_one_is_broken_and_one_costs_too_much(tmp_path: Path) -> None:
    """One is moved by 10 whoever attacks, one by 4, and by 19 once it is known, and one loses 40 % of answers."""
    good, late, costly = Shield(unaware=10, aware=10), Shield(unaware=4, aware=19), Shield(unaware=3, aware=3, lost=0.4)
    true = dict.fromkeys(("wins", "better", "moves", "broken", "costs", "passes"), 0)
    false = dict.fromkeys(("another wins", "worse", "moves", "broken", "costs", "not told", "fails"), 0)
    for found in studies(tmp_path, [Plain(), good, late, costly]):
        (ranking,) = found.rankings
        said = {(own.kind, own.entry) for own in ranking.findings}
        true["wins"] += ranking.winner == good.label and ranking.claim.startswith(f"{good.label} holds D at ")
        true["passes"] += ranking.places[good.label].gate == "passes"
        for kind, entry in (("better", good), ("moves", late), ("broken", late), ("costs", costly)):
            true[kind] += (kind, entry.label) in said
        false["another wins"] += ranking.winner not in ("", good.label)
        false["worse"] += any(kind == "worse" for kind, _ in said)
        false["fails"] += ranking.places[good.label].gate == "fails"
        for kind, entry in (("moves", good), ("broken", good), ("costs", good), ("not told", good)):
            false[kind] += (kind, entry.label) in said
        of_report(found)
    assert {kind: n for kind, n in true.items() if n < LEAST} == {}
    assert {kind: n for kind, n in false.items() if n > MOST} == {}


def test_of_two_that_are_equal_both_may_be_best_and_a_gate_at_its_margin_is_not_told(tmp_path: Path) -> None:
    entries = [Plain(), Shield(unaware=9, aware=9, name="a", lost=0.05), Shield(unaware=9, aware=9, name="b")]
    true, false = dict.fromkeys(("may be best", "gate"), 0), dict.fromkeys(("wins", "better", "answered"), 0)
    for found in studies(tmp_path, entries):
        (ranking,) = found.rankings
        both, edge = {own.label for own in entries[1:]}, entries[1].label
        said = {own.kind: own for own in ranking.findings}
        true["may be best"] += set(ranking.may_be_best) == both and "may be best" in ranking.claim
        true["gate"] += ranking.places[edge].gate == "not told" and "gate" in said
        false["wins"] += bool(ranking.winner)
        false["answered"] += ranking.places[edge].gate in ("passes", "fails")
        false["better"] += any(own.kind == "better" and both & own.against.keys() for own in ranking.findings)
        of_report(found)
    assert {kind: n for kind, n in true.items() if n < LEAST} == {}
    assert {kind: n for kind, n in false.items() if n > MOST} == {}


def test_a_control_that_beats_all_or_equals_one_is_named_as_what_it_is(tmp_path: Path) -> None:
    """A constant is ahead of all in one study; in the other, an entry is as no defense."""
    beats, tells, crowned = 0, 0, 0
    constant, good, idle = Constant(unaware=2, aware=2), Shield(unaware=9, aware=9), Shield()
    for found in studies(tmp_path / "constant", [Plain(), constant, good]):
        (ranking,) = found.rankings
        beats += ranking.claim.startswith(
            f"No entry that may be best is better than every control: {constant.label} (a constant) is shown to be "
            f"better than {good.label} in D, over 12 photographs."
        )
        crowned += bool(ranking.winner)
        of_report(found)
    for found in studies(tmp_path / "idle", [Plain(), idle]):
        (ranking,) = found.rankings
        tells += ranking.claim.startswith(f"This data cannot tell {idle.label} from {PLAIN} (undefended): ")
        crowned += bool(ranking.winner)
        of_report(found)
    assert min(beats, tells) >= LEAST
    assert crowned <= MOST


def test_with_the_units_that_a_board_asks_for_four_of_five_studies_tell(tmp_path: Path) -> None:
    """The number is that of the pilot whose estimate is nearest to the truth, 1 unit of D."""
    entries = [Plain(), Shield(unaware=19, aware=19)]
    pilots = [
        (abs(own.against[PLAIN].value - 1.0), own.against[PLAIN].needed)
        for found in studies(tmp_path / "pilots", entries)
        for own in found.rankings[0].findings
        if own.kind == "not told" and own.against[PLAIN].needed is not None
    ]
    _, many = min(pilots)
    told = [
        any(own.kind == "better" for own in found.rankings[0].findings)
        for found in studies(tmp_path / "studies", entries, many)
    ]
    assert sum(told) >= LEAST


@pytest.mark.parametrize(("images", "each"), [(8, 1), (20, 2), (24, 2)])
def test_the_table_of_wilcoxon_tests_says_what_it_takes_and_then_tells(images: int, each: int, tmp_path: Path) -> None:
    """Two entries and no defense, in three conditions: 18 tests, of which the least p is 18 / 2^k; it takes 9.

    Two images of a photograph count once. Equal entries, whose scores have ties, are told apart nowhere.
    """
    same = [Shield(unaware=12, aware=12, grain=1, name=name) for name in "ab"]
    wrong, right = 0, 0
    seeds = SEEDS if images // each >= 9 else 2  # that units are too few does not depend on chance
    for found in studies(tmp_path, [Plain(grain=1), *same], images, each, seeds):
        table = win_table(found.comparisons[0])
        cells = {row.label: row.values for row in table.rows}
        a, b = (own.label for own in same)
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
    """It would be the best by far on the others."""
    short = Shield(unaware=1, aware=1, missing=0.25)
    found = ran(tmp_path, [Plain(), short])
    (ranking,) = found.rankings
    assert ranking.claim == (
        f"No entry may win, as {short.label} lacks an attack or a unit that others met: there is no winner."
    )
    (incomplete,) = (own for own in ranking.findings if own.kind == "incomplete")
    assert "it has 75% of the units and settings that count" in incomplete.text
    of_report(found)


def test_marks_are_of_the_best_that_may_win_whatever_a_control_or_an_incomplete_entry_reaches(tmp_path: Path) -> None:
    """Two are equal, one is worse; a constant, and one without a score for some images, have better numbers."""
    a, b, worse = Shield(unaware=9, aware=9, name="a"), Shield(unaware=9, aware=9, name="b"), Shield(aware=16)
    short, constant = Shield(unaware=1, aware=1, missing=0.25), Constant(unaware=2, aware=2)
    right = 0
    for seed in range(SEEDS):
        board = boarded(tmp_path / str(seed), [Plain(), a, b, worse, short, constant], seed=seed)
        table = next(own for own in board.tables if own.id == "ranking")
        column = next(own for own in table.columns if own.key == "worst")
        marks = {row.label: Marks(table, board).of(row, column) for row in table.rows}
        right += {marks[a.label], marks[b.label]} == {"best", "tied"} and marks[worse.label] == ""
        assert marks[constant.label] != "best"
    assert right >= LEAST
