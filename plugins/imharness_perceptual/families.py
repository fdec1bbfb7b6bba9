"""Means over families of distortions.

Their intervals resample whole photographs, because the choices among images of one photograph are not independent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from imharness.leaderboard import Blocks, Value, interval, missing, value_of

FamilyNumbers = tuple[np.ndarray, np.ndarray]
"""The numbers of a family ``(n,)`` without NaN, and the photograph of each number ``(n,)``."""


def repeated(photographs: np.ndarray) -> np.ndarray | None:
    """Return the photographs as clusters of units; None if no photograph has two units, so that units are independent.

    `photographs` names the photograph of each unit.
    """
    return photographs if len(np.unique(photographs.astype(str))) < len(photographs) else None


def numbers_by_family(
    choices: Blocks, metric: str, families: Sequence[str], measure: str = "all"
) -> dict[str, FamilyNumbers]:
    """Return family -> a metric's credit for the choices of the family, and the photograph of each choice."""
    row, by_family = choices.entries.index(metric), {}
    for family in families:
        conditions = choices.where(distortion=family)
        numbers = np.concatenate([choices.values[measure][c][row] for c in conditions])
        photographs = np.concatenate([choices.about["photograph"][c] for c in conditions])
        defined = ~np.isnan(numbers)
        by_family[family] = (numbers[defined], photographs[defined])
    return by_family


def mean_of_families(by_family: Mapping[str, FamilyNumbers]) -> Value:
    """Return the unweighted mean of the families' means, as in figure 4 of Zhang et al. (CVPR 2018).

    Whole photographs are resampled, over all families at once. The value is missing if a family has no number.
    """
    empty = [family for family, (numbers, _) in by_family.items() if not len(numbers)]
    if empty or not by_family:
        return missing(f"no number on {', '.join(empty)}" if empty else "no choices")
    photographs = np.concatenate([labels for _, labels in by_family.values()])
    names, photograph_index = np.unique(photographs.astype(str), return_inverse=True)
    ends = np.cumsum([len(numbers) for numbers, _ in by_family.values()])
    index_by_family = np.split(photograph_index, ends[:-1])
    # of each family: how many numbers every photograph has, and their sum
    counts = [np.bincount(indices, minlength=len(names)) for indices in index_by_family]
    sums = [
        np.bincount(indices, numbers, minlength=len(names))
        for indices, (numbers, _) in zip(index_by_family, by_family.values(), strict=True)
    ]

    def mean(chosen: np.ndarray) -> np.ndarray:
        """Return the mean of each resample, whose photographs are a row of `chosen` ``(resamples, photographs)``."""
        resampled = [
            (total[chosen].sum(axis=1), count[chosen].sum(axis=1)) for total, count in zip(sums, counts, strict=True)
        ]
        with np.errstate(invalid="ignore"):
            return np.mean([total / count for total, count in resampled], axis=0)

    clusters = None if len(names) == len(photographs) else names
    numbers = np.concatenate([numbers for numbers, _ in by_family.values()])
    limits = float(numbers.min()), float(numbers.max())  # used where a resample has no photograph of a family
    return value_of(replace(interval(mean, len(names), clusters, limits=limits), n=len(photographs)))
