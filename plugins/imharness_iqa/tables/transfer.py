"""How far images that were attacked through one defense move the score behind another one."""

from imharness.leaderboard import ColumnSpec, Row, Table, Value, missing
from imharness.tracks import Query
from imharness_iqa.tables.data import BASELINE, UNIT, Study
from imharness_iqa.tables.part import Part

_ROWS = """
SELECT t.source, t.defense, dataset, {unit} AS unit, avg(100 * abs(c.score - t.score) / (c.upper - c.lower)) AS score
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
    """Return the matrix of D for images attacked through the row's defense and shown to the column's."""
    if "transfer" not in query.steps:
        return []
    blocks = query.blocks(
        _ROWS.format(baseline=BASELINE, unit=UNIT), entry="source", by=["defense", "dataset"], unit="unit"
    )
    scores = Part.whole(blocks, study.sources)
    defenses = scores.values("defense")
    rows = [
        Row(label=source, values={defense: _cell(scores.of(source), defense) for defense in defenses})
        for source in blocks.entries
    ]
    columns = tuple(
        ColumnSpec(
            key=defense,
            label=defense,
            decimals=1,
            description=f"D behind {defense}; higher: the attack works.",
            unit="image",
            cluster_unit="photograph",
        )
        for defense in defenses
    )
    numbers = [v.value for row in rows for v in row.values.values() if v.value is not None]
    return [
        Table(
            id="transfer",
            title="Do adaptive attacks transfer between defenses?",
            caption="D of images attacked through the defense of the row, shown to the defense of the column. In the "
            f"row {BASELINE} the attack does not know the defense.",
            entry="attacked through",
            columns=columns,
            rows=tuple(rows),
            note=study.note,
            shading=max([1.0, *numbers]),
        )
    ]


def _cell(scores: Part, defense: str) -> Value:
    subset = scores.where(defense=defense)
    return subset.mean("score") if subset.lines() else missing("not attacked")
