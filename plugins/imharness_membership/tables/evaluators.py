"""Ranks evaluators by how much they find out, and compares one threshold for all classes with one per class."""

from collections.abc import Mapping

import numpy as np
import scipy

from imharness.leaderboard import Blocks, Column, ColumnSpec, Row, Table, Value, missing, ranked
from imharness.tracks import Query
from imharness_membership.tables.figures import evaluators_of, why_not
from imharness_membership.tables.rates import Figures
from imharness_membership.tables.splits import (
    SHARE,
    differ,
    mean_of,
    mean_over_splits,
    over_splits,
    pools_among,
    said_of,
)

SINGLE = "[per_class=False]"
"""The end of the label of an evaluator with one threshold for all classes."""


UNSEEN = Column(
    "unseen",
    "unrelated model",
    "Balanced accuracy by an undefended model that saw none of the rows: chance allows no more than 0.5, and who is "
    "right more often knows the rows, so that the other numbers say nothing about models.",
    unit="split",
)


def unseen_of(query: Query) -> dict[str, Value]:
    """Return evaluator -> its balanced accuracy by models that saw none of the rows, the mean over models."""
    if "unseen" not in query.steps:
        return {}
    columns = query(
        "SELECT evaluator, avg(accuracy) AS accuracy, count(*) AS cells FROM (SELECT evaluator, "
        "(avg(CAST(score >= 0 AS DOUBLE)) FILTER (WHERE member) + avg(CAST(score < 0 AS DOUBLE)) FILTER "
        "(WHERE NOT member)) / 2 AS accuracy FROM unseen GROUP BY evaluator, task) GROUP BY evaluator"
    )
    return {
        str(name): Value(value=float(accuracy), n=int(cells))
        for name, accuracy, cells in zip(columns["evaluator"], columns["accuracy"], columns["cells"], strict=True)
    }


def evaluators(figures: Blocks, kinds: Figures, unseen: Mapping[str, Value]) -> Table:
    """Return the table of evaluators, the strongest first; `unseen` is what `unseen_of` returns."""
    columns = [
        Column(
            key,
            figure.label,
            f"{figure.meaning}; the adversary knows the defense; mean over defenses and splits.",
            "higher",
            figure.decimals,
            unit="split",
            limits=SHARE,
        ).spec
        for key, figure in kinds.items()
    ] + [UNSEEN.spec]
    rows = [
        Row(
            label=name,
            values={
                **{
                    key: over_splits(
                        mean_of(_adaptive(figures, key, name)), why_not(figures, figure), pools_among(figures)
                    )
                    for key, figure in kinds.items()
                },
                UNSEEN.key: unseen.get(name, missing("no cell")),
            },
        )
        for name in evaluators_of(figures)
    ]
    # ranked by the first column in which some evaluator has a number
    by = next(
        (column for column in columns if any(row.values[column.key].value is not None for row in rows)), columns[0]
    )
    return Table(
        id="evaluators",
        title="Evaluators",
        caption=f"How much each evaluator finds out on average over defenses; n counts splits. {said_of(figures)}",
        entry="evaluator",
        columns=tuple(columns),
        rows=tuple(ranked(rows, by)),
        ranked_by=by.key,
    )


def _adaptive(figures: Blocks, key: str, evaluator: str) -> np.ndarray:
    """Return an evaluator's figure by defense, data set and model, ``(combinations, splits)``; NaN where it has none.

    The combinations have the same order for all evaluators.
    """
    return np.concatenate([figures.values[key][c] for c in figures.where(evaluator=evaluator, attacker="adaptive")])


def thresholds(figures: Blocks) -> Table:
    """Return table 3: one threshold per class against one for all classes."""
    rows, names, pools = [], evaluators_of(figures), pools_among(figures)
    for name in names:
        if f"{name}{SINGLE}" in names:
            one, each = (_adaptive(figures, "accuracy", label) for label in (f"{name}{SINGLE}", name))
            lacks_one = np.isnan(one + each)  # only what both have is compared
            one, each = (mean_of(np.where(lacks_one, np.nan, values)) for values in (one, each))
            defined = ~np.isnan(one)
            groups = None if pools is None else pools[defined]
            if defined.any():
                rows.append(Row(label=name, values=_gain(one[defined], each[defined], groups)))
    columns = (
        ColumnSpec(
            key="one", label="one threshold", better="higher", description="Balanced accuracy with one threshold."
        ),
        ColumnSpec(
            key="each",
            label="one per class",
            better="higher",
            description="Balanced accuracy with one threshold per class.",
        ),
        ColumnSpec(key="gain", label="gain", better="higher", description="Difference of the two over paired splits."),
        ColumnSpec(key="p", label="p", decimals=4, description="One-sided paired t-test of the gain over splits."),
    )
    return Table(
        id="thresholds",
        title="Table 3: one threshold for all classes, or one per class",
        caption=f"Attack accuracy of adversaries that know the defense, mean over defenses; n counts splits. "
        f"{said_of(figures)}",
        entry="evaluator",
        columns=columns,
        rows=tuple(rows),
    )


def _gain(one: np.ndarray, each: np.ndarray, pools: np.ndarray | None) -> dict[str, Value]:
    """Return the means of both ``(splits,)``, their difference, and the p-value of its test."""
    gain = each - one
    p = float(scipy.stats.ttest_1samp(gain, 0, alternative="greater").pvalue) if differ(gain) else np.nan
    tested = missing("needs splits that differ") if np.isnan(p) else Value(value=p, n=len(gain))
    return {
        "one": over_splits(one, pools=pools),
        "each": over_splits(each, pools=pools),
        "gain": mean_over_splits(gain, pools),
        "p": tested,
    }
