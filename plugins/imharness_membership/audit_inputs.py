"""Reads the input of an audit: outputs and labels of a model and its shadow model, on members and non-members."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imharness.errors import UsageError
from imharness.files import read_arrays, read_columns

Array = np.ndarray
MODELS, SIDES, KINDS = ("shadow", "target"), ("member", "nonmember"), ("outputs", "labels")
SUM_TOLERANCE = 1e-3
SHOWN_COLUMNS = 20


@dataclass(frozen=True)
class Outputs:
    """A model's probabilities float32 ``(n, classes)``, labels int64 ``(n,)`` and membership bool ``(n,)``."""

    outputs: Array
    labels: Array
    member: Array

    def at(self, chosen: Array) -> "Outputs":
        """Return the chosen rows, by number or by a mask."""
        return Outputs(self.outputs[chosen], self.labels[chosen], self.member[chosen])


@dataclass(frozen=True)
class Named:
    """The names of the arrays in messages, and the advice where outputs are logits."""

    outputs: str
    labels: str
    remedy: str = "add --logits"


def read_audit(path: Path, logits: bool, shadow: bool = True) -> dict[str, Outputs]:
    """Return the outputs of ``shadow`` and ``target`` from an npz, csv or parquet file.

    `shadow`: whether there must be a shadow model.

    An npz has the arrays {shadow,target}_{member,nonmember}_{outputs,labels}. A table has the columns model ("shadow"
    or "target"), member (0 or 1), label, and the outputs as p0, p1, ... Raises `UsageError` that names the array and
    row.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist.")
    readers = {".npz": _from_npz, ".csv": _from_table, ".parquet": _from_table, ".pq": _from_table}
    if path.suffix not in readers:
        raise UsageError(f"{path}: the ending must be .npz, .csv or .parquet.")
    read = readers[path.suffix](path, shadow)
    parts = {
        name: checked(outputs, labels, Named(f"{path}: {name}_outputs", f"{path}: {name}_labels"), logits)
        for name, (outputs, labels) in read.items()
    }
    widths = {name: outputs.shape[1] for name, (outputs, _) in parts.items()}
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{name} {width}" for name, width in widths.items())
        raise UsageError(f"{path}: outputs differ in their number of classes: {listed}.")
    models = [model for model in MODELS if f"{model}_{SIDES[0]}" in parts]
    return {model: _joined([parts[f"{model}_{side}"] for side in SIDES]) for model in models}


def _joined(sides: Sequence[tuple[Array, Array]]) -> Outputs:
    inside, outside = sides
    member = np.arange(len(inside[1]) + len(outside[1])) < len(inside[1])
    return Outputs(*(np.concatenate(pair) for pair in zip(inside, outside, strict=True)), member)


def _from_npz(path: Path, shadow: bool) -> dict[str, tuple[Array, Array]]:
    names = {model: [f"{model}_{side}_{kind}" for side in SIDES for kind in KINDS] for model in MODELS}
    there = MODELS if shadow else tuple(model for model in MODELS if model == "target" or _holds(path, names[model]))
    found = read_arrays(path, [name for model in there for name in names[model]])
    return {
        f"{model}_{side}": (found[f"{model}_{side}_outputs"], found[f"{model}_{side}_labels"])
        for model in there
        for side in SIDES
    }


def _holds(path: Path, names: Sequence[str]) -> bool:
    """Return whether an npz file has any of these arrays."""
    return bool(set(names) & set(read_arrays(path)))


def _from_table(path: Path, shadow: bool) -> dict[str, tuple[Array, Array]]:
    table = read_columns(path)
    for name in ("model", "member", "label", "p0", "p1"):
        if name not in table.columns:
            raise UsageError(
                f"{path} has no column {name}; it has: {', '.join(map(repr, table.columns[:SHOWN_COLUMNS]))}."
            )
    model, member = table.texts("model"), table.numbers("member")
    outputs = np.stack([table.numbers(name) for name in _leading(table.columns)], axis=1)
    labels = table.numbers("label")
    strange = np.flatnonzero(~np.isin(model, MODELS))
    if len(strange):
        shown = str(model[strange[0]])
        raise UsageError(f"{path}, row {strange[0]}: model is {shown!r:.60}; it must be shadow or target.")
    _refuse(f"{path}, row", (member != 0) & (member != 1), "has a value of member that is neither 0 nor 1", member)
    member = member == 1
    return {
        f"{name}_{side}": (outputs[mask], labels[mask])
        for name in MODELS
        if shadow or name == "target" or (model == name).any()
        for side, mask in (("member", (model == name) & member), ("nonmember", (model == name) & ~member))
    }


def _leading(names: Sequence[str]) -> Iterator[str]:
    """Yield p0, p1, ... up to the first that is missing."""
    number = 0
    while f"p{number}" in names:
        yield f"p{number}"
        number += 1


def checked(outputs: Array, labels: Array, named: Named, logits: bool = False) -> tuple[Array, Array]:
    """Return probabilities float32 ``(n, classes)``, of logits by softmax, and labels int64 ``(n,)``.

    Raises `UsageError` that names the array and row, for wrong shapes, numbers outside [0, 1], rows that do not sum to
    1, and labels that are not a class.
    """
    where = named.outputs
    if outputs.ndim != 2 or outputs.shape[1] < 2 or outputs.dtype.kind not in "iuf":
        raise UsageError(f"{where} must be numbers (rows, classes) with at least 2 classes, got {_shape(outputs)}.")
    if len(outputs) == 0:
        raise UsageError(f"{where} has no rows.")
    if len(outputs) == 1:
        raise UsageError(f"{where} has one row; an audit needs at least two of each side.")
    if labels.shape != (len(outputs),):
        raise UsageError(f"{named.labels} must have shape ({len(outputs)},), got {_shape(labels)}.")
    _refuse(f"{where}, row", ~np.isfinite(outputs).all(axis=1), "holds NaN or infinity")
    if labels.dtype.kind not in "iuf":
        raise UsageError(f"{named.labels} must be whole numbers, got {labels.dtype}.")
    outside = ~np.isfinite(labels) | (labels != np.floor(labels)) | (labels < 0) | (labels >= outputs.shape[1])
    _refuse(f"{named.labels}, row", outside, f"is not a class from 0 to {outputs.shape[1] - 1}", labels)
    if logits:
        shifted = np.exp(outputs.astype(np.float64) - outputs.max(axis=1, keepdims=True))
        outputs = shifted / shifted.sum(axis=1, keepdims=True)
    else:
        _refuse(
            f"{where}, row",
            (outputs < 0).any(axis=1) | (outputs > 1 + SUM_TOLERANCE).any(axis=1),
            f"is outside [0, 1]; if these are logits, {named.remedy}",
        )
        total = outputs.sum(axis=1, dtype=np.float64)
        _refuse(
            f"{where}, row", np.abs(total - 1) > SUM_TOLERANCE, f"does not sum to 1 (logits: {named.remedy})", total
        )
    return outputs.astype(np.float32), labels.astype(np.int64)


def _refuse(where: str, bad: Array, what: str, values: Array | None = None) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        shown = "" if values is None else f": {values[rows[0]]:g}"
        more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
        raise UsageError(f"{where} {rows[0]} {what}{shown}{more}.")


def _shape(array: Array) -> str:
    return f"{array.dtype} {array.shape}"
