"""Whether somebody tells two groups apart that nobody can tell apart: the test of a task that holds no information."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable


def beyond_chance(score: npt.ArrayLike, member: npt.ArrayLike) -> float:
    """Return the p-value, one-sided, of guesses about who is a member, where chance gives each row an equal part.

    Two tests share it, corrected for both: Fisher's exact test of the guesses, of which those with a score of at least
    0 say "member", and the Mann-Whitney test of the order of the scores, with its correction for ties. Raises
    `NotTestable` without members or without others, and for scores that are not finite.

    Args:
        score: ``(n,)``.
        member: bool ``(n,)``.
    """
    scores, inside = np.asarray(score, dtype=np.float64), np.asarray(member, dtype=bool)
    if scores.shape != inside.shape or inside.all() or not inside.any():
        raise NotTestable("chance is tested with members and others, and a score for each")
    if not np.isfinite(scores).all():
        raise NotTestable("scores contain NaN or infinity")
    flagged = scores >= 0
    caught, accused, members = int((flagged & inside).sum()), int(flagged.sum()), int(inside.sum())
    exact = float(scipy.stats.hypergeom.sf(caught - 1, len(scores), accused, members))
    order = scipy.stats.mannwhitneyu(scores[inside], scores[~inside], alternative="greater").pvalue
    return min(1.0, 2 * min(exact, 1.0 if np.isnan(order) else float(order)))
