"""How much each evaluator finds out, and what a threshold per class brings."""

import numpy as np

from imharness.stats import wilcoxon_greater
from imharness.tracks import Blocks, Column, ColumnSpec, Row, Table, Value, mean_value, missing, ranking
from imharness_membership.tables.cells import FIGURES

SINGLE = "[per_class=False]"
"""What the label of an evaluator with one threshold for all classes ends with."""


def evaluators(turned: Blocks) -> Table:
    """Rank evaluators, the strongest first."""
    report = ranking(
        turned,
        *(
            Column(key, label, f"{meaning}; adaptive, mean over defenses and splits.", "higher", decimals)
            for key, (label, meaning, decimals) in FIGURES.items()
        ),
        id="evaluators",
        title="Evaluators",
        caption="How much each evaluator finds out. n counts (defense, split) pairs.",
        entry="evaluator",
    )
    return report.tables[0]


def thresholds(turned: Blocks) -> Table:
    """Return table 3: thresholds of their own for each class against one for all."""
    rows = []
    for label in turned.entries:
        name = label.removesuffix(SINGLE)
        if name != label and name in turned.entries:
            one, each = (
                np.concatenate([block[turned.entries.index(entry)] for block in turned.values["accuracy"]])
                for entry in (label, name)
            )
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
        id="thresholds",
        title="Table 3: one threshold for all classes, or one per class",
        caption="Attack accuracy over defenses and splits, adaptive adversaries.",
        entry="evaluator",
        columns=columns,
        rows=tuple(rows),
    )


def _gain(one: np.ndarray, each: np.ndarray) -> dict[str, Value]:
    found = float(wilcoxon_greater((each - one)[None])[0])
    p = missing("no differing pairs") if np.isnan(found) else Value(value=found, n=len(one))
    return {"one": mean_value(one), "each": mean_value(each), "gain": mean_value(each - one), "p": p}
