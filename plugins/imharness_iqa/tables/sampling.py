"""Table 5: does it matter which subset is drawn? Disjoint clustered subsets, a Kruskal-Wallis test and a bound.

Two things would keep the test from ever rejecting. Draws that share images, or images of one photograph, resemble each
other: hence photographs are drawn, each with the mean over its images, and none is in two draws. And every draw has the
same share of each cluster, so differences between clusters hide those between draws: hence the test sees scores minus
the mean of their cluster (an aligned rank test: Hodges & Lehmann, "Rank methods for combination of independent
experiments in analysis of variance", Annals of Mathematical Statistics 1962). A test that does not reject proves
nothing. So a bound says how far another draw's mean may lie from the mean over draws.

A second table is as published (appendix A.3.1). A cell is one metric, black-box attack, strength and purification. Each
has four scores in each draw, and the test is over the draws. The numbers of a cell in different draws are not
independent, so p is rather too large. The paper's text has lost the names of the scores; their sizes and variances are
those of D, SROCC, R and SSIM. A chart for each of the four shows its distribution in every draw, as figure 6 does.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy

from imharness.errors import UsageError
from imharness.leaderboard import Chart, ColumnSpec, NotTestable, Row, Series, Table, Value, kruskal_wallis, missing
from imharness.tracks import Query, TrackReport
from imharness_iqa.sampling import CLUSTERS, clusters_of, disjoint
from imharness_iqa.tables.correlation import correlations
from imharness_iqa.tables.data import COMPUTED, PAPER, PHOTOGRAPH, Study, load, read_sources
from imharness_iqa.tables.formulas import Columns
from imharness_iqa.tables.part import Part
from imharness_iqa.tables.photographs import photograph_means

DRAWS, PER_CLUSTER = 10, 5
_FEATURES = f"""
SELECT dataset, {PHOTOGRAPH} AS name, avg(si) AS si, avg(cf) AS cf, avg(mos) AS mos FROM clean GROUP BY ALL ORDER BY ALL
"""
MEAN = ColumnSpec(key="mean", label="mean", decimals=4, description="Mean over draws of the mean score.")
VARIANCE = ColumnSpec(
    key="variance", label="variance", decimals=6, description="Variance over draws of the mean score."
)
P_VALUE = ColumnSpec(key="p", label="p", decimals=4, description="Kruskal-Wallis test over the draws.")
SCORES = {"source": "f(x)", "attacked": "f(x')", "defended": "f(D(x))", "score": "f(D(x'))"}
PUBLISHED = {"d": "D / 100", "srocc": "SROCC", "r": "R", "ssim": "SSIM"}


def report(query: Query, study: Study) -> TrackReport:
    """Return tables and charts for each data set with at least twice as many photographs as a subset has images."""
    return _report(query, lambda: study, PER_CLUSTER, study.note)


def studies(query: Query, per_cluster: int) -> list[Table]:
    """Return the table for every data set that is large enough; raises `UsageError` if none is."""
    read_sources(query)
    results = _report(query, lambda: load(query), per_cluster, "").tables
    if not results:
        raise UsageError(
            f"no data set of this store has {2 * per_cluster * CLUSTERS} photographs, enough for two draws."
        )
    return list(results)


def _report(query: Query, study: Callable[[], Study], per_cluster: int, note: str) -> TrackReport:
    """Return tables and charts. `study` loads the results, which takes long; it is called for large data sets only."""
    if not query.steps >= COMPUTED:
        return TrackReport()
    features, fewest = query(_FEATURES), 2 * per_cluster * CLUSTERS
    counts = Counter(features["dataset"].tolist())
    large = sorted(dataset for dataset, n in counts.items() if n >= fewest)
    if not large:
        return TrackReport()
    loaded = study()
    means, tables, charts = photograph_means(query, loaded), list[Table](), list[Chart]()
    black_box = loaded.attacked.where(attacker="fixed", type="black-box").of(*loaded.chosen)
    for dataset in large:
        of_dataset = {name: values[features["dataset"] == dataset] for name, values in features.items()}
        if dataset in means and len(means[dataset]["name"]) >= fewest:
            tables.append(validity(dataset, of_dataset, means[dataset], note, per_cluster))
        subset = black_box.where(dataset=dataset)
        attacked = _photographs_with_results(subset)
        if len(attacked) >= fewest:
            names, _, draws = drawn(of_dataset, attacked, per_cluster)
            draw_scores = by_draw(subset, [names[draw] for draw in draws])
            tables.append(published(dataset, draw_scores, note))
            charts += distributions(dataset, draw_scores)
    return TrackReport(tables=tables, charts=charts)


def _photographs_with_results(subset: Part) -> set[str]:
    return {name for c, _ in subset.lines("d") for name in subset.photographs[subset.places[c]].astype(str).tolist()}


def validity(dataset: str, features: Columns, scores: Columns, note: str, per_cluster: int) -> Table:
    """Return mean, variance and p-value of each score over disjoint draws of a clustered subset, and a bound."""
    index = {name: i for i, name in enumerate(scores["name"].astype(str))}
    names, cluster, draws = drawn(features, set(index), per_cluster)
    order = np.array([index[name] for name in names])
    rows = [
        Row(label=label, values=over_draws(scores[key].astype(float)[order], cluster, draws))
        for key, label in SCORES.items()
    ]
    return Table(
        id=f"sampling-{_short(dataset)}",
        title=f"Table 5 of {PAPER}: does the subset matter? {dataset}",
        caption=f"{len(draws)} draws without a common image, of up to {per_cluster} images from each of {CLUSTERS} "
        "clusters of spatial information, colourfulness and quality label. Scores over the range of the metric, 1 the "
        "best. Kruskal-Wallis test over the draws, of scores minus the mean of their cluster: a small p would show "
        "that the draw matters.",
        entry="score",
        columns=(
            MEAN,
            VARIANCE,
            ColumnSpec(
                key="bound",
                label="bound",
                decimals=4,
                description="Another draw's mean lies within this "
                "distance of the mean over draws: 95% prediction interval by Student's t.",
            ),
            P_VALUE,
        ),
        rows=tuple(rows),
        note=note,
    )


def drawn(features: Columns, allowed: set[str], per_cluster: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return the names of the allowed photographs ``(n,)``, their clusters ``(n,)``, and the positions in each draw."""
    positions = [i for i, name in enumerate(features["name"].astype(str)) if name in allowed]
    columns = [
        features[name].astype(float)[positions] for name in ("si", "cf", "mos") if np.isfinite(features[name]).all()
    ]
    cluster = clusters_of(np.column_stack(columns))
    return features["name"].astype(str)[positions], cluster, disjoint(cluster, per_cluster, DRAWS)


def distributions(dataset: str, scores: Mapping[str, np.ndarray]) -> list[Chart]:
    """Return for each published score the share of cells at or below it in every draw; `scores`: of `by_draw`."""
    charts = []
    for key, values in scores.items():
        if values.size:
            share = tuple((np.arange(1, values.shape[1] + 1) / values.shape[1]).tolist())
            lines = [
                Series(label=f"draw {k}", x=tuple(cells.tolist()), y=share)
                for k, cells in enumerate(np.sort(values, axis=1), 1)
            ]
            charts.append(
                Chart(
                    id=f"sampling-{key}-{_short(dataset)}",
                    title=f"{PUBLISHED[key]} by draw, {dataset}",
                    kind="curves",
                    series=tuple(lines),
                    x_label=PUBLISHED[key],
                    y_label="share of cells at or below it",
                    caption=f"Figure 6 of {PAPER}: the distribution of a score in disjoint draws of photographs. A "
                    "cell is one metric, fixed black-box attack, strength and purification. If the draw does not "
                    "matter, the lines lie on each other.",
                )
            )
    return charts


def _short(dataset: str) -> str:
    return dataset.replace("/", "-").split("[")[0]


def published(dataset: str, scores: Mapping[str, np.ndarray], note: str) -> Table:
    """Return mean, variance and p-value over the draws of the four scores of `by_draw`."""
    rows, count = [], max((len(array) for array in scores.values()), default=0)
    for key, values in scores.items():
        means = values.mean(axis=1) if values.size else np.full(len(values), np.nan)
        try:
            p = (
                Value(value=kruskal_wallis(list(values)).p_value, n=values.size)
                if values.size
                else missing("no result")
            )
        except NotTestable as error:
            p = missing(error)
        figures = [Value(value=float(number), n=count) if values.size else p for number in (means.mean(), means.var())]
        rows.append(Row(label=PUBLISHED[key], values={"mean": figures[0], "variance": figures[1], "p": p}))
    return Table(
        id=f"sampling-scores-{_short(dataset)}",
        title=f"Table 5 of {PAPER}, as published: scores under black-box attacks by draw, {dataset}",
        caption=f"{count} draws without a common image. Each score is of one metric, fixed black-box attack, "
        "strength and purification in one draw. Kruskal-Wallis test over the draws; the same cells are in every draw, "
        "so that p is rather too large.",
        entry="score",
        columns=(MEAN, VARIANCE, P_VALUE),
        rows=tuple(rows),
        note=note,
    )


def by_draw(subset: Part, draws: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return each published score of every condition and defense in every draw ``(draws, cells)``.

    `draws`: names of photographs. A cell without a finite score in some draw is left out of that score.
    """
    numbers_by_key: dict[str, list[np.ndarray]] = {key: [] for key in PUBLISHED}
    rows = list(subset.rows)
    for c in subset.conditions:
        facts, values = subset.blocks.about, subset.blocks.values
        photographs = subset.photographs[subset.places[c]].astype(str)
        cells = {key: np.full((len(draws), len(rows)), np.nan) for key in PUBLISHED}
        for k, draw in enumerate(draws):
            at = np.isin(photographs, draw)
            for key, scale in (("d", 0.01), ("r", 1.0), ("ssim", 1.0)):
                cells[key][k] = scale * _finite_means(values[key][c][rows][:, at].astype(float))
            score, mos = facts["sign"][c][at] * values["score"][c][rows][:, at].astype(float), facts["mos"][c][at]
            judged = np.isfinite(mos)
            cells["srocc"][k] = correlations(score[:, judged], mos[judged].astype(float), "spearman")
        for key, numbers in cells.items():
            numbers_by_key[key].append(numbers[:, np.isfinite(numbers).all(axis=0)])
    return {key: np.concatenate([np.zeros((len(draws), 0)), *arrays], axis=1) for key, arrays in numbers_by_key.items()}


def _finite_means(numbers: np.ndarray) -> np.ndarray:
    """Return the mean of the finite numbers ``(rows, images)`` of each row; NaN where there is none."""
    mask = np.isfinite(numbers)
    total = np.where(mask, numbers, 0).sum(axis=1)
    return np.where(mask.any(axis=1), total, np.nan) / np.maximum(mask.sum(axis=1), 1)


def over_draws(scores: np.ndarray, cluster: np.ndarray, draws: list[np.ndarray]) -> dict[str, Value]:
    """Return the columns of the row of one score ``(n,)``, one number for each photograph.

    `cluster` ``(n,)``: the cluster of each; `draws`: positions, no position in two draws.
    """
    k, means = len(draws), np.array([scores[draw].mean() for draw in draws])
    spread = {"mean": Value(value=float(means.mean()), n=k), "variance": Value(value=float(means.var()), n=k)}
    if k < 2:
        alone = missing("too few images for two draws")
        return {**spread, "bound": alone, "p": alone}
    bound = scipy.stats.t.isf(0.025, k - 1) * means.std(ddof=1) * np.sqrt(1 + 1 / k)
    drawn, size = np.concatenate(draws), cluster.max() + 1
    total, count = (np.bincount(cluster[drawn], weights, size) for weights in (scores[drawn], None))
    aligned = scores - (total / np.maximum(count, 1))[cluster]
    try:
        p = Value(value=kruskal_wallis([aligned[draw] for draw in draws]).p_value, n=len(drawn))
    except NotTestable as error:
        p = missing(error)
    return {**spread, "bound": Value(value=float(bound), n=k), "p": p}
