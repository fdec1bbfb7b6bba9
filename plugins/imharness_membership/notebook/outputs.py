"""Reads the outputs of a model from a user's argument: arrays, a data frame, or a module and two loaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from imharness.errors import UsageError
from imharness.extending import array_of, output_of, refuse_other_orders, wrong
from imharness.files import numbered
from imharness_membership.audit_inputs import CALLED, Array, Outputs, checked, note_of_unread
from imharness_membership.notebook.unsteady import refuse_unsteady
from imharness_membership.source_doubts import doubts_of_forms, doubts_of_inputs, some_rows, traits_of

ARRAYS = ("probabilities", "labels", "member")
AT_ONCE = 1024
"""The number of rows whose traits are computed at a time."""
READ_AGAIN = 32
"""The number of rows of a loader's data set that are read twice, to see whether they are altered at random."""


def models_of(target: Any) -> Array | None:
    """Return a mask of the shadow's rows for a data frame with the outputs of both models; None for another form."""
    if not (_is_frame(target) and "model" in list(target.columns)):
        return None
    model = np.asarray(target["model"]).astype(str)
    strange = sorted(set(model) - {"shadow", "target"})
    if strange:
        raise UsageError(f"target: the column model holds {strange[0]!r:.60}; it must be shadow or target.")
    return np.asarray(model == "shadow")


def _is_frame(value: Any) -> bool:
    """Say whether a value is a data frame, of pandas or another library."""
    return hasattr(value, "columns") and hasattr(value, "__getitem__") and not isinstance(value, Mapping)


def outputs_of(name: str, outputs: Any) -> Outputs:
    """Return the checked outputs, labels and membership; `name` is the argument's. See `ih.audit` for the forms."""
    if isinstance(outputs, tuple):
        called = ("outputs of the model", "labels of the loaders", "member")
        answers, labels, member, traits = _asked(name, outputs)
        wrong = () if traits is None else tuple(doubts_of_inputs(traits, member, CALLED[name]))
        return replace(_checked(name, called, answers, labels, member, logits=None), wrong=wrong)
    if _is_frame(outputs):
        rows = _checked(name, ("columns p0, p1, ...", "column label", "column member"), *_columns(name, outputs))
        return replace(rows, notes=(*rows.notes, *note_of_unread([str(column) for column in outputs.columns], name)))
    wanted = ARRAYS if _has(outputs, "labels") else ("probabilities", "member")
    values = {array: _array(name, outputs, array) for array in wanted}
    refuse_other_orders({f"{name}: {array}": value for array, value in values.items()})
    arrays = {array: array_of(f"{name}: {array}", value) for array, value in values.items()}
    return _checked(name, ARRAYS, arrays["probabilities"], arrays.get("labels"), arrays["member"])


def _checked(
    name: str,
    called: tuple[str, str, str],
    outputs: Array,
    labels: Array | None,
    member: Array,
    logits: bool | None = False,
) -> Outputs:
    """Return the checked outputs, labels and membership; without labels, the predicted classes take their place.

    `called`: how messages name the three arrays; `logits`: as in `probabilities_of`.
    """
    where, whose, members = (f"{name}: {array}" for array in called)
    checkable_labels = np.zeros(len(outputs), dtype=np.int64) if labels is None else labels
    shares, classes, note = checked(outputs, checkable_labels, where, whose, logits)
    if member.shape != classes.shape:
        raise UsageError(f"{members} must have shape {classes.shape}, got {member.shape}.")
    if not np.isin(member, (0, 1)).all():
        raise UsageError(f"{members} must hold true and false, or 1 and 0.")
    inside = member.astype(bool)
    some_members = outputs[some_rows(np.flatnonzero(inside))]
    some_others = outputs[some_rows(np.flatnonzero(~inside))]
    doubts = tuple(doubts_of_forms(some_members, some_others, CALLED[name]))
    rows = Outputs(shares, classes, inside, (note,) if note else (), doubts=doubts)
    return rows.unlabelled() if labels is None else rows


def doubts_of_data(inputs: Any, member: Array) -> tuple[str, ...]:
    """Return a sentence if the inputs alone separate members of the target from others; () otherwise.

    `inputs`: those of all rows; nothing is said about inputs that are no numbers ``(n, ...)``.
    """
    values = inputs if isinstance(inputs, torch.Tensor) else np.asarray(inputs)
    if (
        values.ndim < 2
        or len(values) != len(member)
        or (isinstance(values, np.ndarray) and values.dtype.kind not in "biuf")
    ):
        return ()
    traits = np.concatenate(
        [traits_of(torch.as_tensor(values[i : i + AT_ONCE])) for i in range(0, len(values), AT_ONCE)]
    )
    return tuple(doubts_of_inputs(traits, member, "target"))


def _has(outputs: Any, array: str) -> bool:
    """Say whether a mapping has an array under this key, or an object under this attribute."""
    value = outputs.get(array) if isinstance(outputs, Mapping) else getattr(outputs, array, None)
    return value is not None


def _array(name: str, outputs: Any, array: str) -> Any:
    """Return an array of a mapping or object; raises `UsageError` if it has none."""
    if isinstance(outputs, Mapping) and array in outputs:
        return outputs[array]
    if not isinstance(outputs, Mapping) and hasattr(outputs, array):
        return getattr(outputs, array)
    raise UsageError(
        f"{name} has no {array}; give a mapping with {', '.join(ARRAYS)}, a data frame, or "
        "(model, members, nonmembers)."
    )


def _columns(name: str, frame: Any) -> tuple[Array, Array, Array]:
    """Return probabilities ``(n, classes)``, labels and membership of a data frame."""
    have = [str(column) for column in frame.columns]
    for column in ("member", "label", "p0", "p1"):
        if column not in have:
            raise UsageError(f"{name} has no column {column}; it has: {', '.join(map(repr, have[:20])) or 'none'}.")
    probabilities = [array_of(f"{name}: column {column}", frame[column]) for column in numbered(have, "p", name)]
    label, member = (array_of(f"{name}: column {column}", frame[column]) for column in ("label", "member"))
    return np.stack(probabilities, axis=1), label, member


def _asked(name: str, arguments: tuple[Any, ...]) -> tuple[Array, Array, Array, Array | None]:
    """Return a model's probabilities for the rows of two loaders, with their labels, membership and `traits_of`.

    Traits are None where inputs are no tensors ``(n, ...)``. Raises `UsageError` where a loader alters its inputs at
    random, or the model answers a row otherwise when it is asked again.
    """
    if len(arguments) != 3 or not isinstance(arguments[0], torch.nn.Module):
        raise UsageError(f"{name}: a tuple must be (model, members, nonmembers): a torch module and two loaders.")
    model, *loaders = arguments
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    outputs: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    traits: list[Array] | None = []
    counts: list[int] = []  # of rows, by loader

    def answer(batch: Any) -> Any:
        return output_of(model(batch.to(device)), name).float().cpu()

    was_training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            for loader, side in zip(loaders, ("members", "non-members"), strict=True):
                counts.append(0)
                _refuse_random(name, side, loader)
                for inputs, truth in _pairs(name, loader):
                    is_first_batch = counts[-1] == 0
                    outputs.append(answer(inputs))
                    labels.append(torch.as_tensor(truth).cpu())
                    counts[-1] += len(labels[-1])
                    if isinstance(inputs, torch.Tensor) and is_first_batch:
                        refuse_unsteady(answer, inputs, outputs[-1], f"{name}: the model")
                    is_rows = isinstance(inputs, torch.Tensor) and inputs.ndim > 1 and not inputs.is_complex()
                    traits = [*traits, traits_of(inputs)] if is_rows and traits is not None else None
    finally:
        for module, training in was_training.items():
            module.training = training
    if not all(counts):
        raise UsageError(f"{name}: the loader of {'members' if not counts[0] else 'non-members'} yields no rows.")
    member = np.arange(sum(counts)) < counts[0]
    return torch.cat(outputs).numpy(), torch.cat(labels).numpy(), member, traits and np.concatenate(traits)


def _refuse_random(name: str, side: str, loader: Any) -> None:
    """Raise `UsageError` if the data set of a loader gives other inputs when it is read again, as augmentation does."""
    data = getattr(loader, "dataset", None)
    if not isinstance(loader, DataLoader) or loader.batch_sampler is None or isinstance(data, IterableDataset):
        return
    try:
        chosen = [int(i) for i in np.unique(np.linspace(0, len(data) - 1, READ_AGAIN))]
        with torch.random.fork_rng(devices=[]):
            first, second = (loader.collate_fn([data[i] for i in chosen]) for _ in range(2))
    except (LookupError, TypeError):  # it has no length, or its rows no numbers
        return
    both_inputs = [batch[0] for batch in (first, second) if isinstance(batch, tuple | list) and batch]
    are_tensors = len(both_inputs) == 2 and all(isinstance(inputs, torch.Tensor) for inputs in both_inputs)
    if are_tensors and not torch.equal(*both_inputs):
        raise UsageError(
            f"{name}: the loader of {side} alters its inputs at random, which hides what the model knows of the "
            "rows; take the transforms of the evaluation for both loaders."
        )


def _pairs(name: str, loader: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    """Yield the pairs of a loader; raises `UsageError` for anything that is not a pair of a tensor and labels."""
    if not isinstance(loader, Iterable):
        raise wrong(name, "two loaders after the model", loader)
    for batch in loader:
        if not (isinstance(batch, tuple | list) and len(batch) == 2 and hasattr(batch[0], "to")):
            raise wrong(name, "loaders of pairs of inputs and labels", batch)
        yield batch[0], batch[1]
