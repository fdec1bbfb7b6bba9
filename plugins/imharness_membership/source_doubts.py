"""Why members and others seem to have been prepared in two ways, so that attacks find the preparation.

Membership says nothing about an input, and about how answers were written, where both sides are of one source.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
import torch

Array = npt.NDArray[Any]
RARE = 1e-3
"""A doubt arises with at most this probability where there is no reason for it."""
AREA = 0.55
"""The area under the ROC curve that what is no answer of the model may reach, which is 1/2 for one source."""
FEW = 20
"""So many rows of a side at least are looked at."""
MOST, MOST_DECIMALS, MANTISSA, ON_GRID = 5000, 6, 12, 2e-7
"""Of as many rows, numbers are rounded where all have at most so many decimals, or bits, up to this relative error."""
NEAR = 1e-3
"""How far arithmetic may carry a probability beyond 1."""
CUT, TINY = 0.99, 1e-30
"""Rows were cut where so large a share has zeros, and no other number is so small as those before an underflow."""


def doubts_of_forms(members: Array, others: Array, name: str) -> Iterator[str]:
    """Yield a sentence if answers of a model, called `name`, were rounded or cut on one side alone.

    Both are ``(n, classes)``, as they were given: rounded rows are no longer so once they sum to 1. Nothing is said of
    a side beside one that is rounded, too: sure answers lie on any grid.
    """
    inside, outside = (some_rows(side).astype(np.float64) for side in (members, others))
    if any(len(side) < FEW or side.min() < 0 or side.max() > 1 + NEAR for side in (inside, outside)):
        return
    for side, other, which in ((inside, outside, "members"), (outside, inside, "non-members")):
        if _is_rounded(other) or len(np.unique(other)) <= len(other):
            continue
        how = "rounded" if _is_rounded(side) else "cut to the top classes" if _is_cut(side, other) else ""
        if how:
            yield (
                f"Answers of the {name} are {how} on {which} alone, which tells the sides apart whatever the model "
                "knows. Were both asked in one way?"
            )


def some_rows(rows: Array) -> Array:
    """Return about `MOST` rows, evenly spaced, or all."""
    return rows[:: max(1, len(rows) // MOST)]


def _is_rounded(answers: Array) -> bool:
    """Return whether all numbers lie on a grid of decimals, or have a short mantissa."""
    units = [np.ldexp(np.frexp(answers)[0], MANTISSA), *(answers * 10**digits for digits in range(MOST_DECIMALS + 1))]
    return any(bool((np.abs(unit - np.rint(unit)) <= ON_GRID * unit).all()) for unit in units)


def _is_cut(side: Array, other: Array) -> bool:
    """Return whether rows of a side have zeros that no arithmetic makes, and those of the other have none."""
    zeros, others = ((each == 0).any(axis=1).mean() for each in (side, other))
    return bool(zeros >= CUT and others <= 1 - CUT and side[side > 0].min() > TINY)


def traits_of(inputs: torch.Tensor) -> npt.NDArray[np.float64]:
    """Return what tells how inputs ``(n, ...)`` were prepared, float64 ``(n, 4)``, in the order of `TRAITS`."""
    values = inputs.detach().cpu().double()
    rows = values.flatten(1)
    nothing = torch.zeros(len(rows), dtype=torch.float64)
    steps = values.diff(dim=-1).abs().flatten(1)
    colours = values[:, 0].flatten(1).mean(dim=1) - values[:, -1].flatten(1).mean(dim=1) if values.ndim > 3 else nothing
    roughness = steps.mean(dim=1) if steps.shape[1] else nothing
    return torch.stack([rows.mean(dim=1), rows.std(dim=1, correction=0), roughness, colours], dim=1).numpy()


TRAITS = ("mean", "standard deviation", "difference of neighbours", "difference of the first and last channel")
"""What `traits_of` returns of an input."""


def doubts_of_inputs(traits: npt.NDArray[np.float64], member: Array, name: str) -> Iterator[str]:
    """Yield a sentence if the inputs of a model, called `name`, tell members from others.

    Args:
        traits: of each input, ``(n, k)``, of which those with a value that is not finite do not count.
        member: bool ``(n,)``.
    """
    finite = np.isfinite(traits).all(axis=1)
    areas = [apart(values, member[finite], len(TRAITS)) for values in traits[finite].T]
    far = int(np.argmax(np.abs(np.array(areas) - 0.5)))
    if areas[far] != 0.5:
        yield (
            f"Inputs of the {name} alone tell members from others, by the {TRAITS[far]} of each with an area under the "
            f"ROC curve of {max(areas[far], 1 - areas[far]):.3f}, whatever the model answers. Are both prepared in one "
            "way (scale, normalisation, order of colours, size), and of one source?"
        )


def apart(values: Array, member: Array, tests: int = 1) -> float:
    """Return the area under the ROC curve of values for members, 1/2 where it is not shown to be far from that.

    `tests`: how many are made, each of which is wrong with at most a probability of `RARE` / `tests`.
    """
    inside, outside = values[member], values[~member]
    n, m = len(inside), len(outside)
    if min(n, m) < FEW:
        return 0.5
    area = float(scipy.stats.mannwhitneyu(inside, outside).statistic) / (n * m)
    far = AREA - 0.5 + scipy.stats.norm.isf(RARE / (2 * tests)) * np.sqrt((n + m + 1) / (12 * n * m))
    return area if abs(area - 0.5) > far else 0.5
