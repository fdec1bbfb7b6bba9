"""Finds out whether members and non-members were prepared in two ways, so that attacks find the preparation.

If both come from one source, membership is independent of the inputs, and of the form of the answers, such as rounding.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
import torch

Array = npt.NDArray[Any]
RARE = 1e-3
"""The significance level: inputs of one source raise a doubt at most this often."""
AREA = 0.55
"""The largest area under the ROC curve with which a trait of the inputs may separate members from non-members; it is
1/2 for one source."""
FEW = 20
"""The fewest members, and the fewest non-members, that are compared."""
MOST, MOST_DECIMALS, MANTISSA, ON_GRID = 5000, 6, 12, 2e-7
"""About `MOST` rows are looked at. Numbers count as rounded if all of them have at most `MOST_DECIMALS` decimals, or at
most `MANTISSA` bits of the mantissa, up to the relative error `ON_GRID`."""
NEAR = 1e-3
"""How far a probability may exceed 1, because of a model's arithmetic."""
CUT, TINY = 0.99, 1e-30
"""Rows count as cut to the top classes if at least the share `CUT` of them has zeros, and if no other number is below
`TINY`, as it would be if the zeros came from an underflow."""


def doubts_of_forms(members: Array, others: Array, name: str) -> Iterator[str]:
    """Yield a sentence if answers of a model, called `name`, were rounded or cut on one side alone.

    `members`, `others`: their answers ``(n, classes)`` in the user's form, because rounded rows that were divided by
    their sum are no longer rounded. If the answers of the other side are rounded or have few values, nothing is said,
    because answers that are certain lie on any grid.
    """
    inside, outside = (some_rows(answers).astype(np.float64) for answers in (members, others))
    if any(len(answers) < FEW or answers.min() < 0 or answers.max() > 1 + NEAR for answers in (inside, outside)):
        return
    for answers, other_answers, side in ((inside, outside, "members"), (outside, inside, "non-members")):
        if _is_rounded(other_answers) or len(np.unique(other_answers)) <= len(other_answers):
            continue
        if _is_rounded(answers):
            how = "rounded"
        elif _is_cut(answers, other_answers):
            how = "cut to the top classes"
        else:
            continue
        yield (
            f"Answers of the {name} are {how} on {side} alone, which tells the sides apart whatever the model "
            "knows. Were both asked in one way?"
        )


def some_rows(rows: Array) -> Array:
    """Return about `MOST` rows, evenly spaced, or all."""
    return rows[:: max(1, len(rows) // MOST)]


def _is_rounded(answers: Array) -> bool:
    """Return whether all numbers lie on a grid of decimals, or have a short mantissa."""
    units = [np.ldexp(np.frexp(answers)[0], MANTISSA), *(answers * 10**digits for digits in range(MOST_DECIMALS + 1))]
    return any(bool((np.abs(unit - np.rint(unit)) <= ON_GRID * unit).all()) for unit in units)


def _is_cut(answers: Array, other_answers: Array) -> bool:
    """Return whether nearly all rows of `answers` were cut to the top classes, and hardly any of `other_answers`."""
    with_zeros, others_with_zeros = ((rows == 0).any(axis=1).mean() for rows in (answers, other_answers))
    return bool(with_zeros >= CUT and others_with_zeros <= 1 - CUT and answers[answers > 0].min() > TINY)


def traits_of(inputs: torch.Tensor) -> npt.NDArray[np.float64]:
    """Return traits of inputs ``(n, ...)`` that depend on their preparation, float64 ``(n, 4)``: those of `TRAITS`."""
    values = inputs.detach().cpu().double()
    rows = values.flatten(1)
    nothing = torch.zeros(len(rows), dtype=torch.float64)
    steps = values.diff(dim=-1).abs().flatten(1)
    colours = values[:, 0].flatten(1).mean(dim=1) - values[:, -1].flatten(1).mean(dim=1) if values.ndim > 3 else nothing
    roughness = steps.mean(dim=1) if steps.shape[1] else nothing
    return torch.stack([rows.mean(dim=1), rows.std(dim=1, correction=0), roughness, colours], dim=1).numpy()


TRAITS = ("mean", "standard deviation", "difference of neighbours", "difference of the first and last channel")
"""The traits of an input in words, in the order of `traits_of`."""


def doubts_of_inputs(traits: npt.NDArray[np.float64], member: Array, name: str) -> Iterator[str]:
    """Yield a sentence if a trait of the inputs of a model, called `name`, separates members from non-members.

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
    """Return the area under the ROC curve with which values separate members from non-members.

    It is 1/2 exactly if it is not shown to be further from 1/2 than `AREA`. `tests`: the number of such tests that are
    made together; each is wrong with a probability of at most `RARE` / `tests`.
    """
    inside, outside = values[member], values[~member]
    n, m = len(inside), len(outside)
    if min(n, m) < FEW:
        return 0.5
    area = float(scipy.stats.mannwhitneyu(inside, outside).statistic) / (n * m)
    by_chance = scipy.stats.norm.isf(RARE / (2 * tests)) * np.sqrt((n + m + 1) / (12 * n * m))
    return area if abs(area - 0.5) > AREA - 0.5 + by_chance else 0.5
