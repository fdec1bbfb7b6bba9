"""Table 3, first half: metrics that were trained further against attacks."""

import numpy as np

from imharness.tracks import ColumnSpec, Row, Table, Value
from imharness_iqa.tables.data import BASELINE, KINDS, MEASURES, Study, correlation, mean_of, where

SHOWN = ("dd", "rd", "d", "r", "srocc")
SROCC = "Spearman correlation of the trained metric's scores with the quality labels"


def tables(study: Study) -> list[Table]:
    """Return the table of training defenses beside the metrics as they were, or nothing without any."""
    if not study.trained:
        return []
    metrics = np.unique(study.rows["metric"][np.isin(study.rows["defense"], list(study.trained))])
    own, clean = (where(rows, np.isin(rows["metric"], metrics)) for rows in (study.rows, study.clean))
    rows = []
    for label in [BASELINE, *sorted(study.trained)]:
        half = where(own, own["defense"] == label)
        values: dict[str, Value] = {
            "srocc_clean": correlation(where(clean, clean["defense"] == label), resampled=False)
        }
        for adaptive, kind in reversed(KINDS.items()):
            part = where(half, half["adaptive"] == adaptive)
            values |= {
                f"{kind}_{name}": correlation(part, resampled=False) if name == "srocc" else mean_of(part, name)
                for name in SHOWN
            }
        rows.append(Row(label=label, values=values))
    return [
        Table(
            id="trained",
            title="Table 3: training defenses",
            caption=f"Metrics: {', '.join(metrics)}. D^D and R^D compare the scores of the trained metric with each "
            f"other, as the published table does; D and R compare with the metric as it was. {BASELINE}: the same "
            "metrics without further training. Adaptive attacks read the gradient of the trained metric.",
            entry="defense",
            columns=_columns(),
            rows=tuple(rows),
            note=study.note,
        )
    ]


def _columns() -> tuple[ColumnSpec, ...]:
    columns = [ColumnSpec(key="srocc_clean", label="SROCC, clean", better="higher", description=f"{SROCC}.")]
    for kind in reversed(KINDS.values()):
        for name in SHOWN:
            if name == "srocc":
                text = f"{SROCC}, {kind} attacks."
                columns.append(
                    ColumnSpec(key=f"{kind}_{name}", label=f"SROCC, {kind}", better="higher", description=text)
                )
                continue
            m = MEASURES[name]
            columns.append(
                ColumnSpec(
                    key=f"{kind}_{name}",
                    label=f"{m.label}, {kind}",
                    better=m.better,
                    decimals=m.decimals,
                    description=m.text,
                )
            )
    return tuple(columns)
