"""The parameter study of figure 3 (a): robustness against correlation, and the variants that nothing beats in both."""

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.leaderboard import ColumnSpec, Row, Table, Value, ranked
from imharness_iqa.tables.data import MEASURES, Study


def front(rows: Sequence[Mapping[str, Value]], columns: Sequence[ColumnSpec]) -> np.ndarray:
    """Return bool ``(n,)``: the rows on the Pareto front.

    A row is on it if no other row is at least as good in all columns and better in one. Each column says which
    direction is better. A row that lacks a number is never on the front.
    """
    sign = np.array([1 if column.better == "higher" else -1 for column in columns])
    numbers = [[np.nan if row[c.key].value is None else row[c.key].value for c in columns] for row in rows]
    points = sign * np.array(numbers, dtype=float).reshape(len(rows), len(columns))
    no_worse = (points[:, None] >= points).all(axis=2)  # [i, j]: row i than row j
    better = (points[:, None] > points).any(axis=2)
    return ~(no_worse & better).any(axis=0) & np.isfinite(points).all(axis=1)


def tables(study: Study) -> list[Table]:
    """Return all variants with D, SROCC and whether they lie on the Pareto front."""
    fixed = study.attacked.where(attacker="fixed")
    values = {}
    for label in sorted(set(fixed.blocks.entries) - study.trained):
        subset, clean = fixed.of(label), study.clean.of(label).correlation()
        values[label] = {"d": subset.mean("d"), "srocc_clean": clean, "srocc": subset.correlation()}
    columns = (
        MEASURES["d"].model_copy(update={"description": "Against fixed attacks."}),
        ColumnSpec(
            key="srocc",
            label="SROCC, attacked",
            better="higher",
            description="Spearman correlation of f(D(x')) with the quality labels, for fixed attacks.",
        ),
        ColumnSpec(
            key="srocc_clean",
            label="SROCC, clean",
            better="higher",
            description="Spearman correlation of f(D(x)) with the quality labels.",
        ),
        ColumnSpec(
            key="front",
            label="on front",
            decimals=0,
            description="1 if no other variant is as good in both and better in one.",
        ),
    )
    for value, lies in zip(values.values(), front([*values.values()], columns[:2]), strict=True):
        value["front"] = Value(value=float(lies))
    rows = [Row(label=label, values=value) for label, value in values.items()]
    return [
        Table(
            id="parameters",
            title="Parameter study: robustness against correlation",
            caption="Every variant against fixed attacks, on all images. A variant is on the Pareto front if no "
            "other one has both a D as low and a correlation as high, and one of them better.",
            entry="defense",
            columns=columns,
            rows=tuple(ranked(rows, columns[0])),
            note=study.note,
        )
    ]
