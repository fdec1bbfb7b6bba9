"""Entries that are better than the undefended metric where nobody attacks: they may know the labels."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from imharness.leaderboard import t_interval

Beside = Callable[[str], tuple[np.ndarray, np.ndarray] | None]
"""Label -> what each photograph adds to the SROCC of an entry and to that of the undefended one, ``(k,)`` each."""
LEVEL = 0.998
"""Of the interval of each entry alone: copies of an entry make nothing of it. Fifty honest ones are flagged in 5 % of
leaderboards at most, if none is better than the metric alone."""
MARGIN = 0.05
"""The least gain that counts: unsharp masking, which is honest, gains .04 on the photographs that ship."""
FEWEST = 14
"""The fewest photographs at which intervals by the jackknife of correlations hold."""


def may_know_labels(entries: Iterable[str], beside: Beside) -> Iterator[tuple[str, str]]:
    """Yield each entry whose SROCC on clean images is shown to be much higher than without a defense, and say so.

    A defense seldom adds to what a metric sees. One that writes what it knows of a photograph does.
    """
    for label in entries:
        pair = beside(label)
        if pair is None or len(pair[0]) < FEWEST:
            continue
        gain = t_interval(pair[0] - pair[1], level=LEVEL)
        if gain.low > MARGIN:
            yield (
                label,
                f"SROCC on clean images is {gain.value:.3f} [{gain.low:.3f}, {gain.high:.3f}] higher than without a "
                "defense: it may know the labels, which photographs that nobody has published would tell",
            )
