"""The audit of one model: what every evaluator finds out, with intervals, and which rows are exposed.

Song & Mittal (USENIX Security 2021), sections 3 and 4.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch

from imharness.data import fresh_numerics, generator
from imharness.errors import UsageError
from imharness.membership import Component, Evidence, InferMembership, MembershipEvaluator, MembershipQuery
from imharness.questions import Estimate, Finding, Likeness, ModelAudit, Risk
from imharness.stats import NotTestable, chosen_half, correlate, tpr_at_fpr
from imharness_membership.audit_inputs import Outputs
from imharness_membership.audit_references import (
    KnownReferences,
    accuracy_on_references,
    guessed,
    learned_on_known,
)
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.likelihood import ReferenceEvaluator, log_odds
from imharness_membership.likeness import of_masks, of_references, of_shadow
from imharness_membership.risk import THRESHOLDS, calibration, calibration_rmse, precision_and_recall, risk_scores
from imharness_membership.roc import roc

Array = np.ndarray
FPRS = (0.001, 0.01)
LEVEL = 0.95
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


def standard(installed: Iterable[Component], rows: int, known: Known | None = None) -> list[MembershipEvaluator]:
    """Return the evaluators that need no more than is known, by default outputs and labels.

    Those that only their name selects are left out, and for many `rows` the slow one, too.
    """
    have = known or Known()
    every = [e for e in installed if isinstance(e, MembershipEvaluator) and not e.by_name]
    found = [e for e in every if not have.lacks(e)]
    return [e for e in found if rows <= MANY or e.info.id != SLOW]


def usable(chosen: Iterable[Component], known: Known | None = None) -> list[MembershipEvaluator]:
    """Return the requested evaluators; raises `UsageError` for one that an audit cannot use."""
    found, have = [], known or Known()
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
        found.append(evaluator)
    return found


def untested(
    installed: Iterable[Component], used: Iterable[Component], named: bool, known: Known | None = None
) -> dict[str, str]:
    """Return why evaluators take no part; `named`: the user chose those that are `used`."""
    taken, found, have = {evaluator.label for evaluator in used}, {}, known or Known()
    for evaluator in installed:
        if not isinstance(evaluator, MembershipEvaluator) or evaluator.by_name or evaluator.label in taken:
            continue
        slow = f"which is slow for more than {MANY:,} records"
        found[evaluator.label] = have.lacks(evaluator) or ("as others were asked for" if named else slow)
    return found


@fresh_numerics()
def audit(
    shadow: Outputs,
    target: Outputs,
    evaluators: Sequence[MembershipEvaluator],
    progress: Any,
    *,
    has_shadow: bool = True,
    left_out: Mapping[str, str] | None = None,
    known: Known | None = None,
) -> ModelAudit:
    """Let evaluators guess the target's members; they get its rows in a random order that is kept from them.

    Args:
        shadow: the rows from which they learn; `has_shadow`: whether a shadow model gave them, and not the target.
        left_out: evaluator -> why it takes no part.
        known: what the adversary has beside outputs.
    """
    have = known or Known()
    order = torch.randperm(len(target.labels), generator=generator(0)).numpy()
    outputs, labels, member = target.outputs[order], target.labels[order], target.member[order]
    query = _query(shadow, outputs, labels)
    references = have.references and have.references.at(order)
    findings = []
    for number, evaluator in enumerate(evaluators):
        infer = evaluator.build(torch.device("cpu"))
        if references is None or "references" not in evaluator.reads:
            right, scores = _on_known(infer, shadow), infer(query).numpy()
        elif have.on_known is None:
            right, scores = accuracy_on_references(infer, query, references), guessed(infer, query, references)
        else:
            own = guessed(infer, _query(shadow, shadow.outputs, shadow.labels), have.on_known)
            right, scores = learned_on_known(guessed(infer, query, references), own, shadow.member)
        findings.append(_finding(evaluator, right, scores, member, labels, outputs.shape[1]))
        progress(number + 1, len(evaluators))
    hits = outputs.argmax(axis=1) == labels
    return ModelAudit(
        members=int(member.sum()),
        nonmembers=int((~member).sum()),
        classes=outputs.shape[1],
        train_accuracy=float(hits[member].mean()) if have.labels else None,
        test_accuracy=float(hits[~member].mean()) if have.labels else None,
        findings=findings,
        risk=_risk(query, member, labels, hits),
        known=len(shadow.labels),
        has_shadow=has_shadow,
        untested=dict(left_out or {}),
        digests={"target": _digest(target), "shadow": _digest(shadow)},
        references=0 if references is None else len(references.member),
        likeness=_likeness(target, shadow, have, has_shadow),
        has_labels=have.labels,
    )


def _likeness(target: Outputs, shadow: Outputs, known: Known, has_shadow: bool) -> list[Likeness]:
    """Return how the adversary's own models compare with the target."""
    masks = [] if known.references is None else list(of_masks(target, known.references))
    if not known.labels:
        return masks
    found = list(of_shadow(target, shadow)) if has_shadow and known.references is None else masks
    if known.references is not None:
        own = log_odds(torch.from_numpy(target.outputs), torch.from_numpy(target.labels)).numpy()
        found += of_references(target, own, known.references)
    return found


def _digest(part: Outputs) -> str:
    """Return the sha256 of the bytes of probabilities, labels and membership, little-endian."""
    found = hashlib.sha256()
    for array, kind in ((part.outputs, "<f4"), (part.labels, "<i8"), (part.member, "?")):
        found.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return found.hexdigest()


def _on_known(infer: InferMembership, shadow: Outputs) -> float:
    """Return the balanced accuracy on each half of the known rows of what was learnt on the other half."""
    half = chosen_half(np.arange(len(shadow.labels)))
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
    evaluator: MembershipEvaluator, on_shadow: float, scores: Array, member: Array, labels: Array, classes: int
) -> Finding:
    caught = scores >= 0
    hits, spared = caught[member].mean(), (~caught[~member]).mean()
    fpr, tpr = roc(scores, member)
    found = [_tpr_at(scores, member, limit) for limit in FPRS]
    return Finding(
        evaluator=evaluator.label,
        told=evaluator.summary,
        on_shadow=on_shadow,
        accuracy=_normal(
            float(hits + spared) / 2,
            float(hits * (1 - hits) / member.sum() + spared * (1 - spared) / (~member).sum()) / 4,
        ),
        auc=auc_interval(scores, member),
        tpr_at_01=found[0],
        tpr_at_1=found[1],
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


def _normal(value: float, variance: float) -> Estimate:
    reach = scipy.stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt(variance)
    return Estimate(value, float(max(0.0, value - reach)), float(min(1.0, value + reach)))


def auc_interval(scores: Array, member: Array) -> Estimate:
    """Return the area under the ROC curve with the interval of DeLong, DeLong & Clarke-Pearson (Biometrics 1988).

    O(n log n), by ranks (Sun & Xu, IEEE SPL 2014), in float64 whatever the scores are.
    """
    scores = scores.astype(np.float64)  # rankdata may keep float32
    inside, outside = scores[member], scores[~member]
    both, own, others = map(scipy.stats.rankdata, (np.r_[inside, outside], inside, outside))
    beaten = (both[: len(inside)] - own) / len(outside)
    beating = 1 - (both[len(inside) :] - others) / len(inside)
    variance = sum(float(np.var(v, ddof=1)) / len(v) if len(v) > 1 else 0.0 for v in (beaten, beating))
    return _normal(float(beaten.mean()), variance)


def _tpr_at(scores: Array, member: Array, fpr: float) -> Estimate | None:
    """Return the true-positive rate at the lowest threshold that accuses a further non-member with at most `fpr`.

    See `imharness.stats.tpr_at_fpr`. The interval is Clopper & Pearson's, for this threshold. None where there are too
    few non-members for one.
    """
    try:
        rate = tpr_at_fpr(scores, member, fpr)
    except NotTestable:
        return None
    inside = int(member.sum())
    hits = round(rate * inside)
    interval = scipy.stats.binomtest(hits, inside).proportion_ci(LEVEL, method="exact")
    return Estimate(rate, float(interval.low), float(interval.high))


def _risk(query: MembershipQuery, member: Array, labels: Array, right: Array) -> Risk:
    shadow, target = (
        -ModifiedEntropy().values(*pair).numpy()
        for pair in ((query.shadow_outputs, query.shadow_labels), (query.target_outputs, query.target_labels))
    )
    classes = query.shadow_outputs.shape[1]
    scores = risk_scores(shadow, query.shadow_member.numpy(), query.shadow_labels.numpy(), target, labels, classes)
    precision, recall = precision_and_recall(scores, member, np.array(THRESHOLDS))
    said, real, rows = calibration(scores, member)
    by_class = _risk_by_class(scores, member, labels, right, classes)
    return Risk(
        thresholds=THRESHOLDS,
        precision=[None if np.isnan(p) else float(p) for p in precision],
        recall=recall.tolist(),
        rmse=calibration_rmse(scores, member),
        said=said.tolist(),
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
