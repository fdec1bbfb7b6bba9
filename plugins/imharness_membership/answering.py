"""Audits a model from its outputs: divides the rows, chooses the evaluators, and says in words what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from imharness.errors import HarnessError, UsageError
from imharness.leaderboard import chosen_half
from imharness.membership import BalancedAccuracy, Component, Progress
from imharness_membership.audit import Knowledge, audit, brief, standard, untested, usable
from imharness_membership.audit_inputs import Array, Outputs
from imharness_membership.audit_references import GivenReferences, KnownReferences, checked_references
from imharness_membership.findings import ModelAudit

SOURCES = {
    "target": "other rows of the same model, whose membership they knew",
    "shadow": "rows of the shadow model",
    "reference": "rows of the first reference model, which served as the shadow model",
}
"""Where evaluators learn from -> what their rows are, in words that follow their number ("Evaluators learned from 500
rows of the shadow model")."""


def audited(
    target: Outputs,
    shadow: Outputs | None,
    references: GivenReferences | None,
    evaluators: Sequence[Component],
    *,
    named: bool,
    progress: Progress = lambda done, total: None,
) -> tuple[ModelAudit, str]:
    """Audit a model from its outputs; return all numbers, and what was measured on which rows, in words.

    `evaluators`: those that the user `named`, or else all that are on this machine. Raises `UsageError` for too few
    rows, and for evaluators that cannot take part.
    """
    from imharness.commands import every

    answers = references and checked_references(references, target)
    source, half = _source(target, shadow, answers)
    source_outputs, tested = _learned_and_tested(target, shadow, answers, half)
    least = BalancedAccuracy.fewest
    for where, name, outputs in ((source, "learn from", source_outputs), ("target", "be tested on", tested)):
        inside, outside = int(outputs.member.sum()), int((~outputs.member).sum())
        if min(inside, outside) < least:
            raise UsageError(
                f"{where}: evaluators need {least} members and {least} non-members to {name}, got {inside} and "
                f"{outside}."
            )
    if source_outputs.outputs.shape[1] != tested.outputs.shape[1]:
        raise UsageError(
            f"shadow has {source_outputs.outputs.shape[1]} classes and target {tested.outputs.shape[1]}; they must "
            "agree."
        )
    on_tested = on_known = None
    if answers is not None:
        on_tested = answers if half is None else answers.at(~half)
        on_known = answers.at(half) if half is not None and answers.outside else None
    knowledge = Knowledge(on_tested, on_known, target.labelled)
    chosen = usable(evaluators, knowledge) if named else standard(evaluators, len(tested.labels), knowledge)
    model_audit = audit(
        source_outputs,
        tested,
        chosen,
        progress,
        has_shadow=half is None,
        same_rows=source == "reference",
        left_out=untested(every("evaluator"), chosen, named, knowledge),
        knowledge=knowledge,
    )
    return model_audit, _measured(model_audit, SOURCES[source])


def _source(target: Outputs, shadow: Outputs | None, references: KnownReferences | None) -> tuple[str, Array | None]:
    """Return from where evaluators learn, a key of `SOURCES`, and a mask of the target's rows from which they learn.

    The mask, bool ``(n,)``, is None if evaluators learn from another model than the target.
    """
    if shadow is not None:
        if references is not None and references.outside:
            raise UsageError(
                "shadow: leave it out where reference models were trained on none of the target's rows; thresholds are "
                "then learned on half of these rows."
            )
        return "shadow", None
    if references is not None and references.shadow(target.labels) is not None:
        return "reference", None
    half = np.zeros(len(target.labels), dtype=bool)
    for side in (target.member, ~target.member):
        half[side] = chosen_half(np.arange(side.sum()))
    return "target", half


def _learned_and_tested(
    target: Outputs, shadow: Outputs | None, references: KnownReferences | None, half: Array | None
) -> tuple[Outputs, Outputs]:
    """Return the rows from which evaluators learn and those on which they are tested."""
    if half is not None:
        return target.at(half), target.at(~half)
    first_reference = None if references is None else references.shadow(target.labels)
    source_outputs = first_reference if shadow is None else shadow
    if source_outputs is None:
        raise HarnessError("there are neither known rows nor another model to learn from")
    return (source_outputs if target.labelled else source_outputs.unlabelled()), target


def _measured(model_audit: ModelAudit, source: str) -> str:
    """Return what was measured on which rows, in sentences; `source`: a text of `SOURCES`."""
    others = f"{model_audit.references} reference models answered for the same rows. " if model_audit.references else ""
    if model_audit.train_accuracy is None or model_audit.test_accuracy is None:
        accuracy = "without labels, so that the class it predicts stands for the true one"
    else:
        accuracy = (
            f"its accuracy is {model_audit.train_accuracy:.3f} on members, {model_audit.test_accuracy:.3f} on others"
        )
    warned = ""
    if differences := model_audit.mismatches():
        warned = (
            "The adversary's models differ from the target, so that an adversary with better copies may find more: "
            f"{'; '.join(differences)}. "
        )
    return (
        f"Measured on {model_audit.members + model_audit.nonmembers} rows of the target, {model_audit.members} "
        "members and "
        f"{model_audit.nonmembers} non-members, {model_audit.classes} classes; {accuracy}. "
        f"Evaluators learned from {model_audit.known_rows} {source}. {others}{warned}"
        f"{_decides(model_audit)}Intervals are 95%, over rows, each counted as independent: Clopper and Pearson's "
        "for rates "
        "and, for two shares, for the balanced accuracy, DeLong's for the AUC."
    )


def _decides(model_audit: ModelAudit) -> str:
    """Say why the first row of the table is the result of the audit; nothing if there is only one row."""
    if len(model_audit.findings) == 1:
        return ""
    return (
        f"The first row, {brief(model_audit.worst().evaluator)}, is the result: it was the most accurate on rows whose "
        "membership it could check, before it saw the tested ones. Another row may show more by chance. "
    )
