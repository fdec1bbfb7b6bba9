"""Means over families of distortions; intervals resample photographs, because units of one are not independent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from imharness.stats import interval
from imharness.tables import Blocks, Value, missing, value_of

Part = tuple[np.ndarray, np.ndarray]
"""The numbers of a family without NaN, and the photograph of each."""


def repeated(photographs: np.ndarray) -> np.ndarray | None:
    """Return the photographs as clusters, or None where each has one unit, so that units are independent."""
    return photographs if len(np.unique(photographs.astype(str))) < len(photographs) else None


def parts_of(choices: Blocks, metric: str, families: Sequence[str], measure: str = "all") -> dict[str, Part]:
    """Return family -> a metric's credit for its choices, and their photographs."""
    row, found = choices.entries.index(metric), {}
    for family in families:
        places = choices.where(distortion=family)
        numbers = np.concatenate([choices.values[measure][c][row] for c in places])
        photographs = np.concatenate([choices.about["photograph"][c] for c in places])
        found[family] = (numbers[~np.isnan(numbers)], photographs[~np.isnan(numbers)])
    return found


def mean_of_families(parts: Mapping[str, Part]) -> Value:
    """Return the unweighted mean of the families' means, as in figure 4 of Zhang et al. (CVPR 2018).

    Whole photographs are resampled, over all families at once. The value is missing if a family has no number.
    """
    empty = [family for family, (numbers, _) in parts.items() if not len(numbers)]
    if empty or not parts:
        return missing(f"no number on {', '.join(empty)}" if empty else "no choices")
    photographs = np.concatenate([own for _, own in parts.values()])
    names, place = np.unique(photographs.astype(str), return_inverse=True)
    places = np.split(place, np.cumsum([len(numbers) for numbers, _ in parts.values()])[:-1])
    sizes = [np.bincount(own, minlength=len(names)) for own in places]
    sums = [np.bincount(own, n, minlength=len(names)) for own, (n, _) in zip(places, parts.values(), strict=True)]

    def mean(chosen: np.ndarray) -> np.ndarray:
        counted = [
            (total[chosen].sum(axis=1), size[chosen].sum(axis=1)) for total, size in zip(sums, sizes, strict=True)
        ]
        with np.errstate(invalid="ignore"):
            return np.mean([total / size for total, size in counted], axis=0)

    clusters = None if len(names) == len(photographs) else names
    return value_of(replace(interval(mean, len(names), clusters), n=len(photographs)))
