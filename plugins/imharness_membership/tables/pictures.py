"""The pictures of the track on the site: ROC curves on log axes, and privacy against accuracy."""

from collections.abc import Iterator

from imharness.tables import Blocks, Chart, Series, Table
from imharness_membership.roc import roc
from imharness_membership.tables.cells import UNDEFENDED, rows_of

POINTS = 200
"""The largest number of points of a curve."""


def charts(scores: Blocks, ranked: Table) -> list[Chart]:
    """Return the ROC curves of evaluators on the undefended model, and privacy against accuracy for all defenses.

    `ranked`: the table of the ranking.
    """
    curves = tuple(_curves(scores)) if UNDEFENDED in scores.entries else ()
    roc = Chart(
        id="roc",
        title="ROC of evaluators, undefended model",
        kind="curves",
        log=True,
        series=curves,
        x_label="false-positive rate",
        y_label="true-positive rate",
        caption="Share of members found against share of non-members accused, on log axes. The left edge matters most: "
        "there few people are wrongly accused. First split of the first data set and model.",
    )
    worst = next(column.label for column in ranked.columns if column.key == "worst").partition(", ")[0]
    front = Chart(
        id="cost",
        title="Privacy against accuracy",
        kind="scatter",
        table="defenses",
        x="utility",
        y="worst",
        front=True,
        caption=f"{worst} of the strongest evaluator against test accuracy of the defended model. The line joins the "
        "defenses that no other defense beats in both.",
    )
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
