"""How many of the simulated studies may say something false before a test fails."""

from scipy.stats import binom

STATED = 0.05
"""The share of studies in which a leaderboard may say something false."""
STUDIES = 100
"""With 100 studies, a leaderboard that is wrong in 5 % exceeds `most` with a probability of 0.012.

One that is wrong in 10 % exceeds it with a probability (power) of 0.42, in 15 % of 0.90, and in 20 % of 0.994
(`tests/truth/test_studies.py`). So these simulations do not show that 5 % are kept: they would overlook one leaderboard
in two that is wrong twice as often as stated.

The mistakes that they exist for, such as rows of one model taken for independent units, are wrong in 30 % or more.
"""


def most(studies: int = STUDIES, share: float = STATED) -> int:
    """Return the largest number of wrong studies that passes.

    A leaderboard that is wrong in exactly `share` of studies exceeds it with a probability of at most 1/80.
    """
    return int(binom.isf(1 / 80, studies, share))
