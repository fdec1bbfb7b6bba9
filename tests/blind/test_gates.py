"""Entries that open a gate for others, or for themselves: none makes one win that keeps nothing of what it must."""

import numpy as np
import pytest

from imharness.leaderboard import Gate
from imharness.ranking.gates import kept, state_of

UNITS = 36
SPREAD = np.sin(np.arange(UNITS) * 2.4)
"""What units add to how far an entry lies above the least, with a mean of about 0."""


def states(above: dict[str, np.ndarray]) -> dict[str, str]:
    outcomes = kept([Gate("SROCC", "within 5%", lambda label: above[label])], ["none", *above], "none")
    return {label: state_of(outcome) for label, outcome in outcomes.items()}


@pytest.mark.parametrize(("others", "state"), [(0, "fails"), (100, "doubtful")])
def test_entries_that_others_add_do_not_let_one_win_that_keeps_nothing(others: int, state: str) -> None:
    """The entry loses three standard errors: among 100 further ones no interval says so any more."""
    lost = SPREAD - 3 * SPREAD.std() / UNITS**0.5
    entry_states = states({"acme/costly": lost, **{f"acme/more-{i}": SPREAD for i in range(others)}})
    assert entry_states["acme/costly"] == state
    assert {entry_states[f"acme/more-{i}"] for i in range(others)} <= {"undecided"}


def test_of_what_lies_at_the_margin_one_in_forty_is_doubted() -> None:
    """The level is that of the lower half of a 95 % interval."""
    rng = np.random.default_rng(5)
    drawn = {f"acme/e{i}": rng.normal(size=UNITS) for i in range(2000)}
    doubted = sum(state in ("doubtful", "fails") for label, state in states(drawn).items() if label != "none")
    assert 30 <= doubted <= 75
