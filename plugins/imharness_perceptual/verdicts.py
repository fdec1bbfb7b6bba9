"""How well a distance agrees with judgements: forced choices, just noticeable differences, average precision.

Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric" (CVPR 2018), sections 2.2 and 4.
"""

import numpy as np

Array = np.ndarray


def credit(first: Array, second: Array, judge: Array) -> Array:
    """Return a metric's agreement with the people who were asked about each forced choice, ``(n,)``.

    `first`, `second`: distances of alternatives 0 and 1 from the reference; `judge`: share p that found 1 nearer. A
    metric that prefers 1 earns p, one that prefers 0 earns 1 - p, a tie half of each. NaN where a distance is NaN.
    """
    right = np.where(second < first, judge, np.where(first < second, 1 - judge, 0.5))
    return np.where(np.isnan(first) | np.isnan(second), np.nan, right)


def ceiling(judge: Array) -> Array:
    """Return the credit of a person drawn from those asked: p^2 + (1 - p)^2 (section 4)."""
    return judge**2 + (1 - judge) ** 2


def another_person(judge: Array, judges: Array) -> Array:
    """Return how often two of the people asked agree; NaN where fewer than two were asked.

    `judges`: number n of people who were asked. A person drawn from those also agrees with themselves; without that
    share, (n (p^2 + (1 - p)^2) - 1) / (n - 1) is unbiased for the credit of a person who was not asked.
    """
    n = np.where(judges > 1, judges, np.nan)
    return (n * ceiling(judge) - 1) / (n - 1)


def majority(judge: Array) -> Array:
    """Return the highest credit that any distance can earn, max(p, 1 - p) (appendix A)."""
    return np.maximum(judge, 1 - judge)


def average_precision(distance: Array, same: Array, counted: Array | None = None) -> Array:
    """Return the average precision of a distance that predicts "no difference": the nearest pairs first.

    The last axis of the arguments are pairs of images. `same`: share of people who saw no difference, which is the
    weight of a pair as a positive; `counted`: bool, which pairs take part, by default all. Average precision is the
    area under the precision-recall curve. Pairs with equal distances are retrieved together, and precision is made to
    fall with recall, as in the PASCAL VOC challenge. NaN where everybody saw a difference in every pair.
    """
    order = np.argsort(distance, axis=-1)
    distance, same = (np.take_along_axis(np.asarray(x, dtype=np.float64), order, axis=-1) for x in (distance, same))
    weight = np.ones_like(same) if counted is None else np.take_along_axis(counted, order, axis=-1).astype(np.float64)
    hits, retrieved = np.cumsum(weight * same, axis=-1), np.cumsum(weight, axis=-1)
    # precision is read after the last pair of each distance
    last = np.concatenate([distance[..., 1:] != distance[..., :-1], np.ones((*distance.shape[:-1], 1), bool)], axis=-1)
    precision = np.divide(hits, retrieved, out=np.zeros_like(hits), where=last & (retrieved > 0))
    falling = np.maximum.accumulate(precision[..., ::-1], axis=-1)[..., ::-1]
    total = hits[..., -1]
    area = (np.diff(hits, prepend=0.0, axis=-1) * falling).sum(axis=-1)
    return np.divide(area, total, out=np.full_like(total, np.nan), where=total > 0)
