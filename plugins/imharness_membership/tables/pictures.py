"""The pictures of the track on the site: ROC curves on log axes, and privacy against accuracy."""

from collections.abc import Iterator, Mapping

import numpy as np

from imharness.leaderboard import Blocks, Chart, Series, Table
from imharness_membership.roc import roc
from imharness_membership.tables.figures import UNDEFENDED, rows_of
from imharness_membership.tables.risk import Columns

POINTS = 200
"""The largest number of points of a curve."""


def charts(scores: Blocks, ranked: Table, promised: Mapping[str, Columns]) -> list[Chart]:
    """Return the ROC curves of evaluators on the undefended model, privacy against accuracy, and risk scores.

    `ranked`: the table of the ranking; `promised`: risk scores, see `imharness_membership.tables.risk.risk_rows`.
    """
    curves = tuple(_curves(scores)) if UNDEFENDED in scores.entries else ()
    roc_chart = Chart(
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
    spread = Chart(
        id="risk-scores",
        title="Privacy risk scores of members",
        kind="curves",
        series=tuple(_cumulative(promised)),
        x_label="privacy risk score",
        y_label="share of members at or below it",
        caption="How members' risk is spread (Song and Mittal, figures 1, 5, 6): two defenses with the same mean can "
        "leave different shares of members at high risk. All splits, an adversary who knows the defense.",
    )
    return [*([roc_chart] if curves else []), front, *([spread] if spread.series else [])]


def _cumulative(promised: Mapping[str, Columns]) -> Iterator[Series]:
    """Yield the cumulative distribution of the members' scores, at no more than `POINTS` of them."""
    for label, rows in promised.items():
        ordered = np.sort(rows["risk"][rows["member"].astype(bool)])
        if len(ordered):
            x = np.unique(ordered)
            x = x[np.unique(np.linspace(0, len(x) - 1, min(POINTS, len(x))).astype(int))]
            y = np.searchsorted(ordered, x, side="right") / len(ordered)
            yield Series(label=label, x=tuple(x.tolist()), y=tuple(y.tolist()))


def _curves(scores: Blocks) -> Iterator[Series]:
    """Yield one curve for each evaluator that met the undefended model."""
    dataset, model = min((condition["dataset"], condition["model"]) for condition in scores.conditions)
    first = scores.where(split="0", attacker="fixed", dataset=dataset, model=model)
    for evaluator in sorted({scores.conditions[c]["evaluator"] for c in first}):
        rows = rows_of(scores, UNDEFENDED, set(first) & set(scores.where(evaluator=evaluator)))
        if len(rows["score"]):
            x, y = roc(rows["score"], rows["member"], POINTS)
            yield Series(label=evaluator, x=tuple(x.tolist()), y=tuple(y.tolist()))
