"""Whether guesses beat chance in a task that holds no information: then the guesser knows what it must not know."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from imharness.statistics import NotTestable


def beyond_chance(score: npt.ArrayLike, member: npt.ArrayLike) -> float:
    """Return the one-sided p-value of guesses about who is a member, if scores have nothing to do with membership.

    It is twice the smaller one of two tests: Fisher's exact test of the guesses, of which those with a score of at
    least 0 say "member", and the Mann-Whitney test of the order of the scores, with its correction for ties. Raises
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
    guessed = scores >= 0
    right, guesses, members = int((guessed & inside).sum()), int(guessed.sum()), int(inside.sum())
    exact = float(scipy.stats.hypergeom.sf(right - 1, len(scores), guesses, members))
    order = scipy.stats.mannwhitneyu(scores[inside], scores[~inside], alternative="greater").pvalue
    return min(1.0, 2 * min(exact, 1.0 if np.isnan(order) else float(order)))
