"""Strengths that were measured in the run, for attacks and metrics without a published one."""

from imharness.leaderboard import ColumnSpec, Row, Table, Value
from imharness.tracks import Query
from imharness_iqa.tables.distortion import UNITS

_ROWS = """
SELECT dataset, metric, attack, strength, field, distortion, target, value, CAST(reached AS DOUBLE) AS reached
FROM calibrate ORDER BY attack, metric, dataset, target
"""
COLUMNS = (
    ColumnSpec(key="value", label="value", decimals=6, description="Value of the parameter that meets the target."),
    ColumnSpec(key="target", label="target", description="Mean distortion that the strength stands for."),
    ColumnSpec(
        key="reached", label="reached", decimals=0, description="0 if no value met the target; this one came nearest."
    ),
)


def tables(query: Query) -> list[Table]:
    """Return the table of all measured strengths; no table if all were known before."""
    if "calibrate" not in query.steps:
        return []
    columns = query(_ROWS)
    lines = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
    return [
        Table(
            id="strengths",
            title="Strengths measured before the attacks",
            caption="For an attack on a metric without a published strength: its parameter was tried at ten values and "
            "more, and interpolated to the mean distortion that weak, medium and strong stand for (appendix A.3.4 of "
            "the paper). The attacks of this leaderboard use these values.",
            entry="attack",
            columns=COLUMNS,
            rows=tuple(_row(line) for line in lines),
        )
    ]


def _row(line: dict) -> Row:
    factor, unit = UNITS[line["distortion"]]
    numbers = {"value": line["value"], "target": factor * line["target"], "reached": line["reached"]}
    facets = {name: str(line[name]) for name in ("strength", "metric", "dataset")}
    label = " · ".join([line["attack"], *facets.values(), line["field"], unit])
    values = {key: Value(value=float(number)) for key, number in numbers.items()}
    return Row(label=label, values=values, facets={**facets, "measure": unit})
