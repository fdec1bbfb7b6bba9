"""Which metrics rank protected models as people do (SemSim, sections 4.2 and 5.1, tables 1 and 2, figure 3).

Each of K models has a leakage by people (the share of reconstructions that were recognised) and a leakage by each
metric; the two rankings are compared by |Spearman's rho| and |Kendall's tau|. Intervals resample private images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from imharness.stats import NotTestable, interval, kendall_rows, spearman_rows, williams
from imharness.tracks import Blocks, ColumnSpec, Row, Table, Value, missing, ranked, value_of

RECOGNISED = "recognised"
"""Stands for a metric: 1 where a reconstruction was recognised, 0 where it was not."""
FEWEST = 6
RANKINGS = {
    "rho": ("|rho|", "Absolute Spearman correlation", spearman_rows),
    "tau": ("|tau|", "Absolute Kendall correlation", kendall_rows),
}


def slug(text: str) -> str:
    """Return a text as a part of a file name."""
    return "".join(c if c.isalnum() else "-" for c in text.lower()).strip("-")


@dataclass(frozen=True)
class Study:
    """K models on one data set under one attack.

    `scores`: metric -> ``(K, N)`` with more meaning closer, or ``(K, 1)`` for a metric of whole sets; `people`:
    ``(K, N)``, 1 where the reconstruction was recognised.
    """

    dataset: str
    attack: str
    models: tuple[str, ...]
    scores: Mapping[str, np.ndarray]
    people: np.ndarray
    who: str

    @classmethod
    def of(cls, scores: Blocks) -> Study | None:
        """Return the study of one data set and attack, or None with fewer than `FEWEST` models or two images.

        `scores` has one condition for each metric and one for `RECOGNISED`, as `tables.leakages` makes them. Images
        that were not judged on every one of the models are left out, and so are metrics that lack a number.
        """
        places = {own["metric"]: c for c, own in enumerate(scores.conditions)}
        votes = places.pop(RECOGNISED)
        people = scores.values["score"][votes]
        models = ~np.isnan(people).all(axis=1)
        whole = {metric for metric, c in places.items() if scores.about["whole"][c][0]}
        measured = [unit for metric, c in places.items() if metric not in whole for unit in scores.units[c]]
        judged = ~np.isnan(people[models]).any(axis=0) & np.isin(scores.units[votes], measured)
        if models.sum() < FEWEST or judged.sum() < 2:
            return None
        grids = {}
        for metric, c in places.items():
            chosen = np.isin(scores.units[c], scores.units[votes][judged]) | (metric in whole)
            grid = scores.values["score"][c][np.ix_(models, chosen)] * scores.about["closeness"][c][0]
            if grid.shape[1] == (1 if metric in whole else judged.sum()) and not np.isnan(grid).any():
                grids[metric] = grid
        here, names = scores.conditions[votes], np.array(scores.entries)[models]
        who = str(scores.about["who"][votes][0])
        return cls(here["dataset"], here["attack"], tuple(names.tolist()), grids, people[np.ix_(models, judged)], who)

    @property
    def place(self) -> str:
        """Data set and attack in one word each."""
        return f"{self.dataset}, {self.attack}"

    @property
    def slug(self) -> str:
        """Data set and attack as a part of a file name."""
        return slug(f"{self.dataset}-{self.attack}")

    def leakage(self, metric: str, drawn: np.ndarray | None = None) -> np.ndarray:
        """Return the models' mean leakage ``(r, K)`` for each row of drawn images ``(r, N)``; all images without."""
        grid = self.people if metric == "" else self.scores[metric]
        if drawn is None or grid.shape[1] == 1:
            return grid.mean(axis=1)[None].repeat(1 if drawn is None else len(drawn), axis=0)
        return grid[:, drawn].mean(axis=2).T


def agreement(study: Study, metric: str, ranking: str) -> Value:
    """Return |rho| or |tau| of a metric's ranking with that by people, with an interval over private images."""
    correlate_rows = RANKINGS[ranking][2]

    def statistic(drawn: np.ndarray) -> np.ndarray:
        return np.abs(correlate_rows(study.leakage(metric, drawn), study.leakage("", drawn)))

    try:
        found = interval(statistic, study.people.shape[1])
    except NotTestable:
        return missing("one of the two ranks all models alike")
    value = float(np.abs(correlate_rows(study.leakage(metric), study.leakage("")))[0])
    return value_of(found).model_copy(update={"value": value, "n": len(study.models)})


def agreement_table(studies: Sequence[Study]) -> Table:
    """Return metrics by how well they agree with people, one pair of columns per data set and attack."""
    columns = [
        ColumnSpec(
            key=f"{s.place} {key}",
            label=f"{short}, {s.attack.partition('/')[2]}" + (f", {s.dataset}" if len(studies) > 1 else ""),
            description=f"{meaning} between the metric's ranking of models and that by {s.who}; {s.place}.",
            better="higher",
        )
        for s in studies
        for key, (short, meaning, _) in RANKINGS.items()
    ]
    rows = [
        Row(
            label=metric,
            values={
                f"{s.place} {key}": agreement(s, metric, key) if metric in s.scores else missing("not scored")
                for s in studies
                for key in RANKINGS
            },
        )
        for metric in sorted({m for s in studies for m in s.scores})
    ]
    first, who = columns[0].key, "; ".join(sorted({s.who for s in studies}))
    return Table(
        id="agreement",
        title="Which metric ranks models as people do",
        caption="Absolute rank correlation between the leakage of protected models by a metric and the share of their "
        f"reconstructions that are recognised ({who}). n is the number of models; intervals by resampling private "
        "images, which a metric of whole sets does not take part in.",
        entry="metric",
        columns=tuple(columns),
        rows=tuple(ranked(rows, columns[0])),
        ranked_by=first,
        note=next((s.who for s in studies if "proxy" in s.who), ""),
    )


def matrix_table(study: Study) -> Table:
    """Return |rho| (above) between all pairs of metrics: figure 3."""
    names = sorted(study.scores)
    labels = ["recognised", *names]
    means = [study.leakage("")[0], *(study.leakage(m)[0] for m in names)]
    columns = tuple(
        ColumnSpec(key=f"c{j}", label=label, description=f"|rho| with the ranking by {label}.", decimals=2)
        for j, label in enumerate(labels)
    )
    rows = []
    for i, label in enumerate(labels):
        found = np.abs(spearman_rows(np.stack(means), means[i]))
        values = {
            f"c{j}": missing("a constant ranking") if np.isnan(v) else Value(value=float(v), n=len(study.models))
            for j, v in enumerate(found)
        }
        rows.append(Row(label=label, values=values))
    return Table(
        id=f"metric-matrix-{study.slug}",
        title=f"Metric against metric, {study.attack.partition('/')[2]}",
        caption=f"|Spearman's rho| between two rankings of {len(study.models)} protected models; {study.place}. "
        f"Recognised: {study.who}.",
        entry="metric",
        columns=columns,
        rows=tuple(rows),
        shading=1.0,
    )


def comparison_table(study: Study) -> Table:
    """Return Williams' test for each pair of metrics: does the row agree better with people than the column?"""
    names = sorted(study.scores)
    people = study.leakage("")[0]
    means = {m: study.leakage(m)[0] for m in names}
    pairs = max(1, len(names) * (len(names) - 1) // 2)
    columns = tuple(
        ColumnSpec(key=f"c{j}", label=name, description=f"Corrected p-value against {name}.", better="lower")
        for j, name in enumerate(names)
    )
    rows = []
    for one in names:
        values = {
            f"c{j}": missing("the same metric") if one == other else _tested(means[one], means[other], people, pairs)
            for j, other in enumerate(names)
        }
        rows.append(Row(label=one, values=values))
    return Table(
        id=f"agreement-tests-{study.slug}",
        title=f"Does one metric agree better than another? {study.attack.partition('/')[2]}",
        caption="Williams' test of two dependent rank correlations with the ranking by people, two-sided, over "
        f"{len(study.models)} models, Bonferroni-corrected over {pairs} pairs; {study.place}. Recognised: {study.who}.",
        entry="metric",
        columns=columns,
        rows=tuple(rows),
    )


def _tested(one: np.ndarray, other: np.ndarray, people: np.ndarray, pairs: int) -> Value:
    with_people = [float(spearman_rows(x, people)[0]) for x in (one, other)]
    try:
        p = williams(*with_people, float(spearman_rows(one, other)[0]), len(people))
    except NotTestable as error:
        return missing(error)
    return Value(value=min(1.0, p * pairs), n=len(people))
