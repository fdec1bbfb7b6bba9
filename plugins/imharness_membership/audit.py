"""The audit of one model: what every evaluator finds out, with intervals, and which rows are exposed.

Song & Mittal (USENIX Security 2021), sections 3 and 4.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from imharness.data import fresh_numerics, generator
from imharness.errors import UsageError
from imharness.leaderboard import NotTestable, chosen_half, correlate
from imharness.membership import (
    BalancedAccuracy,
    Component,
    Evidence,
    InferMembership,
    MembershipEvaluator,
    MembershipQuery,
)
from imharness_membership.audit_inputs import Outputs
from imharness_membership.audit_references import (
    KnownReferences,
    accuracy_on_references,
    guessed,
    learned_on_known,
)
from imharness_membership.doubts import (
    doubts_of,
    doubts_of_classes,
    doubts_of_copies,
    doubts_of_labels,
    doubts_of_softmax,
    shared,
)
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.findings import Finding, Likeness, ModelAudit, Risk
from imharness_membership.intervals import LEVEL, Area, accuracy_of, area_under, rate_at
from imharness_membership.likelihood import ReferenceEvaluator, log_odds
from imharness_membership.likeness import of_masks, of_references, of_shadow, unlike
from imharness_membership.per_record import per_record
from imharness_membership.reference_doubts import doubts_of_references
from imharness_membership.risk import THRESHOLDS, calibration, calibration_rmse, precision_and_recall, risk_scores
from imharness_membership.roc import roc
from imharness_membership.shadow_doubts import doubts_of_flags, doubts_of_scales

Array = np.ndarray
FPRS = (0.001, 0.01)
SLOW = "harness/neural"
MANY = 50_000
"""The number of target rows above which the NN attack runs only on request."""
NEEDS = {
    "references": "for want of reference models, trained on known random halves of the records",
    "robustness": "for want of the model's answers to noisy copies of the records",
    "known": "for want of records of the model itself whose membership is known",
    "gradients": "for want of the model itself, whose last layer has gradients to read",
    "layers": "for want of the model itself, whose layers have gradients to read",
}
"""Evidence that an audit of outputs does not have -> why evaluators that read it are left out."""
ONLY = {False: "an audit has outputs only", True: "an audit has outputs and references only"}
"""Whether there are references -> what an audit has."""


@dataclass(frozen=True)
class Known:
    """What the adversary has: an evaluator that needs more takes no part.

    Attributes:
        references: answers of reference models on the tested rows, if there are any.
        on_known: their answers on the rows with known membership, where they were trained on none of the rows.
        labels: whether the true classes are known.
    """

    references: KnownReferences | None = None
    on_known: KnownReferences | None = None
    labels: bool = True

    def lacks(self, evaluator: MembershipEvaluator) -> str:
        """Return why an evaluator cannot take part, or ""."""
        wanted = evaluator.reads - ({"references"} if self.references else set[Evidence]())
        if wanted:
            return "; ".join(NEEDS[name] for name in sorted(wanted))
        if evaluator.needs_labels and not self.labels:
            return "as it says nothing without the true classes"
        outside = self.references is not None and self.references.outside
        if outside and isinstance(evaluator, ReferenceEvaluator) and evaluator.needs_inside:
            return "as no reference model was trained on any of the rows"
        return ""


def brief(text: str) -> str:
    """Return a label, or a text with labels; the owner is left out for components of the harness itself."""
    return text.replace("harness/", "")


def standard(installed: Iterable[Component], rows: int, knowledge: Known | None = None) -> list[MembershipEvaluator]:
    """Return the evaluators that need no more than is known, by default outputs and labels.

    Those that only their name selects are left out, and for many `rows` the slow one, too.
    """
    have = knowledge or Known()
    every = [e for e in installed if isinstance(e, MembershipEvaluator) and not e.opt_in]
    possible = [e for e in every if not have.lacks(e)]
    return [e for e in possible if rows <= MANY or e.info.id != SLOW]


def usable(chosen: Iterable[Component], knowledge: Known | None = None) -> list[MembershipEvaluator]:
    """Return the requested evaluators; raises `UsageError` for one that an audit cannot use."""
    selected, have = [], knowledge or Known()
    for evaluator in chosen:
        if not isinstance(evaluator, MembershipEvaluator):
            raise UsageError(f"{evaluator.label} is not a membership evaluator.")
        wanted = evaluator.reads - ({"references"} if have.references else set[Evidence]())
        if wanted:
            raise UsageError(
                f"{evaluator.label} needs {', '.join(sorted(wanted))}; {ONLY[have.references is not None]}."
            )
        if lacking := have.lacks(evaluator):
            raise UsageError(f"{evaluator.label} cannot take part, {lacking}.")
        selected.append(evaluator)
    return selected


def untested(
    installed: Iterable[Component], used: Iterable[Component], named: bool, knowledge: Known | None = None
) -> dict[str, str]:
    """Return why evaluators take no part; `named`: the user chose those that are `used`."""
    taken, reasons, have = {evaluator.label for evaluator in used}, {}, knowledge or Known()
    for evaluator in installed:
        if not isinstance(evaluator, MembershipEvaluator) or evaluator.opt_in or evaluator.label in taken:
            continue
        slow = f"which is slow for more than {MANY:,} records"
        reasons[evaluator.label] = have.lacks(evaluator) or ("as others were asked for" if named else slow)
    return reasons


@fresh_numerics()
def audit(
    shadow: Outputs,
    target: Outputs,
    evaluators: Sequence[MembershipEvaluator],
    progress: Any,
    *,
    has_shadow: bool = True,
    same_rows: bool = False,
    left_out: Mapping[str, str] | None = None,
    knowledge: Known | None = None,
) -> ModelAudit:
    """Let evaluators guess the target's members; they get its rows in a random order that is kept from them.

    Args:
        shadow: the rows from which they learn; `has_shadow`: whether a shadow model gave them, and not the target.
        same_rows: whether a shadow model answered for the records on which evaluators are tested, as references do.
        left_out: evaluator -> why it takes no part.
        knowledge: what the adversary has beside outputs.
    """
    have = knowledge or Known()
    order = torch.randperm(len(target.labels), generator=generator(0)).numpy()
    outputs, labels, member = target.outputs[order], target.labels[order], target.member[order]
    query = _query(shadow, outputs, labels)
    references = have.references and have.references.at(order)
    level = 1 - (1 - LEVEL) / (2 * len(evaluators))
    findings, reached = [], []
    half = chosen_half(np.arange(len(shadow.labels)))
    for number, evaluator in enumerate(evaluators):
        infer = evaluator.build(torch.device("cpu"))
        if references is None or "references" not in evaluator.reads:
            right, scores = _on_known(infer, shadow, half), infer(query).numpy()
        elif have.on_known is None:
            right, scores = accuracy_on_references(infer, query, references), guessed(infer, query, references)
        else:
            shadow_guesses = guessed(infer, _query(shadow, shadow.outputs, shadow.labels), have.on_known)
            right, scores = learned_on_known(guessed(infer, query, references), shadow_guesses, shadow.member)
        area = area_under(scores, member)
        finding = _finding(evaluator, right, scores, member, labels, outputs.shape[1], area)
        findings.append(finding)
        reached += _reached(evaluator.label, finding.accuracy, area, level)
        progress(number + 1, len(evaluators))
    hits = outputs.argmax(axis=1) == labels
    alone = accuracy_of(hits, member) if have.labels else None
    copies = 0 if same_rows else shared(target, shadow)
    likeness = _likeness(target, shadow, have, has_shadow)
    observed = log_odds(query.target_outputs, query.target_labels).numpy()
    wrong, doubts = _doubts(target, shadow, has_shadow, have.labels)
    doubts += [] if wrong else unlike(likeness) or _unlike_shadow(target, shadow, has_shadow and have.labels)
    if have.references is not None and have.labels:
        doubts += doubts_of_references(_odds(target), target.member, have.references)
    findings = [_doubted(finding, wrong, doubts, copies, max(reached)) for finding in findings]
    return ModelAudit(
        members=int(member.sum()),
        nonmembers=int((~member).sum()),
        classes=outputs.shape[1],
        train_accuracy=float(hits[member].mean()) if have.labels else None,
        test_accuracy=float(hits[~member].mean()) if have.labels else None,
        findings=findings,
        risk=_risk(query, member, labels, hits),
        known_rows=len(shadow.labels),
        has_shadow=has_shadow,
        untested=dict(left_out or {}),
        digests={"target": _digest(target), "shadow": _digest(shadow)},
        references=0 if references is None else len(references.member),
        likeness=likeness,
        has_labels=have.labels,
        labels_alone=alone,
        notes=_notes(target, shadow, have),
        per_record=per_record(observed, references, member) if references and have.labels else None,
    )


def _doubts(target: Outputs, shadow: Outputs, has_shadow: bool, labels: bool) -> tuple[list[str], list[str]]:
    """Return in sentences why labels seem wrong or rows stand twice, and why the rows can show no small number."""
    learned = "shadow model" if has_shadow else "target, in the rows from which evaluators learn,"
    pairs = ((target, "target"), (shadow, learned))
    wrong = [doubt for outputs, name in pairs if labels for doubt in doubts_of_labels(outputs, name)]
    wrong += doubts_of_classes(shadow, target) if labels else ()
    wrong += [doubt for outputs, name in pairs for doubt in doubts_of_softmax(outputs, name)]
    wrong += doubts_of_copies(target, "target")
    wrong += dict.fromkeys((*target.wrong, *shadow.wrong))
    forms = list(dict.fromkeys((*target.doubts, *shadow.doubts)))
    return wrong, forms + [doubt for outputs, name in pairs for doubt in doubts_of(outputs, name, labels)]


def _unlike_shadow(target: Outputs, shadow: Outputs, is_compared: bool) -> list[str]:
    """Return in sentences that sides of the target differ otherwise than those of a shadow model with labels do."""
    if not is_compared:
        return []
    flags = doubts_of_flags(_odds(target), target.member, _odds(shadow), shadow.member)
    return [*doubts_of_scales(target, shadow), *flags]


def _notes(target: Outputs, shadow: Outputs, knowledge: Known) -> list[str]:
    references = () if knowledge.references is None else knowledge.references.notes
    return list(dict.fromkeys((*target.notes, *shadow.notes, *references)))


def _doubted(
    finding: Finding, wrong: Sequence[str], doubts: Sequence[str], copies: int, reached: tuple[float, str]
) -> Finding:
    """Return the finding with what speaks against it, of which `wrong` labels and `copies` leave no verdict.

    `copies`: how many of the tested rows evaluators learnt from.
    """
    learned = (
        [f"Evaluators learned from {copies} of the rows on which they are tested: nothing is held out."]
        if copies
        else []
    )
    doubts = (*learned, *wrong, *doubts)
    return replace(
        finding, accuracy=replace(finding.accuracy, doubts=doubts, judges=not copies and not wrong, reached=reached)
    )


def _reached(label: str, right: BalancedAccuracy, area: Area, level: float) -> Iterator[tuple[float, str]]:
    """Yield the balanced accuracies that an attack reaches, and would reach with another threshold, with sentences.

    A ROC curve that is nowhere further than J above the diagonal has an area of at most 1/2 + J - J^2 / 2, and balanced
    accuracy is (1 + J) / 2. Both hold together for k attacks with 97.5% at a `level` of 1 - 0.05 / 2k.
    """
    name = brief(label)
    least = BalancedAccuracy.of(right.caught, right.members, right.spared, right.nonmembers, level).low
    yield least, f"The attack {name} reaches at least {least:.3f} on these rows, which chance does not explain."
    under = area.at(level).low
    best = 1 - float(np.sqrt(2 - 2 * max(under, 0.5))) / 2
    yield best, f"With another threshold, {name} would reach at least {best:.3f}: its AUC is at least {under:.3f}."


def _likeness(target: Outputs, shadow: Outputs, knowledge: Known, has_shadow: bool) -> list[Likeness]:
    """Return how the adversary's own models compare with the target."""
    masks = [] if knowledge.references is None else list(of_masks(target, knowledge.references))
    if not knowledge.labels:
        return masks
    likenesses = list(of_shadow(target, shadow)) if has_shadow and knowledge.references is None else masks
    if knowledge.references is not None:
        likenesses += of_references(target, _odds(target), knowledge.references)
    return likenesses


def _odds(model: Outputs) -> Array:
    return np.asarray(log_odds(torch.from_numpy(model.outputs), torch.from_numpy(model.labels)).numpy())


def _digest(outputs: Outputs) -> str:
    """Return the sha256 of the bytes of probabilities, labels and membership, little-endian."""
    digest = hashlib.sha256()
    for array, kind in ((outputs.outputs, "<f4"), (outputs.labels, "<i8"), (outputs.member, "?")):
        digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return digest.hexdigest()


def _on_known(infer: InferMembership, shadow: Outputs, half: Array) -> float:
    """Return the balanced accuracy on each half of the known rows of what was learnt on the other half."""
    guess = np.empty(len(half), dtype=bool)
    for fit in (half, ~half):
        guess[~fit] = infer(_query(shadow.at(fit), shadow.outputs[~fit], shadow.labels[~fit])).numpy() >= 0
    return float(np.mean([(guess == shadow.member)[shadow.member == side].mean() for side in (True, False)]))


def _query(shadow: Outputs, outputs: Array, labels: Array) -> MembershipQuery:
    return MembershipQuery(
        shadow_outputs=torch.from_numpy(shadow.outputs),
        shadow_labels=torch.from_numpy(shadow.labels),
        shadow_member=torch.from_numpy(shadow.member),
        target_outputs=torch.from_numpy(outputs),
        target_labels=torch.from_numpy(labels),
    )


def _finding(
    evaluator: MembershipEvaluator,
    on_shadow: float,
    scores: Array,
    member: Array,
    labels: Array,
    classes: int,
    area: Area,
) -> Finding:
    caught = scores >= 0
    fpr, tpr = roc(scores, member)
    rates = [rate_at(scores, member, limit) for limit in FPRS]
    return Finding(
        evaluator=evaluator.label,
        summary=evaluator.summary,
        on_shadow=on_shadow,
        accuracy=accuracy_of(caught, member),
        auc=area.at(LEVEL),
        tpr_at_01=rates[0],
        tpr_at_1=rates[1],
        roc=(fpr.tolist(), tpr.tolist()),
        by_class=_by_class(caught, member, labels, classes),
    )


def _by_class(caught: Array, member: Array, labels: Array, classes: int) -> dict[int, float | None]:
    """Return the balanced accuracy within each class; None where a class lacks members or non-members."""
    inside, outside = (np.bincount(labels[m], minlength=classes) for m in (member, ~member))
    hit = np.bincount(labels[member & caught], minlength=classes)
    spared = np.bincount(labels[~member & ~caught], minlength=classes)
    return {
        c: float(hit[c] / inside[c] + spared[c] / outside[c]) / 2 if inside[c] and outside[c] else None
        for c in range(classes)
    }


def _risk(query: MembershipQuery, member: Array, labels: Array, right: Array) -> Risk:
    shadow, target = (
        -ModifiedEntropy().values(*pair).numpy()
        for pair in ((query.shadow_outputs, query.shadow_labels), (query.target_outputs, query.target_labels))
    )
    classes = query.shadow_outputs.shape[1]
    scores = risk_scores(shadow, query.shadow_member.numpy(), query.shadow_labels.numpy(), target, labels, classes)
    precision, recall = precision_and_recall(scores, member, np.array(THRESHOLDS))
    predicted, real, rows = calibration(scores, member)
    by_class = _risk_by_class(scores, member, labels, right, classes)
    return Risk(
        thresholds=THRESHOLDS,
        precision=[None if np.isnan(p) else float(p) for p in precision],
        recall=recall.tolist(),
        rmse=calibration_rmse(scores, member),
        predicted=predicted.tolist(),
        real=real.tolist(),
        rows=rows.tolist(),
        member_quantiles=np.quantile(scores[member], np.linspace(0, 1, 101)).tolist(),
        by_class=by_class,
        correlation=_correlation(by_class),
    )


def _risk_by_class(
    scores: Array, member: Array, labels: Array, right: Array, classes: int
) -> dict[int, tuple[float | None, float | None]]:
    inside, outside = (np.bincount(labels[m], minlength=classes) for m in (member, ~member))
    risk = np.bincount(labels[member], scores[member], classes)
    train, test = (np.bincount(labels[m], right[m], classes) for m in (member, ~member))
    return {
        c: (
            float(risk[c] / inside[c]) if inside[c] else None,
            float(train[c] / inside[c] - test[c] / outside[c]) if inside[c] and outside[c] else None,
        )
        for c in range(classes)
    }


def _correlation(by_class: dict[int, tuple[float | None, float | None]]) -> float | None:
    pairs = [pair for pair in by_class.values() if None not in pair]
    try:
        return correlate([p[0] for p in pairs], [p[1] for p in pairs], "pearson").value
    except NotTestable:
        return None
