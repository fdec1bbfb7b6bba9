"""How evidence against an entry, images that a stronger attack breaks, changes its number, interval and rank."""

import numpy as np
import pytest

from imharness.leaderboard import Blocks, Column, Contest, Evidence, Value, Wins, Words, contest, with_evidence
from imharness.tracks import TrackReport

WORDS = Words("holds best", lambda x: f"{x:.1f}", "of D", "takes more than {bound} off the {plain} {of} {without}")

PHOTOGRAPHS, STUDIES = 120, 60
KEPT, STRONGER = 0.8, 0.6
"""Agreement under the attacks of the leaderboard, and under a stronger one, of two metrics that are equally robust."""
TRIED, OTHER = ENTRIES = ("x/tried", "x/untried")


def sample_leaderboard(seed: int, most: int) -> TrackReport:
    """Return the contest of both metrics after evidence against the first: at most `most` images that break it."""
    rng = np.random.default_rng(seed)
    units = np.array([f"p{k:03}" for k in range(PHOTOGRAPHS)], dtype=object)
    draw = rng.random((2, PHOTOGRAPHS))
    retained, stronger = (draw < KEPT).astype(float), (draw < STRONGER).astype(float)
    blocks = Blocks(
        ENTRIES, ({"dataset": "d", "attack": "a", "attacker": "adaptive"},), (units,), {"share": (retained,)}
    )
    rules = Contest(
        scores=blocks,
        protection=Column("share", "agreement", "Agreement.", "higher", wins=Wins(id="w", title="w", about="more")),
        utility=Column("u", "u", "Kept.", "higher", value=lambda label: Value(value=1.0)),
        undefended=OTHER,
        words=WORDS,
        gates=(),
    )
    broken = np.flatnonzero(stronger[0] < retained[0])[:most]
    evidence = Evidence({"dataset": "d"}, TRIED, units[broken], {"share": stronger[0, broken]}, stronger[0, broken])
    evidence_list = [evidence] if len(broken) else []
    return contest(with_evidence(rules, evidence_list), id="t", title="t", caption="c", entry="metric")


def studied(most: int) -> tuple[float, float, float, float]:
    """Return four means over studies: of the number of the tried metric, and of three events (0 or 1).

    The events: its interval contains `KEPT`; its interval contains `STRONGER`; the other metric is shown to be better.
    """
    numbers, hits = [], np.zeros(3)
    for seed in range(STUDIES):
        result = sample_leaderboard(seed, most)
        worst = next(row for row in result.tables[0].rows if row.label == TRIED).values["worst"]
        assert worst.value is not None
        assert worst.low is not None
        assert worst.high is not None
        numbers.append(worst.value)
        hits += (
            worst.low <= KEPT <= worst.high,
            worst.low <= STRONGER <= worst.high,
            result.comparisons[0].differences.better[1, 0],
        )
    return (float(np.mean(numbers)), *(hits / STUDIES).tolist())


def test_without_evidence_and_with_all_images_the_interval_holds_what_each_attack_leaves() -> None:
    number, before, _, wrong = studied(0)
    assert number == pytest.approx(KEPT, abs=0.02)
    assert before > 0.85
    assert wrong <= 0.12
    number, _, after, worse = studied(PHOTOGRAPHS)
    assert number == pytest.approx(STRONGER, abs=0.02)
    assert after > 0.85
    assert worse > 0.8, "of two metrics that are equally robust, the one that nobody tried is ahead"


def test_with_a_few_images_the_number_lies_between_and_bounds_what_the_attack_leaves_from_above() -> None:
    """A tenth of the photographs, all of them chosen because they break."""
    number, _, after, _ = studied(PHOTOGRAPHS // 10)
    assert number == pytest.approx(KEPT - 0.1, abs=0.02)
    assert after < 0.5


def test_the_table_names_the_entry_and_says_what_its_number_is() -> None:
    assert sample_leaderboard(0, 0).tables[0].note == ""
    note = sample_leaderboard(0, 5).tables[0].note
    assert note.startswith(f"Evidence counts against {TRIED}: ")
    assert "So the number is a bound, since the same attack may do more on other images" in note
