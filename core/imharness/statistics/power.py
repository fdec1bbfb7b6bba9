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


def smallest_shown(
    unit_values: npt.ArrayLike, units: int, alpha: float, *, studies: int = STUDIES, seed: int = 0
) -> float:
    """Return the smallest true difference that `units` units show in four of five simulated studies.

    `unit_values` ``(k,)``: what each unit of an earlier contest contributes to the difference of two entries, NaN left
    out, in its unit, such as percentage points. `alpha`: the two-sided level of a single interval, such as
    `imharness.documents.comparisons.Comparison.alpha`. NaN with fewer than two units.

    A study of mean m and standard error s shows a difference d that is added to it if m + d > q s, so that the smallest
    one is a quantile of q s - m over the studies.
    """
    measured = np.asarray(unit_values, dtype=np.float64)
    measured = measured[~np.isnan(measured)]
    if len(measured) < 2 or units < 2:
        return float("nan")
    centred = (measured - measured.mean()) * np.sqrt(len(measured) / (len(measured) - 1))
    rng, least = np.random.default_rng(seed), np.empty(studies)
    step = max(1, _HELD // units)
    for start in range(0, studies, step):
        drawn: Floats = centred[rng.integers(0, len(centred), (min(step, studies - start), units))]
        error = drawn.std(axis=1, ddof=1) / np.sqrt(units)
        least[start : start + step] = quantile(alpha, units) * error - drawn.mean(axis=1)
    return float(np.quantile(least, POWER))
