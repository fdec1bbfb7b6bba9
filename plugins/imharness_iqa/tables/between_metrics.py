"""Do attacks transfer between metrics? Pairs reversed by one metric when images were attacked on another one."""

from dataclasses import replace

import numpy as np

from imharness.leaderboard import ColumnSpec, Row, Table, Value, missing
from imharness.tracks import Query
from imharness_iqa.tables.data import BASELINE, SHARE, UNIT, Study
from imharness_iqa.tables.order import Ruler
from imharness_iqa.tables.part import Part

_ROWS = f"""
SELECT source, judge, dataset, method, strength, {UNIT} AS unit, score, clean
FROM (
    SELECT metric AS source, judge, dataset, method, strength, name, score FROM transfer_metrics
    UNION ALL
    SELECT metric AS source, metric AS judge, dataset, method, strength, name, score FROM evaluate
    JOIN (SELECT DISTINCT dataset, method, strength FROM transfer_metrics) USING (dataset, method, strength)
    WHERE NOT adaptive AND defense = '{BASELINE}'
) JOIN (SELECT dataset, metric AS judge, name, score AS clean FROM clean) USING (dataset, judge, name)
"""


def tables(query: Query, study: Study) -> list[Table]:
    """Return the matrix of pairs reversed for images attacked on the row's metric and scored by the column's."""
    if "transfer_metrics" not in query.steps:
        return []
    facets = ["judge", "dataset", "method", "strength"]
    blocks = query.blocks(_ROWS, entry="source", by=facets, unit="unit", about=["clean"])
    ruler, shares = Ruler.of(study.clean), []
    for condition, units, scores, clean in zip(
        blocks.conditions, blocks.units, blocks.values["score"], blocks.about["clean"], strict=True
    ):
        dataset_and_judge = (study.sources[units[0]][1], condition["judge"])
        defenses = [BASELINE] * len(scores)  # the undefended baseline, once for each attacked metric
        clean_scores = np.broadcast_to(clean, scores.shape)
        shares.append(ruler.reversed_shares(dataset_and_judge, defenses, units, clean_scores, scores))
    scored = Part.whole(replace(blocks, values={"score": tuple(shares)}), study.sources)
    judges = scored.values("judge")
    columns = tuple(
        ColumnSpec(
            key=judge,
            label=judge,
            decimals=1,
            description=f"Pairs reversed for {judge}, in %; higher: the attack works.",
            unit="image",
            cluster_unit="photograph",
            limits=SHARE,
        )
        for judge in judges
    )
    rows = [
        Row(label=source, values={judge: _value(scored.of(source).where(judge=judge)) for judge in judges})
        for source in blocks.entries
    ]
    numbers = [v.value for row in rows for v in row.values.values() if v.value is not None]
    return [
        Table(
            id="transfer-metrics",
            title="Do attacks transfer between metrics?",
            caption="Share of the pairs of images that attacks on the metric of the row reverse for the metric of the "
            "column, in %, without a defense. On the diagonal the metric is the one that was attacked.",
            entry="attacked metric",
            columns=columns,
            rows=tuple(rows),
            note=study.note,
            shading=max([1.0, *numbers]),
        )
    ]


def _value(scores: Part) -> Value:
    return scores.mean("score") if scores.lines() else missing("not attacked")
