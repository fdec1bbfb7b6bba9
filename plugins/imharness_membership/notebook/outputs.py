"""Reads what people give as the outputs of a model: arrays, a data frame, or a module and two loaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from imharness.errors import UsageError
from imharness.extending import array_of, output_of, refuse_other_orders, wrong
from imharness.files import numbered
from imharness_membership.audit_inputs import Array, Outputs, checked

ARRAYS = ("probabilities", "labels", "member")


def models_of(target: Any) -> Array | None:
    """Return which rows of a data frame with outputs of both models are the shadow's; None for another form."""
    if not (_is_frame(target) and "model" in list(target.columns)):
        return None
    model = np.asarray(target["model"]).astype(str)
    strange = sorted(set(model) - {"shadow", "target"})
    if strange:
        raise UsageError(f"target: the column model holds {strange[0]!r:.60}; it must be shadow or target.")
    return np.asarray(model == "shadow")


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "__getitem__") and not isinstance(value, Mapping)


def outputs_of(name: str, outputs: Any) -> Outputs:
    """Return the checked outputs, labels and membership; `name` is the argument's. See `ih.audit` for the forms."""
    if isinstance(outputs, tuple):
        called = ("outputs of the model", "labels of the loaders", "member")
        return _checked(name, called, *_asked(name, outputs), logits=None)
    if _is_frame(outputs):
        return _checked(name, ("columns p0, p1, ...", "column label", "column member"), *_columns(name, outputs))
    values = {a: _array(name, outputs, a) for a in ARRAYS if a != "labels" or _has(outputs, a)}
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
    """Return the checked arrays; `called` are their names in messages. Without labels the predicted classes stand."""
    where, whose, members = (f"{name}: {array}" for array in called)
    some = np.zeros(len(outputs), dtype=np.int64) if labels is None else labels
    shares, classes, note = checked(outputs, some, where, whose, logits)
    if member.shape != classes.shape:
        raise UsageError(f"{members} must have shape {classes.shape}, got {member.shape}.")
    if not np.isin(member, (0, 1)).all():
        raise UsageError(f"{members} must hold true and false, or 1 and 0.")
    rows = Outputs(shares, classes, member.astype(bool), (note,) if note else ())
    return rows.unlabelled() if labels is None else rows


def _has(outputs: Any, array: str) -> bool:
    return (outputs.get(array) if isinstance(outputs, Mapping) else getattr(outputs, array, None)) is not None


def _array(name: str, outputs: Any, array: str) -> Any:
    if isinstance(outputs, Mapping) and array in outputs:
        return outputs[array]
    if not isinstance(outputs, Mapping) and hasattr(outputs, array):
        return getattr(outputs, array)
    raise UsageError(
        f"{name} has no {array}; give a mapping with {', '.join(ARRAYS)}, a data frame, or "
        "(model, members, nonmembers)."
    )


def _columns(name: str, frame: Any) -> tuple[Array, Array, Array]:
    have = [str(column) for column in frame.columns]
    for column in ("member", "label", "p0", "p1"):
        if column not in have:
            raise UsageError(f"{name} has no column {column}; it has: {', '.join(map(repr, have[:20])) or 'none'}.")
    probabilities = [array_of(f"{name}: column {column}", frame[column]) for column in numbered(have, "p", name)]
    label, member = (array_of(f"{name}: column {column}", frame[column]) for column in ("label", "member"))
    return np.stack(probabilities, axis=1), label, member


def _asked(name: str, arguments: tuple[Any, ...]) -> tuple[Array, Array, Array]:
    """Return a model's probabilities for the rows of two loaders, with their labels and membership."""
    if len(arguments) != 3 or not isinstance(arguments[0], torch.nn.Module):
        raise UsageError(f"{name}: a tuple must be (model, members, nonmembers): a torch module and two loaders.")
    model, *loaders = arguments
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    outputs: list[torch.Tensor] = []
    labels: list[torch.Tensor] = []
    rows = []
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            for loader in loaders:
                before = sum(map(len, labels))
                for inputs, truth in _pairs(name, loader):
                    outputs.append(output_of(model(inputs.to(device)), name).float().cpu())
                    labels.append(torch.as_tensor(truth).cpu())
                rows.append(sum(map(len, labels)) - before)
    finally:
        for module, before_that in training.items():
            module.training = before_that
    if not all(rows):
        raise UsageError(f"{name}: the loader of {'members' if not rows[0] else 'non-members'} yields no rows.")
    return torch.cat(outputs).numpy(), torch.cat(labels).numpy(), np.arange(sum(rows)) < rows[0]


def _pairs(name: str, loader: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    """Yield the pairs of a loader; raises `UsageError` for anything that is not a pair of a tensor and labels."""
    if not isinstance(loader, Iterable):
        raise wrong(name, "two loaders after the model", loader)
    for batch in loader:
        if not (isinstance(batch, tuple | list) and len(batch) == 2 and hasattr(batch[0], "to")):
            raise wrong(name, "loaders of pairs of inputs and labels", batch)
        yield batch[0], batch[1]
