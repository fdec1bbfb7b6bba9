"""The vectorised one-sided Wilcoxon signed-rank test, compared with scipy pair by pair."""

import functools

import numpy as np
from scipy import stats

from benchmarks.timing import Line, best_of
from imharness.statistics.wilcoxon import wilcoxon_greater

PAIRS, N = 500, 1000
GOAL, GOAL_WITH_TIES = 12, 10


def lines() -> list[Line]:
    """Return speed and the largest difference of p-values: once without ties, once with many ties and zeros."""
    continuous = np.random.default_rng(0).normal(0.02, 1, (PAIRS, N))
    results = []
    samples = ("", continuous, GOAL), (", many ties", np.round(continuous, 2), GOAL_WITH_TIES)
    for name, differences, goal in samples:
        ours, loop = functools.partial(wilcoxon_greater, differences), functools.partial(_loop, differences)
        worst = float(np.max(np.abs(ours() - loop())))
        ratio = best_of(3, loop) / best_of(20, ours)
        what = f"Wilcoxon, {PAIRS} pairs of n = {N}{name}: times faster than a loop over scipy"
        results.append(Line(what, f"{ratio:.1f}x", f">= {goal}x", ratio >= goal))
        results.append(Line("    largest difference of p-values", f"{worst:.1e}", "<= 1e-12", worst <= 1e-12))
    return results


def _loop(differences: np.ndarray) -> np.ndarray:
    return np.array([stats.wilcoxon(d, alternative="greater").pvalue for d in differences])
