"""Answers `imharness.audit`: checks the outputs of models, divides the rows and audits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from imharness.errors import HarnessError, UsageError
from imharness.membership import Component, MembershipEvaluator, Progress
from imharness.questions import AuditAnswer, AuditRequest, GivenOutputs, ModelAudit
from imharness.stats import chosen_half
from imharness_membership.audit import Known, audit, brief, standard, untested, usable
from imharness_membership.audit_inputs import Array, Named, Outputs, checked
from imharness_membership.audit_references import KnownReferences, checked_references

SOURCES = {
    "target": "other rows of the same model, whose membership they knew",
    "shadow": "rows of the shadow model",
    "reference": "rows of the first reference model, which served as the shadow model",
}
"""The model from whose rows evaluators learn -> these rows in words."""
FEWEST = 20
"""The fewest members, and the fewest non-members, from which evaluators learn and on which they are tested."""


def answered(asked: AuditRequest, progress: Progress = lambda done, total: None) -> AuditAnswer:
    """Audit a model; raises `UsageError` that names the argument and the row."""
    from imharness.commands import every

    labelled = asked.target.labels is not None
    read, theirs = _outputs(asked.target), asked.target.shadow
    rows = read if theirs is None else read.at(~theirs)
    references = asked.references and checked_references(asked.references, rows.labels, labelled)
    half = _known_half(asked, read, references)
    known, tested = _parts(asked, read, references, half)
    for name, part in (("learn from", known), ("be tested on", tested)):
        inside, outside = int(part.member.sum()), int((~part.member).sum())
        if min(inside, outside) < FEWEST:
            raise UsageError(
                f"target: evaluators need {FEWEST} members and {FEWEST} non-members to {name}, "
                f"got {inside} and {outside}."
            )
    if known.outputs.shape[1] != tested.outputs.shape[1]:
        raise UsageError(
            f"shadow has {known.outputs.shape[1]} classes and target {tested.outputs.shape[1]}; they must agree."
        )
    have = Known(
        references if references is None or half is None else references.at(~half),
        references.at(half) if references is not None and references.outside and half is not None else None,
        labelled,
    )
    evaluators = _chosen(asked.evaluators, asked.named, len(tested.labels), have)
    found = audit(
        known,
        tested,
        evaluators,
        progress,
        has_shadow=half is None,
        left_out=untested(every("evaluator"), evaluators, asked.named, have),
        known=have,
    )
    return AuditAnswer(found, _measured(found, SOURCES[_source(asked, half)]))


def _source(asked: AuditRequest, half: Array | None) -> str:
    """Return from whose rows evaluators learn."""
    if half is not None:
        return "target"
    return "reference" if asked.shadow is None and asked.target.shadow is None else "shadow"


def _chosen(evaluators: Sequence[Component], named: bool, rows: int, known: Known) -> list[MembershipEvaluator]:
    return usable(evaluators, known) if named else standard(evaluators, rows, known)


def _known_half(asked: AuditRequest, read: Outputs, references: KnownReferences | None) -> Array | None:
    """Return which of the target's rows evaluators know, bool ``(n,)``; None where they learn from another model."""
    own_shadow = asked.target.shadow is not None or asked.shadow is not None
    if own_shadow and references is not None and references.outside:
        raise UsageError(
            "shadow: leave it out where reference models were trained on none of the target's rows; thresholds are "
            "then learned on half of these rows."
        )
    if own_shadow or (references is not None and references.shadow(read.labels) is not None):
        return None
    half = np.zeros(len(read.labels), dtype=bool)
    for side in (read.member, ~read.member):
        half[side] = chosen_half(np.arange(side.sum()))
    return half


def _parts(
    asked: AuditRequest, read: Outputs, references: KnownReferences | None, half: Array | None
) -> tuple[Outputs, Outputs]:
    """Return the rows from which evaluators learn and those on which they are tested."""
    if half is not None:
        return read.at(half), read.at(~half)
    if asked.target.shadow is not None:
        return read.at(asked.target.shadow), read.at(~asked.target.shadow)
    if asked.shadow is not None:
        given = asked.shadow if asked.target.labels is not None else replace(asked.shadow, labels=None)
        return _outputs(given), read
    shadow = None if references is None else references.shadow(read.labels)
    if shadow is None:
        raise HarnessError("there are neither known rows nor another model to learn from")
    own = replace(shadow, labels=shadow.outputs.argmax(axis=1)) if asked.target.labels is None else shadow
    return own, read


def _outputs(given: GivenOutputs) -> Outputs:
    """Return the checked outputs, labels and membership; without labels, the predicted class stands for each."""
    probabilities, rows, members = given.called
    labels = given.labels
    if labels is None:
        found = given.probabilities
        labels = found.argmax(axis=1) if found.ndim == 2 and found.size else np.zeros(len(found), dtype=np.int64)
    outputs, classes = checked(given.probabilities, labels, Named(probabilities, rows, "apply a softmax first"))
    if given.member.shape != classes.shape:
        raise UsageError(f"{members} must have shape {classes.shape}, got {given.member.shape}.")
    if not np.isin(given.member, (0, 1)).all():
        raise UsageError(f"{members} must hold true and false, or 1 and 0.")
    return Outputs(outputs, classes, given.member.astype(bool))


def _measured(found: ModelAudit, source: str) -> str:
    others = f"{found.references} reference models answered for the same rows. " if found.references else ""
    accuracy = (
        "without labels, so that the class it predicts stands for the true one"
        if found.train_accuracy is None or found.test_accuracy is None
        else f"its accuracy is {found.train_accuracy:.3f} on members and {found.test_accuracy:.3f} on non-members"
    )
    differs = found.mismatches()
    warned = (
        f"The adversary's models differ from the target, so that an adversary with better copies may find more: "
        f"{'; '.join(differs)}. "
        if differs
        else ""
    )
    return (
        f"Measured on {found.members + found.nonmembers} rows of the target, {found.members} members and "
        f"{found.nonmembers} non-members, {found.classes} classes; {accuracy}. "
        f"Evaluators learned from {found.known} {source}. {others}{warned}"
        f"{_decides(found)}Intervals are 95%, over rows, each counted as independent: normal for the balanced "
        "accuracy, DeLong for the AUC, Clopper and Pearson for the rates."
    )


def _decides(found: ModelAudit) -> str:
    """Say why the first row of several is the result of the audit."""
    if len(found.findings) == 1:
        return ""
    return (
        f"The first row, {brief(found.worst().evaluator)}, is the result: it was the most accurate on rows whose "
        "membership it could check, before it saw the tested ones. Another row may show more by chance. "
    )
