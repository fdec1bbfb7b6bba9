"""The pictures of the track on the site: ROC curves on log axes, and privacy against accuracy."""

from collections.abc import Iterator

import numpy as np

from imharness.tracks import Blocks, Chart, Series
from imharness_membership.tables.cells import rows_of

UNDEFENDED = "harness/plain-training"
POINTS = 200
"""Largest number of points of a curve."""


def charts(scores: Blocks) -> list[Chart]:
    """Draw what evaluators find out about the undefended model, and what defenses cost."""
    curves = tuple(_curves(scores)) if UNDEFENDED in scores.entries else ()
    roc = Chart(
        id="roc", title="ROC of evaluators, undefended model", kind="curves", log=True, series=curves,
        x_label="false-positive rate", y_label="true-positive rate",
        caption="Share of members found against share of non-members accused, both on log axes: what matters to a "
        "person accused is the left edge. First split, first model.",
    )  # fmt: skip
    front = Chart(
        id="cost", title="Privacy against accuracy", kind="scatter", table="defenses", x="test", y="accuracy_adaptive",
        front=True,
        caption="Test accuracy of the defended model against the strongest adaptive attack. The line joins the "
        "defenses that no other beats in both.",
    )  # fmt: skip
    return [roc, front] if curves else [front]


def _curves(scores: Blocks) -> Iterator[Series]:
    """Yield one curve for each evaluator that met the undefended model."""
    first = scores.where(split="0", attacker="fixed", model=min(own["model"] for own in scores.conditions))
    for evaluator in sorted({scores.conditions[c]["evaluator"] for c in first}):
        own = rows_of(scores, UNDEFENDED, set(first) & set(scores.where(evaluator=evaluator)))
        if len(own["score"]):
            yield _curve(evaluator, own["score"], own["member"])


def _curve(label: str, score: np.ndarray, member: np.ndarray) -> Series:
    """Return an ROC curve thinned to the points where it turns, at most `POINTS`."""
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.diff(score[order]) != 0, True)
    fpr, tpr = (np.cumsum(mask[order])[ends] / max(int(mask.sum()), 1) for mask in (~member, member))
    kept = np.unique(np.linspace(0, len(fpr) - 1, POINTS).round().astype(int))
    return Series(label=label, x=tuple(fpr[kept].tolist()), y=tuple(tpr[kept].tolist()))
