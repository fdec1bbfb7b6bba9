"""The parameter study of figure 3 (a): robustness against correlation, and the variants that nothing beats in both."""

import numpy as np

from imharness.tracks import ColumnSpec, Row, Table, Value, ranked
from imharness_iqa.tables.data import Study


def front(cost: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """Return bool ``(n,)``: entries for which no other has at most their cost and at least their gain, one strictly.

    NaN is never on the front.
    """
    with np.errstate(invalid="ignore"):
        no_worse = (cost[:, None] <= cost) & (gain[:, None] >= gain)
        better = (cost[:, None] < cost) | (gain[:, None] > gain)
    beaten = (no_worse & better).any(axis=0)
    return ~beaten & np.isfinite(cost) & np.isfinite(gain)


def tables(study: Study) -> list[Table]:
    """Return all variants with D, SROCC and whether they lie on the Pareto front."""
    fixed = study.attacked.where(attacker="fixed")
    values = {}
    for label in sorted(set(fixed.blocks.entries) - study.trained):
        own, clean = fixed.of(label), study.clean.of(label).correlation()
        values[label] = {"d": own.mean("d"), "srocc_clean": clean, "srocc": own.correlation()}
    cost, gain = (_numbers([v[name] for v in values.values()]) for name in ("d", "srocc"))
    for value, lies in zip(values.values(), front(cost, gain), strict=True):
        value["front"] = Value(value=float(lies))
    rows = [Row(label=label, values=value) for label, value in values.items()]
    columns = (
        ColumnSpec(key="d", label="D", better="lower", decimals=2, description="Against fixed attacks."),
        ColumnSpec(key="srocc", label="SROCC, attacked", better="higher", description="Of f(D(x')), fixed attacks."),
        ColumnSpec(key="srocc_clean", label="SROCC, clean", better="higher", description="Of f(D(x))."),
        ColumnSpec(key="front", label="on front", decimals=0, description="1: no other variant is as good in both."),
    )
    return [
        Table(
            id="parameters",
            title="Parameter study: robustness against correlation",
            caption="Every variant against fixed attacks. On the Pareto front: no other variant has both a D as low "
            "and a correlation as high.",
            entry="defense",
            columns=columns,
            rows=tuple(ranked(rows, columns[0])),
            note=study.note,
        )
    ]


def _numbers(values: list[Value]) -> np.ndarray:
    return np.array([np.nan if v.value is None else v.value for v in values])
