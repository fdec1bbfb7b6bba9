"""How many simulated studies show that something false is said in more than 5 % of them."""

from scipy.stats import binom

STATED = 0.05
"""The share of studies in which a board may say something false."""
STUDIES = 100
"""With so many, a board that is wrong in three times as many studies as stated exceeds `most` with a power of 0.9.

The mistakes that these simulations exist for, such as rows of one model taken for independent units, are wrong in 30 %
or more.
"""


def most(studies: int = STUDIES, share: float = STATED) -> int:
    """Return the number of studies that a true share exceeds in at most one of eighty simulations."""
    return int(binom.isf(1 / 80, studies, share))
