"""Refuses models that answer a row otherwise when they are asked again: dropout, or the statistics of a batch."""

from collections.abc import Callable
from typing import Any

import numpy as np

from imharness.errors import UsageError
from imharness.extending import array_of
from imharness_membership.probabilities import shares_of

ROWS, STEADY = 64, 0.05
"""So many rows are asked about again, in a batch of half of them; probabilities then differ by no more than this."""


def refuse_unsteady(answer: Callable[[Any], Any], inputs: Any, answers: Any, model: str) -> None:
    """Raise `UsageError` if a model, called `model`, gives other answers about the first rows in a smaller batch.

    Args:
        answer: inputs -> ``(n, classes)``.
        inputs: rows that can be sliced.
        answers: what it answered about all of them at once.
    """
    some = min(ROWS, len(answers)) // 2
    if not some:
        return
    pair = [array_of(model, each)[:some] for each in (answers, answer(inputs[:some]))]
    try:
        first, second = (shares_of(each, model) for each in pair)
    except UsageError:  # whoever reads all answers says what is wrong, and of which row
        return
    if first.shape == second.shape and np.abs(first - second).max() <= STEADY:
        return
    raise UsageError(
        f"{model} answers the same rows otherwise when it is asked again: dropout or the statistics of a batch are on, "
        "or it draws anew. Put it into evaluation mode, or let what it draws depend on the row alone."
    )
