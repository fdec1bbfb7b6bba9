"""Table 5: does it matter which subset is drawn? Ten draws of the clustered subset, and a Kruskal-Wallis test."""

from collections import Counter

import numpy as np

from imharness.stats import NotTestable, kruskal_wallis
from imharness.tracks import ColumnSpec, Query, Row, Table, UsageError, Value, missing
from imharness_iqa.sampling import CLUSTERS, clustered
from imharness_iqa.tables.data import Columns, Study

DRAWS, PER_CLUSTER = 10, 5
_MEANS = """
SELECT e.dataset, e.name, avg((c.score - c.lower) / (c.upper - c.lower)) AS source,
       avg((a.score - c.lower) / (c.upper - c.lower)) AS attacked,
       avg((d.score - c.lower) / (c.upper - c.lower)) AS defended,
       avg((e.score - c.lower) / (c.upper - c.lower)) AS score
FROM evaluate e
JOIN clean c USING (dataset, metric, name)
JOIN defended d USING (dataset, metric, defense, name)
JOIN attack a ON a.dataset = e.dataset AND a.metric = e.metric AND a.name = e.name AND a.method = e.method
     AND a.strength = e.strength AND NOT a.adaptive
WHERE NOT e.adaptive GROUP BY ALL ORDER BY ALL
"""
"""The four scores of each image over the range of its metric, mean over all conditions, fixed attacks."""
SCORES = {"source": "f(x)", "attacked": "f(x')", "defended": "f(D(x))", "score": "f(D(x'))"}


def tables(query: Query, study: Study) -> list[Table]:
    """Return the table for each data set with at least twice as many images as a subset has."""
    return [table for table, images in _all(query, PER_CLUSTER, study.note) if images >= 2 * PER_CLUSTER * CLUSTERS]


def studies(query: Query, per_cluster: int) -> list[Table]:
    """Return the table for every data set that has more images than a subset; raises `UsageError` when none has."""
    found = [table for table, images in _all(query, per_cluster, "") if images > per_cluster * CLUSTERS]
    if not found:
        raise UsageError(f"no data set of this store has more than {per_cluster * CLUSTERS} images.")
    return found


def _all(query: Query, per_cluster: int, note: str) -> list[tuple[Table, int]]:
    if not {"clean", "evaluate", "attack", "defended"} <= query.steps:
        return []
    features = query("SELECT dataset, name, any_value(si) AS si, any_value(cf) AS cf, any_value(mos) AS mos FROM clean "
                     "GROUP BY ALL ORDER BY ALL")  # fmt: skip
    counts = Counter(features["dataset"].tolist())
    large = sorted(dataset for dataset, images in counts.items() if images > per_cluster * CLUSTERS)
    scores = query(_MEANS) if large else {}
    return [
        (validity(dataset, *(_of(dataset, rows) for rows in (features, scores)), note, per_cluster), counts[dataset])
        for dataset in large
    ]


def _of(dataset: str, rows: Columns) -> Columns:
    return {name: values[rows["dataset"] == dataset] for name, values in rows.items()}


def validity(dataset: str, features: Columns, scores: Columns, note: str, per_cluster: int) -> Table:
    """Return mean, variance and p-value of each score over ten draws of a clustered subset."""
    columns = [features[name].astype(float) for name in ("si", "cf", "mos") if np.isfinite(features[name]).all()]
    points = np.column_stack(columns)
    place = {name: i for i, name in enumerate(scores["name"].astype(str))}
    draws = [
        [
            place[str(features["name"][i])]
            for i in clustered(points, per_cluster, draw)
            if str(features["name"][i]) in place
        ]
        for draw in range(DRAWS)
    ]
    rows = []
    for key, label in SCORES.items():
        samples = [scores[key][draw].astype(float) for draw in draws]
        means = np.array([sample.mean() for sample in samples])
        rows.append(Row(label=label, values={**_spread(means), "p": _p_value(samples)}))
    return Table(
        id=f"sampling-{dataset.replace('/', '-').split('[')[0]}",
        title=f"Table 5: does the subset matter? {dataset}",
        caption=f"{DRAWS} draws of {per_cluster} images from each of {CLUSTERS} clusters of spatial information, "
        "colourfulness and quality label. Scores over the range of the metric. Kruskal-Wallis test over the draws: a "
        "small p would say that the draw moves the scores.",
        entry="score",
        columns=(
            ColumnSpec(key="mean", label="mean", decimals=4, description="Mean over draws of the mean score."),
            ColumnSpec(key="variance", label="variance", decimals=6, description="Of the mean score over draws."),
            ColumnSpec(key="p", label="p", decimals=4, description="Kruskal-Wallis test over the draws."),
        ),
        rows=tuple(rows),
        note=note,
    )


def _spread(means: np.ndarray) -> dict[str, Value]:
    return {"mean": Value(value=float(means.mean()), n=DRAWS), "variance": Value(value=float(means.var()), n=DRAWS)}


def _p_value(samples: list[np.ndarray]) -> Value:
    try:
        return Value(value=kruskal_wallis(samples).p_value, n=sum(map(len, samples)))
    except NotTestable as error:
        return missing(error)
