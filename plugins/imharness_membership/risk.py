"""The privacy risk score: the probability that a row is a member, given the model's output for it.

Song & Mittal (USENIX Security 2021), section 4.1: equation 15 estimates, per class, how modified entropy is distributed
over members and non-members of the shadow model; equation 12 turns this into a probability for any prior, and equation
13 is the case of the prior 1/2.
"""

import numpy as np

Array = np.ndarray
BINS, FLOOR = 5, 1e-10
"""The number of bins of modified entropies, and the value to which smaller ones are raised."""
THRESHOLDS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""The thresholds in tables of precision and recall: rows with at least this score are called members."""
SLACK = 1e-6
"""A score that is below a threshold by less than this counts as reaching it: float32 turns .9 into .89999998."""


def risk_scores(
    shadow: Array,
    member: Array,
    shadow_labels: Array,
    target: Array,
    target_labels: Array,
    classes: int,
    prior: float = 0.5,
) -> Array:
    """Return float64 ``(m,)`` in [0, 1]: the probability that each target row is a member.

    Modified entropies, floored at 1e-10, fall into five log-spaced bins between the least and the greatest of the
    shadow rows of their class; values outside belong to the bin at that end. An empty bin has the score of the nearest
    bin that is not empty, the lower one of two. A class without shadow rows uses all rows.

    Args:
        shadow, target: modified entropies ``(n,)``, ``(m,)``.
        prior: probability of membership before anything is seen.
    """
    # every shadow row is counted twice: in the group of its class, and in group `classes`, which has all rows
    labels = np.r_[shadow_labels, np.full(len(shadow), classes)]
    values = np.log10(np.maximum(np.r_[shadow, shadow].astype(np.float64), FLOOR))
    low, high = np.full(classes + 1, np.inf), np.full(classes + 1, -np.inf)
    np.minimum.at(low, labels, values)
    np.maximum.at(high, labels, values)
    group_of_class = np.where(np.isfinite(low), np.arange(classes + 1), classes)
    counts = np.zeros((2, classes + 1, BINS))  # of non-members and members
    np.add.at(counts, (np.r_[member, member].astype(int), labels, _bin(values, labels, low, high)), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / counts.sum(axis=2, keepdims=True)
        share = np.nan_to_num(share)
        score = prior * share[1] / (prior * share[1] + (1 - prior) * share[0])
    groups = group_of_class[target_labels]
    target_values = np.log10(np.maximum(target.astype(np.float64), FLOOR))
    risks = _nearest(score)[groups, _bin(target_values, groups, low, high)]
    return np.nan_to_num(risks, nan=prior)


def _bin(values: Array, labels: Array, low: Array, high: Array) -> Array:
    """Return the bin of each value, 0 to 4, between the least (`low`) and the greatest (`high`) of its group."""
    width = np.where(high > low, high - low, 1.0)
    return np.clip(np.floor((values - low[labels]) / width[labels] * BINS), 0, BINS - 1).astype(np.int64)


def _nearest(score: Array) -> Array:
    """Replace NaN by the score of the nearest bin of the same class that has one, the lower one first."""
    filled = score.copy()
    for distance in range(1, BINS):
        for shift in (distance, -distance):
            moved = np.full_like(score, np.nan)
            if shift > 0:
                moved[:, shift:] = score[:, :-shift]
            else:
                moved[:, :shift] = score[:, -shift:]
            filled = np.where(np.isnan(filled), moved, filled)
    return filled


def precision_and_recall(scores: Array, member: Array, thresholds: Array) -> tuple[Array, Array]:
    """Return precision (NaN where no row is accused) and recall of accusing the rows that reach each threshold."""
    inside, outside, lowest = np.sort(scores[member]), np.sort(scores[~member]), thresholds - SLACK
    hits = len(inside) - np.searchsorted(inside, lowest)
    accused = hits + len(outside) - np.searchsorted(outside, lowest)
    with np.errstate(invalid="ignore"):
        return hits / np.where(accused, accused, np.nan), hits / max(len(inside), 1)


def calibration(scores: Array, member: Array, bins: int = 10) -> tuple[Array, Array, Array]:
    """Return for each occupied bin of the score its mean score, its true share of members, and its number of rows."""
    bin_index = np.minimum(((scores + SLACK) * bins).astype(np.int64), bins - 1)
    count = np.bincount(bin_index, minlength=bins)
    filled = count > 0
    total, inside = np.bincount(bin_index, scores, bins), np.bincount(bin_index, member, bins)
    return total[filled] / count[filled], inside[filled] / count[filled], count[filled]


def calibration_rmse(scores: Array, member: Array, bins: int = 10) -> float:
    """Return the root mean square difference between the score and the true share of members, over rows."""
    predicted, real, count = calibration(scores, member, bins)
    return float(np.sqrt(np.average((predicted - real) ** 2, weights=count)))
