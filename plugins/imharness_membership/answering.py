"""Answers `imharness.audit`: checks the outputs of models, divides the rows and audits them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from imharness.errors import UsageError
from imharness.membership import Component, MembershipEvaluator
from imharness.questions import AuditAnswer, AuditRequest, GivenOutputs, ModelAudit
from imharness.stats import chosen_half
from imharness_membership.audit import audit, brief, standard, untested, usable
from imharness_membership.audit_inputs import Array, Named, Outputs, checked

FEWEST = 20
"""The fewest members, and the fewest non-members, from which evaluators learn and on which they are tested."""


def answered(asked: AuditRequest) -> AuditAnswer:
    """Audit a model; raises `UsageError` that names the argument and the row."""
    from imharness.commands import every

    known, tested = _parts(asked)
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
    evaluators = _chosen(asked.evaluators, asked.named, len(tested.labels))
    found = audit(
        known,
        tested,
        evaluators,
        lambda done, total: None,
        has_shadow=asked.shadow is not None or asked.target.shadow is not None,
        left_out=untested(every("evaluator"), evaluators, asked.named),
    )
    return AuditAnswer(found, _measured(found))


def _chosen(evaluators: Sequence[Component], named: bool, rows: int) -> list[MembershipEvaluator]:
    return usable(evaluators) if named else standard(evaluators, rows)


def _parts(asked: AuditRequest) -> tuple[Outputs, Outputs]:
    """Return the rows from which evaluators learn and those on which they are tested."""
    read = _outputs(asked.target)
    if asked.target.shadow is not None:
        return _at(read, asked.target.shadow), _at(read, ~asked.target.shadow)
    if asked.shadow is not None:
        return _outputs(asked.shadow), read
    half = np.zeros(len(read.labels), dtype=bool)
    for side in (read.member, ~read.member):
        half[side] = chosen_half(np.arange(side.sum()))
    return _at(read, half), _at(read, ~half)


def _outputs(given: GivenOutputs) -> Outputs:
    """Return the checked outputs, labels and membership."""
    probabilities, rows, members = given.called
    outputs, labels = checked(given.probabilities, given.labels, Named(probabilities, rows, "apply a softmax first"))
    if given.member.shape != labels.shape:
        raise UsageError(f"{members} must have shape {labels.shape}, got {given.member.shape}.")
    if not np.isin(given.member, (0, 1)).all():
        raise UsageError(f"{members} must hold true and false, or 1 and 0.")
    return Outputs(outputs, labels, given.member.astype(bool))


def _at(outputs: Outputs, chosen: Array) -> Outputs:
    return Outputs(outputs.outputs[chosen], outputs.labels[chosen], outputs.member[chosen])


def _measured(found: ModelAudit) -> str:
    own = "other rows of the same model, whose membership they knew"
    source = "rows of the shadow model" if found.has_shadow else own
    return (
        f"Measured on {found.members + found.nonmembers} rows of the target, {found.members} members and "
        f"{found.nonmembers} non-members, {found.classes} classes; its accuracy is {found.train_accuracy:.3f} on "
        f"members and {found.test_accuracy:.3f} on non-members. Evaluators learned from {found.known} {source}. "
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
