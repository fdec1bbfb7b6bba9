"""Reads the reference models of `ih.audit` from a user's argument, or trains them with the user's function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.data import derive_seed
from imharness.errors import UsageError
from imharness.extending import array_of, shown_progress, whole, wrong
from imharness_membership.audit_references import FEWEST, GivenReferences
from imharness_membership.notebook.trained import Trainer, Training, Workers, log_odds

COUNT, MOST = 16, 4096
"""The number of reference models that are trained by default, and the largest number."""
KINDS = ("log_odds", "probabilities")


def references_of(value: Any) -> GivenReferences:
    """Return the answers and the membership of reference models; raises `UsageError`."""
    if isinstance(value, Mapping):
        kinds = [name for name in KINDS if value.get(name) is not None]
        if len(kinds) != 1 or value.get("member") is None:
            raise wrong("references", "a mapping with member, and log_odds or probabilities", sorted(map(str, value)))
        answers, called = value[kinds[0]], (f"references: {kinds[0]}", "references: member")
        views, target_views = (
            None if value.get(name) is None else array_of(f"references: {name}", value[name])
            for name in ("views", "target_views")
        )
        return GivenReferences(
            array_of(called[0], answers), array_of(called[1], value["member"]), called, views, target_views
        )
    if isinstance(value, tuple | list) and len(value) == 2:
        return GivenReferences(array_of("references: answers", value[0]), array_of("references: member", value[1]))
    raise wrong("references", "a pair (answers, member) or a mapping; a number only with train=", value)


def trained_for(
    target: Any, trainer: Trainer, references: Any, seed: int, workers: Workers, progress: bool
) -> tuple[Any, dict[str, npt.NDArray[Any]]]:
    """Train the reference models, and the target if it is None; return the target and the arrays of the references.

    Args:
        target: the user's argument; None: a model is trained on a random half of the rows, too.
        references: the number of reference models; None means `COUNT`.
    """
    count = COUNT if references is None else whole("references", references)
    if not FEWEST <= count <= MOST:
        raise UsageError(f"references: expected a number from {FEWEST} to {MOST}, got {count}.")
    masks = halves(len(trainer.labels), count, seed)
    trainings = [_training(mask, f"reference {number}", seed) for number, mask in enumerate(masks)]
    if target is None:
        trainings.insert(0, _training(_half(len(trainer.labels), "target", seed), "target", seed))
    if target is not None and trainer.views:
        raise UsageError(
            "views: the target's answers to them are needed, too; leave target out, so that it is trained."
        )
    with shown_progress("trained models", progress) as advance:
        answers = np.stack(workers.answers(trainer, trainings, advance))  # (models, 1 + v, n, classes)
    further: dict[str, npt.NDArray[Any]] = {}
    if trainer.views:
        odds = np.stack(
            [[log_odds(of_view, trainer.labels) for of_view in of_model[1:]] for of_model in answers]
        )  # (models, v, n)
        further = {"target_views": odds[0], "views": odds[1:]}
    if target is None:
        target = {"probabilities": answers[0, 0], "labels": trainer.labels, "member": trainings[0].chosen}
        answers = answers[1:]
    return target, {"probabilities": answers[:, 0], "member": masks, **further}


def halves(rows: int, count: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows on which each reference model is trained, bool ``(count, rows)``.

    Models 2 k and 2 k + 1 are trained on complementary halves. So each row is in the training set of half of the
    models, if their number is even (Zarifzadeh, Liu & Shokri, ICML 2024).
    """
    masks = []
    for number in range((count + 1) // 2):
        first = _half(rows, f"pair {number}", seed)
        masks += [first, ~first]
    return np.stack(masks)[:count]


def _half(rows: int, name: str, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of a random half of the rows, which depends on a name and a seed."""
    order = np.random.default_rng(derive_seed("half", name, seed)).permutation(rows)
    return np.asarray(order < rows // 2)


def _training(mask: npt.NDArray[np.bool_], name: str, seed: int) -> Training:
    """Return the training of a model; every model has a seed of its own, small enough for any library."""
    return Training(mask, derive_seed("training", name, seed) % 2**31, name)
