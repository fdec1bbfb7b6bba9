"""The results of an audit of one model, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from imharness.membership import BalancedAccuracy, Estimate
from imharness_membership.per_record import PerRecord


@dataclass(frozen=True)
class Finding:
    """The result of one evaluator on the target.

    Attributes:
        evaluator: its label.
        on_shadow: its balanced accuracy on the rows whose membership the adversary knows, by cross-validation.
        accuracy: its balanced accuracy on the target.
        auc: the area under its ROC curve.
        tpr_at_01, tpr_at_1: its true-positive rates at false-positive rates of 0.1% and 1%; None if there are too few
            non-members to define them.
        roc: false-positive rates, and the true-positive rates that belong to them.
        by_class: class -> balanced accuracy; None if it lacks members or non-members.
        summary: a sentence that says how the evaluator guesses.
    """

    evaluator: str
    on_shadow: float
    accuracy: BalancedAccuracy
    auc: Estimate
    tpr_at_01: Estimate | None
    tpr_at_1: Estimate | None
    roc: tuple[list[float], list[float]] = field(repr=False)
    by_class: Mapping[int, float | None] = field(repr=False)
    summary: str = ""

    @property
    def accused(self) -> float:
        """The share of other non-members that the threshold of `tpr_at_1` accuses: 1%, or less where they are few."""
        from imharness_membership.tables.rates import LOW, reached_fpr

        return reached_fpr(LOW, self.accuracy.nonmembers)

    def ppv(self, prior: float) -> Estimate | None:
        """Return the share of members among the accused, by Bayes' rule, at the threshold of `tpr_at_1`.

        `prior`: the share of members among the records that are asked about, in (0, 1). None if the rate is not
        defined. Ends of the interval are those of the true-positive rate.
        """
        if self.tpr_at_1 is None:
            return None

        def share(rate: float) -> float:
            return prior * rate / (prior * rate + (1 - prior) * self.accused)

        rate = self.tpr_at_1
        return Estimate(share(rate.value), share(rate.low), share(rate.high))


@dataclass(frozen=True)
class Risk:
    """Privacy risk scores of the target's rows, and how well they are calibrated.

    Attributes:
        precision, recall: of accusing all rows that reach each of the `thresholds`.
        predicted, real, rows: of bins of the scores: the mean score, the share of members, and the number of rows.
        rmse: the root mean square error of the scores as probabilities, over these bins.
        member_quantiles: the 0th to the 100th percentile of the members' scores.
        correlation: of the two numbers in `by_class`, over classes; None if it is not defined.
    """

    thresholds: tuple[float, ...]
    precision: list[float | None]
    recall: list[float]
    rmse: float
    predicted: list[float]
    real: list[float]
    rows: list[int]
    member_quantiles: list[float]
    by_class: Mapping[int, tuple[float | None, float | None]]
    """Class -> (mean risk score of its members, training minus test accuracy)."""
    correlation: float | None


@dataclass(frozen=True)
class Likeness:
    """How a model that the adversary trained compares with the target in one respect.

    Args:
        of: "shadow model" or "reference models".
        what: the respect in words, such as "accuracy on members".
        target: the number of the target.
        other: the number of the shadow model, or the mean of those of the reference models.
        differs: whether the difference is larger than chance explains and than attacks tolerate. Then an adversary who
            trains better copies may find out more.
    """

    of: str
    what: str
    target: float
    other: float
    differs: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.target:.4g} (target), {self.other:.4g} ({self.of})"


@dataclass(frozen=True)
class ModelAudit:
    """Everything that an audit found.

    Args:
        train_accuracy, test_accuracy: of the target on members and on others; None without labels.
        known_rows: number of rows from which evaluators learnt, whose membership they knew.
        has_shadow: whether these are rows of a shadow model, and not other rows of the same model.
        untested: evaluator -> why it took no part.
        digests: "target" and "shadow" -> sha256 of the bytes of its probabilities (float32), labels (int64) and
            membership (one byte each), one after the other, in the order in which the rows were given.
        references: number of reference models.
        likeness: how shadow model and reference models compare with the target.
        has_labels: whether the rows have labels; without them the class that the target predicts stands for it.
        labels_alone: the balanced accuracy of calling rows members that the model predicts right, which is what an
            attacker reaches who sees predicted classes alone; None without labels.
        notes: what was done to outputs that were rounded or cut to the top classes.
        per_record: the result of a test of each record by reference models. None without reference models, and without
            labels: the target is surer of the class that it predicts than references are, whether or not the record is
            a member.
    """

    members: int
    nonmembers: int
    classes: int
    train_accuracy: float | None
    test_accuracy: float | None
    findings: list[Finding]
    risk: Risk
    known_rows: int
    has_shadow: bool
    untested: Mapping[str, str]
    digests: Mapping[str, str]
    references: int = 0
    likeness: Sequence[Likeness] = ()
    has_labels: bool = True
    labels_alone: BalancedAccuracy | None = None
    notes: Sequence[str] = ()
    per_record: PerRecord | None = None

    def mismatches(self) -> list[str]:
        """Return in words where shadow model or reference models differ from the target."""
        return [str(likeness) for likeness in self.likeness if likeness.differs]

    def ordered(self) -> list[Finding]:
        """Return all findings in the order of `on_shadow`, the highest first.

        They are not ordered by the accuracy on the target, because the largest of many is too large by chance.
        """
        return sorted(self.findings, key=lambda f: -f.on_shadow)

    def worst(self) -> Finding:
        """Return the first of `ordered`, which is the result of the audit."""
        return self.ordered()[0]

    def doubts(self) -> Sequence[str]:
        """Return, as sentences, the reasons why this audit cannot show that little leaks, whatever the limit."""
        return self.worst().accuracy.concerns

    def not_tested(self) -> list[str]:
        """Return a text for each reason: the evaluators that took no part for it, and the reason.

        Settings are named only where the same evaluator took part with others.
        """
        used = {_id(finding.evaluator) for finding in self.findings}
        by_reason: dict[str, dict[str, None]] = {}
        for label, why in self.untested.items():
            by_reason.setdefault(why, {})[label if _id(label) in used else _id(label)] = None
        return [f"{', '.join(names)}, {why}" for why, names in by_reason.items()]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain data in full precision."""
        return asdict(self)


@dataclass(frozen=True)
class AuditSubject:
    """What a report says beside the numbers of an audit.

    Args:
        name: the model's name.
        repeat: the command, or the lines of Python, that repeat the audit.
        fail_above: the balanced accuracy that must not be exceeded; None: no limit was set.
        files: what was read -> its sha256.
        day: the day of the audit.
    """

    name: str
    repeat: str
    fail_above: float | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    day: date = field(default_factory=lambda: datetime.now(UTC).date())


def _id(label: str) -> str:
    """Return a label without its settings."""
    return label.partition("[")[0]
