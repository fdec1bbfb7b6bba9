"""Compares how metrics and people rank protected models (SemSim, sections 4.2 and 5.1, tables 1 and 2, figure 3).

Each of K models has a leakage by people (the share of reconstructions that were recognised) and a leakage by each
metric, with the sign that makes more mean closer. The two rankings are compared by Spearman's rho and Kendall's tau: 1
for the order of people, -1 for the reverse. The paper prints absolute values, which do not separate the two.
Intervals resample models, over which the correlations are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from imharness.leaderboard import (
    Blocks,
    ColumnSpec,
    NotTestable,
    Row,
    Table,
    Value,
    interval,
    kendall_rows,
    missing,
    ranked,
    spearman_rows,
    value_of,
    williams,
)
from imharness_reconstruction.metrics.semsim import EACH
from imharness_reconstruction.recognition import RECOGNISED
from imharness_reconstruction.resolution import limit_of

FEWEST = 6
LEFT_OUT = f" {EACH}: each data set is measured by a network that was trained without it."
RANKINGS = {"rho": ("Spearman correlation", spearman_rows), "tau": ("Kendall correlation", kendall_rows)}


def slug(text: str) -> str:
    """Return a text in a form that can be part of a file name."""
    return "".join(c if c.isalnum() else "-" for c in text.lower()).strip("-")


@dataclass(frozen=True)
class Study:
    """K models on one data set under one attack, trained or as initialised (`state`).

    `scores`: metric -> ``(K, N)``, signed so that more means closer, or ``(K, 1)`` for a metric of whole sets;
    `people`: ``(K, N)``, 1 where the reconstruction was recognised. `uncontrolled`: why nothing follows from the study,
    "" if something does; see `positive_control`.
    """

    dataset: str
    attack: str
    models: tuple[str, ...]
    scores: Mapping[str, np.ndarray]
    people: np.ndarray
    who: str
    state: str = ""
    uncontrolled: str = ""

    @classmethod
    def of(cls, scores: Blocks) -> Study | None:
        """Return the study of one data set and attack, or None with fewer than `FEWEST` models or two images.

        `scores` has one condition for each metric and one for `RECOGNISED`, as `tables.leakages` makes them. Images
        that were not judged on every one of the models are left out; so are, for each metric, those on which it lacks
        the number of a model.
        """
        places = {condition["metric"]: c for c, condition in enumerate(scores.conditions)}
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
            complete = ~np.isnan(grid).any(axis=0)
            if complete.any():
                grids[metric] = grid[:, complete]
        here, names = scores.conditions[votes], np.array(scores.entries)[models]
        who = str(scores.about["who"][votes][0])
        judgements = people[np.ix_(models, judged)]
        return cls(
            here["dataset"], here["attack"], tuple(names.tolist()), grids, judgements, who, here.get("state", "")
        )

    @property
    def setting(self) -> str:
        """Data set, attack and state."""
        return f"{self.dataset}, {self.attack}{self.state and f', {self.state}'}"

    @property
    def short(self) -> str:
        """The attack without its package, and the state of the models."""
        return f"{self.attack.partition('/')[2]}{self.state and f', {self.state}'}"

    @property
    def slug(self) -> str:
        """The same as a part of a file name."""
        return slug(f"{self.dataset}-{self.attack}{self.state and f'-{self.state}'}")

    def leakage(self, metric: str) -> np.ndarray:
        """Return each model's mean leakage ``(K,)`` by a metric, or by people for ""."""
        return (self.scores[metric] if metric else self.people).mean(axis=1)


def agreement(study: Study, metric: str, ranking: str) -> Value:
    """Return rho or tau of a metric's ranking with that by people, with an interval over models."""
    correlate_rows = RANKINGS[ranking][1]
    leaks, recognised = study.leakage(metric), study.leakage("")

    def statistic(drawn: np.ndarray) -> np.ndarray:
        return correlate_rows(leaks[drawn], recognised[drawn])

    try:
        return value_of(interval(statistic, len(study.models), limits=(-1.0, 1.0)))
    except NotTestable:
        return missing("one of the two rankings has all models equal")


def unsigned(value: Value) -> Value:
    """Return the absolute value of a correlation, as the paper prints it, without an interval."""
    return value if value.value is None else Value(value=abs(value.value), n=value.n)


def agreement_table(studies: Sequence[Study]) -> Table:
    """Return metrics by how well they agree with people, with the paper's absolute values beside the signed ones."""
    columns, cells = [], dict[str, Callable[[str], Value]]()
    for study in studies:
        where = study.short + (f", {study.dataset}" if len({s.dataset for s in studies}) > 1 else "")
        for ranking, (meaning, _) in RANKINGS.items():
            sentence = f"{meaning} between the metric's ranking of models and that by {study.who}; {study.setting}."
            key, cell_of = f"{study.setting} {ranking}", partial(_cell, study, ranking)
            columns += [
                ColumnSpec(key=key, label=f"{ranking}, {where}", description=sentence, better="higher"),
                ColumnSpec(
                    key=f"{key} absolute",
                    label=f"|{ranking}|, {where}",
                    description=f"The absolute value, which the paper prints, whichever the direction. {sentence}",
                ),
            ]
            cells |= {key: cell_of, f"{key} absolute": lambda metric, signed=cell_of: unsigned(signed(metric))}
    rows = [
        Row(label=metric, values={key: cell(metric) for key, cell in cells.items()})
        for metric in sorted({m for s in studies for m in s.scores})
    ]
    first, who = columns[0].key, "; ".join(sorted({s.who for s in studies}))
    return Table(
        id="agreement",
        title="Metrics by their agreement with people on the order of models",
        caption="Study table (SemSim, tables 1 and 2): rank correlation between the leakage of protected models by a "
        "metric and the share of their "
        f"reconstructions that are recognised ({who}): 1 for the same order, -1 for the reverse. n is the number of "
        "models, and intervals resample them. All reconstructions count, also those of attacks that did not converge. "
        "Where no attack rebuilds more of an undefended model's images than the mean image, no metric has a number."
        f"{limit_of({m for s in studies for m in s.scores})}"
        + (LEFT_OUT if any(EACH in row.label for row in rows) else ""),
        entry="metric",
        columns=tuple(columns),
        rows=tuple(ranked(rows, columns[0])),
        ranked_by=first,
        note=next((s.who for s in studies if "proxy" in s.who), ""),
    )


def _cell(study: Study, ranking: str, metric: str) -> Value:
    if study.uncontrolled:
        return missing(study.uncontrolled)
    return agreement(study, metric, ranking) if metric in study.scores else missing("not scored")


def matrix_table(study: Study, ranking: str = "rho") -> Table:
    """Return rho or tau between all pairs of metrics: figure 3."""
    meaning, correlate_rows = RANKINGS[ranking]
    names = sorted(study.scores)
    labels = ["recognised", *names]
    means = [study.leakage(""), *(study.leakage(m) for m in names)]
    columns = tuple(
        ColumnSpec(key=label, label=label, description=f"{ranking} with the ranking by {label}.", decimals=2)
        for label in labels
    )
    rows = []
    for i, label in enumerate(labels):
        correlations = correlate_rows(np.stack(means), means[i])
        values = {
            name: missing("the ranking is constant") if np.isnan(v) else Value(value=float(v), n=len(study.models))
            for name, v in zip(labels, correlations, strict=True)
        }
        rows.append(Row(label=label, values=values))
    return Table(
        id=f"metric-matrix{'' if ranking == 'rho' else f'-{ranking}'}-{study.slug}",
        title=f"Metric against metric by {ranking}, {study.short}",
        caption="Study table (SemSim, figure 3): "
        f"{meaning} ({ranking}) between two rankings of {len(study.models)} protected models; {study.setting}. "
        f"Recognised: {study.who}.{limit_of(study.scores)}",
        entry="metric",
        columns=columns,
        rows=tuple(rows),
        shading=1.0,
    )


def comparison_table(study: Study) -> Table:
    """Return Williams' test for each pair of metrics: does the row agree better with people than the column?"""
    names = sorted(study.scores)
    people = study.leakage("")
    means = {m: study.leakage(m) for m in names}
    pairs = max(1, len(names) * (len(names) - 1) // 2)
    columns = tuple(
        ColumnSpec(key=name, label=name, description=f"Corrected p-value against {name}.", better="lower")
        for name in names
    )
    rows = []
    for one in names:
        values = {
            other: missing("the same metric") if one == other else _tested(means[one], means[other], people, pairs)
            for other in names
        }
        rows.append(Row(label=one, values=values))
    return Table(
        id=f"agreement-tests-{study.slug}",
        title=f"Does one metric agree better than another? {study.short}",
        caption="Study table: Williams' test of two dependent rank correlations with the ranking by people, "
        f"two-sided, over {len(study.models)} models, Bonferroni-corrected over {pairs} pairs; {study.setting}. "
        f"Recognised: {study.who}.{limit_of(study.scores)}",
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
