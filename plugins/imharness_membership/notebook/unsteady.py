"""Refuses models whose answer to a row changes when they are asked again, as with dropout or batch statistics."""

from collections.abc import Callable
from typing import Any

import numpy as np

from imharness.errors import UsageError
from imharness.extending import array_of
from imharness_membership.probabilities import shares_of

ROWS, STEADY = 64, 0.05
"""Half of the first `ROWS` rows (or of all, if there are fewer) are asked about again, in a batch of their own; no
probability may then change by more than `STEADY`."""


def refuse_unsteady(answer: Callable[[Any], Any], inputs: Any, answers: Any, model: str) -> None:
    """Raise `UsageError` if a model, called `model`, gives other answers about the first rows in a smaller batch.

    Args:
        answer: inputs -> ``(n, classes)``.
        inputs: rows that can be sliced.
        answers: the answers to these inputs, all asked at once.
    """
    count = min(ROWS, len(answers)) // 2
    if not count:
        return
    first, second = (array_of(model, each)[:count] for each in (answers, answer(inputs[:count])))
    try:
        first, second = shares_of(first, model), shares_of(second, model)
    except UsageError:  # the check of all answers raises it, too, and names the row
        return
    if first.shape == second.shape and np.abs(first - second).max() <= STEADY:
        return
    raise UsageError(
        f"{model} answers the same rows otherwise when it is asked again: dropout or the statistics of a batch are on, "
        "or it draws anew. Put it into evaluation mode, or let what it draws depend on the row alone."
    )
