"""How small a difference of two entries a contest of a planned size can show: simulated studies.

A contest shows a difference if its interval, simultaneous with those of all other pairs, lies above zero. A simulated
study draws units, such as photographs, with replacement from those of an earlier contest. Their mean difference is
taken away, and the true one is added. So spread and skewness are those that were measured, and nothing is supposed to
be normal. What is not simulated: another number of entries, or other attacks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from imharness.statistics.differences import POWER, Floats, quantile

STUDIES = 2_000
_HELD = 2**22
"""How many drawn numbers are held together."""


def smallest_shown(parts: npt.ArrayLike, units: int, tail: float, *, studies: int = STUDIES, seed: int = 0) -> float:
    """Return the smallest true difference that `units` units show in four of five simulated studies.

    `parts` ``(k,)``: what each unit of an earlier contest contributes to the difference of two entries, NaN left out,
    in its unit, such as percentage points. `tail`: the two-sided level of a single interval, such as
    `imharness.results.comparisons.Comparison.tail`. NaN with fewer than two units.

    A study of mean m and standard error s shows a difference d that is added to it if m + d > q s, so that the smallest
    one is a quantile of q s - m over the studies.
    """
    own = np.asarray(parts, dtype=np.float64)
    own = own[~np.isnan(own)]
    if len(own) < 2 or units < 2:
        return float("nan")
    centred = (own - own.mean()) * np.sqrt(len(own) / (len(own) - 1))
    rng, least = np.random.default_rng(seed), np.empty(studies)
    step = max(1, _HELD // units)
    for start in range(0, studies, step):
        drawn: Floats = centred[rng.integers(0, len(centred), (min(step, studies - start), units))]
        error = drawn.std(axis=1, ddof=1) / np.sqrt(units)
        least[start : start + step] = quantile(tail, units) * error - drawn.mean(axis=1)
    return float(np.quantile(least, POWER))
