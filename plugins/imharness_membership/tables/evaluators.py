"""How much each evaluator finds out, and what a threshold per class brings."""

import numpy as np

from imharness.stats import wilcoxon_greater
from imharness.tracks import Blocks, Column, ColumnSpec, Row, Table, Value, mean_value, missing, ranked
from imharness_membership.tables.cells import FIGURES, evaluators_of

SINGLE = "[per_class=False]"
"""What the label of an evaluator with one threshold for all classes ends with."""


def evaluators(figures: Blocks) -> Table:
    """Rank evaluators, the strongest first."""
    columns = [
        Column(key, label, f"{meaning}; adaptive, mean over defenses and splits.", "higher", decimals).spec
        for key, (label, meaning, decimals) in FIGURES.items()
    ]
    rows = [
        Row(label=name, values={key: mean_value(_adaptive(figures, key, name)) for key in FIGURES})
        for name in evaluators_of(figures)
    ]
    return Table(
        id="evaluators", title="Evaluators",
        caption="How much each evaluator finds out. n counts (defense, split) pairs.",
        entry="evaluator", columns=tuple(columns), rows=tuple(ranked(rows, columns[0])), ranked_by=columns[0].key,
    )  # fmt: skip


def _adaptive(figures: Blocks, key: str, evaluator: str) -> np.ndarray:
    """Return what an evaluator achieves in every cell, NaN where there is none: in one order for all evaluators."""
    return np.concatenate(
        [figures.values[key][c].ravel() for c in figures.where(evaluator=evaluator, attacker="adaptive")]
    )


def thresholds(figures: Blocks) -> Table:
    """Return table 3: thresholds of their own for each class against one for all."""
    rows, names = [], evaluators_of(figures)
    for name in names:
        if f"{name}{SINGLE}" in names:
            one, each = (_adaptive(figures, "accuracy", label) for label in (f"{name}{SINGLE}", name))
            both = ~np.isnan(one + each)
            if both.any():
                rows.append(Row(label=name, values=_gain(one[both], each[both])))
    columns = (
        ColumnSpec(key="one", label="one threshold", better="higher", description="Balanced accuracy, one for all."),
        ColumnSpec(key="each", label="one per class", better="higher", description="Balanced accuracy, one per class."),
        ColumnSpec(key="gain", label="gain", better="higher", description="Of one threshold per class, paired."),
        ColumnSpec(key="p", label="p", decimals=4, description="One-sided Wilcoxon signed-rank test of the gain."),
    )
    return Table(
        id="thresholds", title="Table 3: one threshold for all classes, or one per class",
        caption="Attack accuracy over defenses and splits, adaptive adversaries.",
        entry="evaluator", columns=columns, rows=tuple(rows),
    )  # fmt: skip


def _gain(one: np.ndarray, each: np.ndarray) -> dict[str, Value]:
    found = float(wilcoxon_greater((each - one)[None])[0])
    p = missing("no differing pairs") if np.isnan(found) else Value(value=found, n=len(one))
    return {"one": mean_value(one), "each": mean_value(each), "gain": mean_value(each - one), "p": p}
