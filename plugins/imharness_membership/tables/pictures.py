"""The pictures of the track on the site: ROC curves on log axes, and privacy against accuracy."""

from collections.abc import Iterator

from imharness.tables import Blocks, Chart, Series
from imharness_membership.roc import roc
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
        "person accused is the left edge. First split of the first data set and model.",
    )  # fmt: skip
    front = Chart(
        id="cost", title="Privacy against accuracy", kind="scatter", table="defenses", x="utility", y="worst",
        front=True,
        caption="Test accuracy of the defended model against the strongest adaptive attack. The line joins the "
        "defenses that no other beats in both.",
    )  # fmt: skip
    return [roc, front] if curves else [front]


def _curves(scores: Blocks) -> Iterator[Series]:
    """Yield one curve for each evaluator that met the undefended model."""
    dataset, model = min((own["dataset"], own["model"]) for own in scores.conditions)
    first = scores.where(split="0", attacker="fixed", dataset=dataset, model=model)
    for evaluator in sorted({scores.conditions[c]["evaluator"] for c in first}):
        own = rows_of(scores, UNDEFENDED, set(first) & set(scores.where(evaluator=evaluator)))
        if len(own["score"]):
            x, y = roc(own["score"], own["member"], POINTS)
            yield Series(label=evaluator, x=tuple(x.tolist()), y=tuple(y.tolist()))
