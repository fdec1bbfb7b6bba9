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
"""The number of target rows above which the evaluator `SLOW` runs only on request."""
NEEDS = {
    "references": "for want of reference models, trained on known random halves of the records",
    "robustness": "for want of the model's answers to noisy copies of the records",
    "known": "for want of records of the model itself whose membership is known",
    "gradients": "for want of the model itself, whose last layer has gradients to read",
    "layers": "for want of the model itself, whose layers have gradients to read",
}
"""Evidence that an audit of outputs does not have -> why evaluators that read it are left out."""
ONLY = {False: "an audit has outputs only", True: "an audit has outputs and references only"}
"""Whether there are references -> the reason why an audit lacks other evidence, in words."""


@dataclass(frozen=True)
class Knowledge:
    """What the adversary knows beside the model's outputs; an evaluator that needs more takes no part.

    Attributes:
        references: answers of reference models on the tested rows; None without reference models.
        on_known: answers of reference models on the target's rows whose membership the adversary knows; only where the
            reference models were trained on none of the target's rows.
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
    """Return a label, or a text with labels, without "harness/", the owner of the harness's own components."""
    return text.replace("harness/", "")


def standard(
    installed: Iterable[Component], rows: int, knowledge: Knowledge | None = None
) -> list[MembershipEvaluator]:
    """Return the evaluators that run unless the user names some: those that need no more than the adversary knows.

    By default the adversary knows outputs and labels. Evaluators that run only if they are named are left out, and so
    is the slow one for more than `MANY` rows.
    """
    adversary = knowledge or Knowledge()
    evaluators = [each for each in installed if isinstance(each, MembershipEvaluator) and not each.opt_in]
    possible = [evaluator for evaluator in evaluators if not adversary.lacks(evaluator)]
    return [evaluator for evaluator in possible if rows <= MANY or evaluator.info.id != SLOW]


def usable(chosen: Iterable[Component], knowledge: Knowledge | None = None) -> list[MembershipEvaluator]:
    """Return the requested evaluators; raises `UsageError` for one that an audit cannot use."""
    selected: list[MembershipEvaluator] = []
    adversary = knowledge or Knowledge()
    for evaluator in chosen:
        if not isinstance(evaluator, MembershipEvaluator):
            raise UsageError(f"{evaluator.label} is not a membership evaluator.")
        wanted = evaluator.reads - ({"references"} if adversary.references else set[Evidence]())
        if wanted:
            raise UsageError(
                f"{evaluator.label} needs {', '.join(sorted(wanted))}; {ONLY[adversary.references is not None]}."
            )
        if lacking := adversary.lacks(evaluator):
            raise UsageError(f"{evaluator.label} cannot take part, {lacking}.")
        selected.append(evaluator)
    return selected


def untested(
    installed: Iterable[Component], used: Iterable[Component], named: bool, knowledge: Knowledge | None = None
) -> dict[str, str]:
    """Return why evaluators take no part; `named`: the user chose those that are `used`."""
    taken = {evaluator.label for evaluator in used}
    adversary, reasons = knowledge or Knowledge(), {}
    for evaluator in installed:
        if not isinstance(evaluator, MembershipEvaluator) or evaluator.opt_in or evaluator.label in taken:
            continue
        slow = f"which is slow for more than {MANY:,} records"
        reasons[evaluator.label] = adversary.lacks(evaluator) or ("as others were asked for" if named else slow)
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
    knowledge: Knowledge | None = None,
) -> ModelAudit:
    """Let evaluators guess the target's members, and return what they reach, with intervals and doubts.

    Evaluators get the target's rows in a random order, so that the order gives nothing away.

    Args:
        shadow: the rows from which evaluators learn.
        target: the rows on which evaluators are tested.
        progress: called with the number of evaluators that have finished, and with the number of all.
        has_shadow: whether `shadow` are answers of a shadow model, and not of the target on other rows.
        same_rows: whether the shadow model answered for the very records on which evaluators are tested, as reference
            models do. Otherwise shared records are a mistake, and there is no verdict.
        left_out: evaluator -> why it takes no part.
        knowledge: what the adversary knows beside outputs; by default labels.
    """
    adversary = knowledge or Knowledge()
    # 1. Shuffle the target's rows.
    order = torch.randperm(len(target.labels), generator=generator(0)).numpy()
    outputs, labels, member = target.outputs[order], target.labels[order], target.member[order]
    query = _query(shadow, outputs, labels)
    references = adversary.references and adversary.references.at(order)
    # 2. Run the evaluators: their scores of the target's rows, and their accuracy where the adversary can check it.
    level = 1 - (1 - LEVEL) / (2 * len(evaluators))
    findings, lower_bounds = [], []
    half = chosen_half(np.arange(len(shadow.labels)))
    for number, evaluator in enumerate(evaluators):
        infer = evaluator.build(torch.device("cpu"))
        if references is None or "references" not in evaluator.reads:
            checkable, scores = _on_known(infer, shadow, half), infer(query).numpy()
        elif adversary.on_known is None:
            checkable, scores = accuracy_on_references(infer, query, references), guessed(infer, query, references)
        else:
            shadow_guesses = guessed(infer, _query(shadow, shadow.outputs, shadow.labels), adversary.on_known)
            checkable, scores = learned_on_known(guessed(infer, query, references), shadow_guesses, shadow.member)
        area = area_under(scores, member)
        finding = _finding(evaluator, checkable, scores, member, labels, outputs.shape[1], area)
        findings.append(finding)
        lower_bounds += _lower_bounds(evaluator.label, finding.accuracy, area, level)
        progress(number + 1, len(evaluators))
    # 3. Compare the adversary's models with the target, and collect what speaks against the result.
    hits = outputs.argmax(axis=1) == labels
    labels_alone = accuracy_of(hits, member) if adversary.labels else None
    copies = 0 if same_rows else shared(target, shadow)
    likeness = _likeness(target, shadow, adversary, has_shadow)
    observed = log_odds(query.target_outputs, query.target_labels).numpy()
    wrong, doubts = _doubts(target, shadow, has_shadow, adversary.labels)
    if not wrong:
        doubts += unlike(likeness) or _unlike_shadow(target, shadow, has_shadow and adversary.labels)
    if adversary.references is not None and adversary.labels:
        doubts += doubts_of_references(_odds(target), target.member, adversary.references)
    findings = [_with_doubts(finding, wrong, doubts, copies, max(lower_bounds)) for finding in findings]
    return ModelAudit(
        members=int(member.sum()),
        nonmembers=int((~member).sum()),
        classes=outputs.shape[1],
        train_accuracy=float(hits[member].mean()) if adversary.labels else None,
        test_accuracy=float(hits[~member].mean()) if adversary.labels else None,
        findings=findings,
        risk=_risk(query, member, labels, hits),
        known_rows=len(shadow.labels),
        has_shadow=has_shadow,
        untested=dict(left_out or {}),
        digests={"target": _digest(target), "shadow": _digest(shadow)},
        references=0 if references is None else len(references.member),
        likeness=likeness,
        has_labels=adversary.labels,
        labels_alone=labels_alone,
        notes=_notes(target, shadow, adversary),
        per_record=per_record(observed, references, member) if references and adversary.labels else None,
    )


def _doubts(target: Outputs, shadow: Outputs, has_shadow: bool, labels: bool) -> tuple[list[str], list[str]]:
    """Return two lists of sentences: mistakes in the input, which leave no verdict, and other doubts.

    Mistakes are labels that seem wrong and rows that occur twice, for instance. Other doubts are reasons why the rows
    could not show a small number even if the model gave nothing away.
    """
    learned = "shadow model" if has_shadow else "target, in the rows from which evaluators learn,"
    wrong: list[str] = []
    doubts = list(dict.fromkeys((*target.doubts, *shadow.doubts)))
    pairs = ((target, "target"), (shadow, learned))
    if labels:
        for outputs, name in pairs:
            wrong += doubts_of_labels(outputs, name)
        wrong += doubts_of_classes(shadow, target)
    for outputs, name in pairs:
        wrong += doubts_of_softmax(outputs, name)
        doubts += doubts_of(outputs, name, labels)
    wrong += doubts_of_copies(target, "target")
    wrong += dict.fromkeys((*target.wrong, *shadow.wrong))
    return wrong, doubts


def _unlike_shadow(target: Outputs, shadow: Outputs, is_compared: bool) -> list[str]:
    """Return sentences if the target's members and non-members do not differ as those of a shadow model with labels do.

    Empty if there is no such shadow model (`is_compared` is False).
    """
    if not is_compared:
        return []
    flags = doubts_of_flags(_odds(target), target.member, _odds(shadow), shadow.member)
    return [*doubts_of_scales(target, shadow), *flags]


def _notes(target: Outputs, shadow: Outputs, knowledge: Knowledge) -> list[str]:
    """Return what was done to outputs, so that they became probabilities: each sentence once."""
    references = () if knowledge.references is None else knowledge.references.notes
    return list(dict.fromkeys((*target.notes, *shadow.notes, *references)))


def _with_doubts(
    finding: Finding, wrong: Sequence[str], doubts: Sequence[str], copies: int, reached: tuple[float, str]
) -> Finding:
    """Return the finding with all doubts about it; mistakes in the input (`wrong`) and `copies` leave no verdict.

    `copies`: how many of the tested rows evaluators learnt from. `reached`: the highest balanced accuracy that some
    attack reaches at least, with its sentence.
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


def _lower_bounds(label: str, accuracy: BalancedAccuracy, area: Area, level: float) -> Iterator[tuple[float, str]]:
    """Yield two lower bounds of the balanced accuracy of an attack, each with a sentence that says so.

    The first is for its own threshold, the second for the best threshold, by its AUC: a ROC curve that is nowhere
    further than J above the diagonal has an area of at most 1/2 + J - J^2 / 2, and the balanced accuracy at the best
    threshold is (1 + J) / 2. Both hold together for k attacks with 97.5% at a `level` of 1 - 0.05 / 2k.
    """
    name = brief(label)
    low = BalancedAccuracy.of(accuracy.caught, accuracy.members, accuracy.spared, accuracy.nonmembers, level).low
    yield low, f"The attack {name} reaches at least {low:.3f} on these rows, which chance does not explain."
    auc = area.at(level).low
    best = 1 - float(np.sqrt(2 - 2 * max(auc, 0.5))) / 2
    yield best, f"With another threshold, {name} would reach at least {best:.3f}: its AUC is at least {auc:.3f}."


def _likeness(target: Outputs, shadow: Outputs, knowledge: Knowledge, has_shadow: bool) -> list[Likeness]:
    """Return how the adversary's own models compare with the target."""
    masks = [] if knowledge.references is None else list(of_masks(target, knowledge.references))
    if not knowledge.labels:
        return masks
    likenesses = list(of_shadow(target, shadow)) if has_shadow and knowledge.references is None else masks
    if knowledge.references is not None:
        likenesses += of_references(target, _odds(target), knowledge.references)
    return likenesses


def _odds(model: Outputs) -> Array:
    """Return the log odds of the true class of every row ``(n,)``."""
    return np.asarray(log_odds(torch.from_numpy(model.outputs), torch.from_numpy(model.labels)).numpy())


def _digest(outputs: Outputs) -> str:
    """Return the sha256 of the bytes of probabilities, labels and membership, little-endian."""
    digest = hashlib.sha256()
    for array, kind in ((outputs.outputs, "<f4"), (outputs.labels, "<i8"), (outputs.member, "?")):
        digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return digest.hexdigest()


def _on_known(infer: InferMembership, shadow: Outputs, half: Array) -> float:
    """Return the balanced accuracy of an evaluator on the rows of `shadow`, by cross-validation with two halves.

    `half`: a mask of the rows of one half, bool ``(n,)``.
    """
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
    members = np.bincount(labels[member], minlength=classes)
    nonmembers = np.bincount(labels[~member], minlength=classes)
    hits = np.bincount(labels[member & caught], minlength=classes)
    spared = np.bincount(labels[~member & ~caught], minlength=classes)
    by_class: dict[int, float | None] = {}
    for c in range(classes):
        has_both = members[c] and nonmembers[c]
        by_class[c] = float(hits[c] / members[c] + spared[c] / nonmembers[c]) / 2 if has_both else None
    return by_class


def _risk(query: MembershipQuery, member: Array, labels: Array, right: Array) -> Risk:
    """Return the privacy risk scores of the target's rows; `right`: where the model predicts the true class."""
    entropy = ModifiedEntropy()
    shadow = -entropy.values(query.shadow_outputs, query.shadow_labels).numpy()
    target = -entropy.values(query.target_outputs, query.target_labels).numpy()
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
    """Return class -> its members' mean risk score, and the accuracy on its members minus that on its non-members."""
    members = np.bincount(labels[member], minlength=classes)
    nonmembers = np.bincount(labels[~member], minlength=classes)
    risk = np.bincount(labels[member], scores[member], classes)
    right_members = np.bincount(labels[member], right[member], classes)
    right_nonmembers = np.bincount(labels[~member], right[~member], classes)
    by_class: dict[int, tuple[float | None, float | None]] = {}
    for c in range(classes):
        mean_risk = float(risk[c] / members[c]) if members[c] else None
        gap = None
        if members[c] and nonmembers[c]:
            gap = float(right_members[c] / members[c] - right_nonmembers[c] / nonmembers[c])
        by_class[c] = (mean_risk, gap)
    return by_class


def _correlation(by_class: dict[int, tuple[float | None, float | None]]) -> float | None:
    """Return the Pearson correlation over classes of mean risk and accuracy gap; None if it is not defined."""
    pairs = [pair for pair in by_class.values() if None not in pair]
    try:
        return correlate([risk for risk, _ in pairs], [gap for _, gap in pairs], "pearson").value
    except NotTestable:
        return None
