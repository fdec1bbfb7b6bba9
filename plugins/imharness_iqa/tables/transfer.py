"""How far images that were attacked through one defense move the score behind another one."""

from imharness.tracks import Blocks, ColumnSpec, Query, Row, Table, Value, mean_value, missing
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
GROUP BY ALL
"""


def tables(query: Query, study: Study) -> list[Table]:
    """Return the matrix of D: attacked through the row's defense, shown to the column's."""
    if "transfer" not in query.steps:
        return []
    scores = query.blocks(_ROWS.format(baseline=BASELINE), entry="source", by=["defense", "dataset"], measures=["d"])
    defenses = sorted({own["defense"] for own in scores.conditions})
    rows = [
        Row(label=source, values={f"c{i}": _cell(scores, source, defense) for i, defense in enumerate(defenses)})
        for source in scores.entries
    ]
    columns = tuple(
        ColumnSpec(key=f"c{i}", label=defense, decimals=1, description=f"D behind {defense}; higher: the attack works.")
        for i, defense in enumerate(defenses)
    )
    known = [v.value for row in rows for v in row.values.values() if v.value is not None]
    return [
        Table(
            id="transfer",
            title="Do adaptive attacks transfer between defenses?",
            caption="D of images attacked through the defense of the row, shown to the defense of the column; the row "
            f"{BASELINE} is the fixed attack.",
            entry="attacked through",
            columns=columns,
            rows=tuple(rows),
            note=study.note,
            shading=max([1.0, *known]),
        )
    ]


def _cell(scores: Blocks, source: str, defense: str) -> Value:
    numbers = scores.of("d", source, scores.where(defense=defense))
    return mean_value(numbers) if len(numbers) else missing("not attacked")
