"""How far images that were attacked through one defense move the score behind another one."""

import numpy as np

from imharness.tracks import ColumnSpec, Query, Row, Table, Value, mean_value, missing
from imharness_iqa.tables.data import BASELINE, Study

_ROWS = """
SELECT t.source, t.defense, t.dataset, t.name, avg(100 * abs(c.score - t.score) / (c.upper - c.lower)) AS d
FROM (
    SELECT source, defense, dataset, metric, name, score FROM transfer
    UNION ALL
    SELECT '{baseline}' AS source, e.defense, e.dataset, e.metric, e.name, e.score FROM evaluate e
    JOIN (SELECT DISTINCT dataset, metric, method, strength FROM transfer) USING (dataset, metric, method, strength)
    WHERE NOT e.adaptive
) t JOIN clean c USING (dataset, metric, name)
GROUP BY ALL ORDER BY ALL
"""


def tables(query: Query, study: Study) -> list[Table]:
    """Return the matrix of D: attacked through the row's defense, shown to the column's."""
    if "transfer" not in query.steps:
        return []
    rows = query(_ROWS.format(baseline=BASELINE))
    sources, defenses = (np.unique(rows[name]).tolist() for name in ("source", "defense"))
    table_rows = []
    for source in sources:
        own = rows["source"] == source
        cells: dict[str, Value] = {}
        for i, defense in enumerate(defenses):
            numbers = rows["d"][own & (rows["defense"] == defense)]
            cells[f"c{i}"] = mean_value(numbers) if len(numbers) else missing("not attacked")
        table_rows.append(Row(label=source, values=cells))
    columns = tuple(
        ColumnSpec(key=f"c{i}", label=defense, decimals=1, description=f"D behind {defense}; higher: the attack works.")
        for i, defense in enumerate(defenses)
    )
    worst = max((v.value or 0.0 for row in table_rows for v in row.values.values()), default=0.0)
    return [
        Table(
            id="transfer",
            title="Do adaptive attacks transfer between defenses?",
            caption="D of images attacked through the defense of the row, shown to the defense of the column; the row "
            f"{BASELINE} is the fixed attack.",
            entry="attacked through",
            columns=columns,
            rows=tuple(table_rows),
            note=study.note,
            shading=max(worst, 1.0),
        )
    ]
