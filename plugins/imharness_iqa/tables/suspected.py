"""Entries that are better than the undefended metric where nobody attacks: they may know the labels."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from imharness.leaderboard import t_interval

Beside = Callable[[str], tuple[np.ndarray, np.ndarray] | None]
"""Label -> what each photograph adds to the SROCC of an entry, and to that of the undefended metric, ``(k,)`` each."""
LEVEL = 0.998
"""The level of each entry's interval. It does not depend on the other entries, so that copies of an entry change
nothing. With fifty honest entries, none of them better than the metric alone, at most 5 % of leaderboards flag one."""
MARGIN = 0.05
"""The least gain that counts: unsharp masking, which is honest, gains .04 on the photographs that ship."""
FEWEST = 14
"""The fewest photographs at which intervals by the jackknife of correlations hold."""


def may_know_labels(entries: Iterable[str], beside: Beside) -> Iterator[tuple[str, str]]:
    """Yield label and reason of each entry whose SROCC on clean images is shown to be much higher than without defense.

    A defense can hardly make scores agree better with labels, unless it knows the labels of the photographs.
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
