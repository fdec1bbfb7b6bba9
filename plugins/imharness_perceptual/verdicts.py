"""How well a distance agrees with judgements: forced choices, just noticeable differences, average precision.

Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric" (CVPR 2018), sections 2.2 and 4.
"""

import numpy as np

Array = np.ndarray


def credit(first: Array, second: Array, judge: Array) -> Array:
    """Return the agreement of each forced choice with the people asked, ``(n,)``.

    `first`, `second`: distances of alternatives 0 and 1 from the reference; `judge`: share p that found 1 nearer. A
    metric that prefers 1 earns p, one that prefers 0 earns 1 - p, a tie half of each.
    """
    return np.where(second < first, judge, np.where(first < second, 1 - judge, 0.5))


def ceiling(judge: Array) -> Array:
    """Return the credit of a person drawn from those asked: p^2 + (1 - p)^2."""
    return judge**2 + (1 - judge) ** 2


def average_precision(distance: Array, same: Array) -> float:
    """Return the area under the precision-recall curve of "no difference" as the distance grows.

    `same`: share of people who saw none, counted as so much of a positive. Precision is made to fall with recall, as in
    the PASCAL VOC challenge. Returns NaN when nobody saw no difference.
    """
    if not same.sum() > 0:
        return float("nan")
    order = np.argsort(distance, kind="stable")
    found = np.cumsum(same[order])
    precision, recall = found / np.arange(1, len(order) + 1), found / found[-1]
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0.0) * falling).sum())
