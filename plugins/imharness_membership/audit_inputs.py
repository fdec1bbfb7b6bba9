"""Reads the input of an audit: outputs and labels of a model and its shadow model, on members and non-members."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from imharness.errors import UsageError
from imharness.files import numbered, read_arrays, read_columns
from imharness_membership.probabilities import probabilities_of, refuse_rows
from imharness_membership.source_doubts import doubts_of_forms

Array = np.ndarray
MODELS, SIDES, KINDS = ("shadow", "target"), ("member", "nonmember"), ("outputs", "labels")
CALLED = {"shadow": "shadow model", "target": "target"}
SHOWN_COLUMNS = 20


@dataclass(frozen=True)
class Outputs:
    """A model's probabilities float32 ``(n, classes)``, labels int64 ``(n,)`` and membership bool ``(n,)``.

    `notes`: sentences on how the outputs were turned into probabilities. `labelled`: whether labels are the true
    classes, and not those that the model predicts. `doubts`: sentences on members and non-members whose outputs came in
    different forms, such as rounded and not. `wrong`: sentences on inputs by which attacks could separate members for
    another reason than the training.
    """

    outputs: Array
    labels: Array
    member: Array
    notes: tuple[str, ...] = ()
    labelled: bool = True
    doubts: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    def at(self, chosen: Array) -> "Outputs":
        """Return the chosen rows, by number or by a mask."""
        return replace(self, outputs=self.outputs[chosen], labels=self.labels[chosen], member=self.member[chosen])

    def unlabelled(self) -> "Outputs":
        """Return the same with the predicted class in the place of the true one."""
        return replace(self, labels=self.outputs.argmax(axis=1), labelled=False)


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
    read, unread = readers[path.suffix](
        path, shadow
    )  # read: {model}_{side} -> (outputs, labels) as they are in the file
    arrays = {
        name: checked(outputs, labels, f"{path}: {name}_outputs", f"{path}: {name}_labels", logits)
        for name, (outputs, labels) in read.items()
    }
    widths = {name: outputs.shape[1] for name, (outputs, _, _) in arrays.items()}
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{name} {width}" for name, width in widths.items())
        raise UsageError(f"{path}: outputs differ in their number of classes: {listed}.")
    by_model: dict[str, Outputs] = {}
    for model in MODELS:
        if f"{model}_{SIDES[0]}" not in arrays:
            continue
        outputs = _joined([arrays[f"{model}_{side}"] for side in SIDES])
        members, nonmembers = (read[f"{model}_{side}"][0] for side in SIDES)
        doubts = tuple(doubts_of_forms(members, nonmembers, CALLED[model]))
        by_model[model] = replace(outputs, notes=(*outputs.notes, *unread), doubts=doubts)
    return by_model


def note_of_unread(columns: Sequence[str], where: str) -> tuple[str, ...]:
    """Return a sentence that names the columns of a table which are not read, such as weights; () if all are read."""
    read = {"model", "member", "label", *numbered(columns, "p", where)}
    unread = [name for name in columns if name not in read]
    if not unread:
        return ()
    more = f" and {len(unread) - SHOWN_COLUMNS} more" if len(unread) > SHOWN_COLUMNS else ""
    names = ", ".join(map(repr, unread[:SHOWN_COLUMNS]))
    return (f"{where}: not read are the columns {names}{more}; each row counts once, and as independent.",)


def _joined(sides: Sequence[tuple[Array, Array, str]]) -> Outputs:
    """Return the outputs of members, then of non-members; `sides`: (outputs, labels, note) of each, see `checked`."""
    outputs, labels, notes = zip(*sides, strict=True)
    member = np.arange(sum(map(len, labels))) < len(labels[0])
    return Outputs(np.concatenate(outputs), np.concatenate(labels), member, tuple(filter(None, notes)))


def _from_npz(path: Path, shadow: bool) -> tuple[dict[str, tuple[Array, Array]], tuple[str, ...]]:
    """Return {model}_{side} -> (outputs, labels), and no sentences; `shadow`: whether a shadow model is required."""
    names = {model: [f"{model}_{side}_{kind}" for side in SIDES for kind in KINDS] for model in MODELS}
    there = MODELS if shadow else tuple(model for model in MODELS if model == "target" or _holds(path, names[model]))
    arrays = read_arrays(path, [name for model in there for name in names[model]])
    read = {
        f"{model}_{side}": (arrays[f"{model}_{side}_outputs"], arrays[f"{model}_{side}_labels"])
        for model in there
        for side in SIDES
    }
    return read, ()


def _holds(path: Path, names: Sequence[str]) -> bool:
    """Return whether an npz file has any of these arrays."""
    return bool(set(names) & set(read_arrays(path)))


def _from_table(path: Path, shadow: bool) -> tuple[dict[str, tuple[Array, Array]], tuple[str, ...]]:
    """Return {model}_{side} -> (outputs, labels), and a sentence on columns that are not read, if there are any."""
    table = read_columns(path)
    for name in ("model", "member", "label", "p0", "p1"):
        if name not in table.columns:
            raise UsageError(
                f"{path} has no column {name}; it has: {', '.join(map(repr, table.columns[:SHOWN_COLUMNS]))}."
            )
    model, member = table.texts("model"), table.numbers("member")
    outputs = np.stack([table.numbers(name) for name in numbered(table.columns, "p", str(path))], axis=1)
    labels = table.numbers("label")
    strange = np.flatnonzero(~np.isin(model, MODELS))
    if len(strange):
        text = str(model[strange[0]])
        raise UsageError(f"{path}, row {strange[0]}: model is {text!r:.60}; it must be shadow or target.")
    refuse_rows(f"{path}, row", (member != 0) & (member != 1), "has a value of member that is neither 0 nor 1", member)
    member = member == 1
    read = {
        f"{name}_{side}": (outputs[mask], labels[mask])
        for name in MODELS
        if shadow or name == "target" or (model == name).any()
        for side, mask in (("member", (model == name) & member), ("nonmember", (model == name) & ~member))
    }
    return read, note_of_unread(table.columns, str(path))


def checked(
    outputs: Array, labels: Array, where: str, whose: str, logits: bool | None = None
) -> tuple[Array, Array, str]:
    """Return probabilities float32 ``(n, classes)``, labels int64 ``(n,)``, and a note on how outputs were changed.

    `where` names the outputs in messages, `whose` the labels; `logits` as in `probabilities_of`. Raises `UsageError`
    that names the array and row, for outputs that are neither probabilities nor logits, and labels that are no class.
    """
    probabilities, note = probabilities_of(outputs, where, logits)
    if labels.shape != (len(probabilities),):
        raise UsageError(f"{whose} must have shape ({len(probabilities)},), got {labels.dtype} {labels.shape}.")
    if labels.dtype.kind not in "iuf":
        raise UsageError(f"{whose} must be whole numbers, got {labels.dtype}.")
    outside = ~np.isfinite(labels) | (labels != np.floor(labels)) | (labels < 0) | (labels >= probabilities.shape[1])
    refuse_rows(f"{whose}, row", outside, f"is not a class from 0 to {probabilities.shape[1] - 1}", labels)
    return probabilities, labels.astype(np.int64), note
