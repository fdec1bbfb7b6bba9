"""Means over families of distortions; intervals resample photographs, because units of one are not independent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from imharness.leaderboard import Blocks, Value, interval, missing, value_of

Part = tuple[np.ndarray, np.ndarray]
"""The numbers of a family without NaN, and the photograph of each."""


def repeated(photographs: np.ndarray) -> np.ndarray | None:
    """Return the photographs as clusters, or None where each has one unit, so that units are independent."""
    return photographs if len(np.unique(photographs.astype(str))) < len(photographs) else None


def parts_of(choices: Blocks, metric: str, families: Sequence[str], measure: str = "all") -> dict[str, Part]:
    """Return family -> a metric's credit for its choices, and their photographs."""
    row, by_family = choices.entries.index(metric), {}
    for family in families:
        places = choices.where(distortion=family)
        numbers = np.concatenate([choices.values[measure][c][row] for c in places])
        photographs = np.concatenate([choices.about["photograph"][c] for c in places])
        by_family[family] = (numbers[~np.isnan(numbers)], photographs[~np.isnan(numbers)])
    return by_family


def mean_of_families(by_family: Mapping[str, Part]) -> Value:
    """Return the unweighted mean of the families' means, as in figure 4 of Zhang et al. (CVPR 2018).

    Whole photographs are resampled, over all families at once. The value is missing if a family has no number.
    """
    empty = [family for family, (numbers, _) in by_family.items() if not len(numbers)]
    if empty or not by_family:
        return missing(f"no number on {', '.join(empty)}" if empty else "no choices")
    photographs = np.concatenate([labels for _, labels in by_family.values()])
    names, photograph_index = np.unique(photographs.astype(str), return_inverse=True)
    places = np.split(photograph_index, np.cumsum([len(numbers) for numbers, _ in by_family.values()])[:-1])
    sizes = [np.bincount(indices, minlength=len(names)) for indices in places]
    sums = [
        np.bincount(indices, n, minlength=len(names))
        for indices, (n, _) in zip(places, by_family.values(), strict=True)
    ]

    def mean(chosen: np.ndarray) -> np.ndarray:
        counted = [
            (total[chosen].sum(axis=1), size[chosen].sum(axis=1)) for total, size in zip(sums, sizes, strict=True)
        ]
        with np.errstate(invalid="ignore"):
            return np.mean([total / size for total, size in counted], axis=0)

    clusters = None if len(names) == len(photographs) else names
    numbers = np.concatenate([numbers for numbers, _ in by_family.values()])
    limits = float(numbers.min()), float(numbers.max())  # of a family that a resample lacks
    return value_of(replace(interval(mean, len(names), clusters, limits=limits), n=len(photographs)))
