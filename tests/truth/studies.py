"""How many simulated studies show that something false is said in more than 5 % of them."""

from scipy.stats import binom

STATED = 0.05
"""The share of studies in which a leaderboard may say something false."""
STUDIES = 100
"""With so many, a leaderboard that keeps 5 % exceeds `most` with a probability of 0.012, one that is wrong in 10 % with
a power of 0.42, in 15 % of 0.90, and in 20 % of 0.994 (`tests/truth/test_studies.py`). So these simulations do not show
that 5 % are kept: they would overlook one leaderboard in two that is wrong twice as often as stated.

The mistakes that they exist for, such as rows of one model taken for independent units, are wrong in 30 % or more.
"""


def most(studies: int = STUDIES, share: float = STATED) -> int:
    """Return the number of studies that a true share exceeds in at most one of eighty simulations."""
    return int(binom.isf(1 / 80, studies, share))
