"""Further entries make a gate less certain, but let no entry win that loses what the gate protects."""

import numpy as np
import pytest

from imharness.leaderboard import Gate
from imharness.ranking.gates import kept, state_of

UNITS = 36
SPREAD = np.sin(np.arange(UNITS) * 2.4)
"""How far an entry is above the margin of the gate, by unit; the mean is about 0."""


def states(above: dict[str, np.ndarray]) -> dict[str, str]:
    outcomes = kept([Gate("SROCC", "within 5%", lambda label: above[label])], ["none", *above], "none")
    return {label: state_of(outcome) for label, outcome in outcomes.items()}


@pytest.mark.parametrize(("others", "state"), [(0, "fails"), (100, "doubtful")])
def test_entries_that_others_add_do_not_let_one_win_that_keeps_nothing(others: int, state: str) -> None:
    """The entry is three standard errors below the margin: among 100 further ones no interval shows it any more."""
    lost = SPREAD - 3 * SPREAD.std() / UNITS**0.5
    entry_states = states({"acme/costly": lost, **{f"acme/more-{i}": SPREAD for i in range(others)}})
    assert entry_states["acme/costly"] == state
    assert {entry_states[f"acme/more-{i}"] for i in range(others)} <= {"undecided"}


def test_of_what_lies_at_the_margin_one_in_forty_is_doubted() -> None:
    """An entry is in doubt below the lower end of a 95 % interval: 2.5 % of 2000 are 50."""
    rng = np.random.default_rng(5)
    drawn = {f"acme/e{i}": rng.normal(size=UNITS) for i in range(2000)}
    doubted = sum(state in ("doubtful", "fails") for label, state in states(drawn).items() if label != "none")
    assert 30 <= doubted <= 75
