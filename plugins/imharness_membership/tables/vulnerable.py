"""Which members every attack exposes: where LiRA, RMIA and the risk score agree, and what removing a member changes."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from imharness.leaderboard import Blocks, ColumnSpec, NotTestable, Row, Table, Value, correlate, missing
from imharness.tracks import Query
from imharness_membership.risk import SLACK
from imharness_membership.tables.figures import UNDEFENDED, apart, rows_of
from imharness_membership.tables.splits import over_splits

THREE = ("harness/lira", "harness/rmia", "harness/privacy-risk")
AGREED = "all three"
TOP = 0.1
"""The share of members that counts as the most exposed ones."""
TENTHS = 10
HIGH = 0.75
"""Removed members whose score is above that of this share of all members are compared with the other removed ones."""


def agreement(scores: Blocks) -> Table:
    """Return the table of agreement among the evaluators `THREE`: rank correlations, and members that all expose."""
    rows = []
    chosen = [c for c in scores.where(attacker="adaptive") if scores.conditions[c]["evaluator"] in THREE]
    for facets, indices in apart([scores.conditions[c] for c in chosen], ("dataset", "model")):
        splits = _by_split(scores, [chosen[i] for i in indices])
        for names in (*combinations(THREE, 2), THREE) if splits else ():
            label = " and ".join(names) if len(names) == 2 else AGREED
            rows.append(Row(label=", ".join([label, *facets]), values=_agreed(splits, names)))
    columns = (
        ColumnSpec(
            key="correlation",
            label="Spearman correlation",
            unit="split",
            description="Of the scores of members, mean over splits; for all three, the mean over pairs.",
        ),
        ColumnSpec(
            key="both",
            label="most exposed by all",
            unit="split",
            description=f"Share of members that are among the top {TOP:.0%} of each; ties are included.",
        ),
        ColumnSpec(
            key="chance",
            label="by chance",
            unit="split",
            description="The share to expect if the scores were independent.",
        ),
    )
    return Table(
        id="vulnerable",
        title="Members that every attack exposes",
        caption="Scores of members of the undefended model by LiRA, RMIA and the privacy risk score. Beyond the paper.",
        entry="evaluators",
        columns=columns,
        rows=tuple(rows),
    )


def _by_split(scores: Blocks, conditions: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """Return the scores of undefended members by evaluator, for each split that all three have."""
    splits = []
    for split in sorted({scores.conditions[c]["split"] for c in conditions}):
        by_evaluator = {}
        for name in THREE if UNDEFENDED in scores.entries else ():
            here = set(scores.where(split=split, evaluator=name)) & set(conditions)
            rows = rows_of(scores, UNDEFENDED, here)
            by_evaluator[name] = rows["score"][rows["member"].astype(bool)]
        if by_evaluator and len({len(one) for one in by_evaluator.values()}) == 1 and len(by_evaluator[THREE[0]]):
            splits.append(by_evaluator)
    return splits


def _agreed(splits: Sequence[dict[str, np.ndarray]], names: Sequence[str]) -> dict[str, Value]:
    """Return rank correlation, the share that all expose, and the share by chance, of some evaluators."""
    correlations, both, chance = [], [], []
    for by_evaluator in splits:
        top = np.stack([by_evaluator[name] >= _edge(by_evaluator[name]) for name in names])
        correlations.append(np.mean([_spearman(by_evaluator[a], by_evaluator[b]) for a, b in combinations(names, 2)]))
        both.append(top.all(axis=0).mean())
        chance.append(top.mean(axis=1).prod())
    defined = np.array(correlations)[~np.isnan(correlations)]
    mean = Value(value=float(defined.mean()), n=len(defined)) if len(defined) else missing("the scores do not differ")
    return {"correlation": mean, "both": over_splits(np.array(both)), "chance": over_splits(np.array(chance))}


def _edge(score: np.ndarray) -> float:
    """Return the lowest score of the most exposed members."""
    return float(np.sort(score)[-max(1, int(TOP * len(score)))])


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    try:
        return correlate(x, y, "spearman").value
    except NotTestable:
        return float("nan")


def sensitivity(query: Query) -> Table:
    """Return how the scores of members correlate with what their removal does to the model."""
    rows = []
    names = ", ".join(f"'{name}'" for name in (*THREE, "harness/confidence"))
    three = ", ".join(f"'{name}'" for name in THREE)
    pairs = query(
        "WITH placed AS (SELECT dataset, model, defense, evaluator, row, score, "
        "percent_rank() OVER (PARTITION BY dataset, model, defense, evaluator ORDER BY score) AS place FROM evaluate "
        f"WHERE split = 0 AND adaptive AND member AND evaluator IN ({names})), "
        "scored AS (SELECT dataset, model, defense, evaluator, row, score, place FROM placed UNION ALL "
        f"SELECT dataset, model, defense, '{AGREED}', row, avg(place), min(place) FROM placed "
        f"WHERE evaluator IN ({three}) GROUP BY dataset, model, defense, row HAVING count(*) = {len(THREE)}) "
        "SELECT dataset, model, evaluator, score, place, sensitivity FROM scored "
        "JOIN sensitivity s USING (dataset, model, defense, row) ORDER BY dataset, model, row"
    )
    for name in (*THREE[::-1], "harness/confidence", AGREED):
        here = np.flatnonzero(pairs["evaluator"] == name)
        places = [{"dataset": pairs["dataset"][i], "model": pairs["model"][i]} for i in here]
        for facets, indices in apart(places, ("dataset", "model")):
            at = here[indices]
            values = _removed(pairs["score"][at], pairs["place"][at] >= HIGH, pairs["sensitivity"][at])
            rows.append(Row(label=", ".join([name, *facets]), values=values))
    columns = (
        ColumnSpec(
            key="correlation",
            label="Spearman correlation",
            unit="member",
            description="Correlation of score and sensitivity; for all three, their mean rank is used.",
        ),
        ColumnSpec(
            key="high",
            label="sensitivity, exposed",
            unit="member",
            description="Mean for members above three quarters of all members; for all three, by each of them.",
        ),
        ColumnSpec(key="rest", label="sensitivity, others", unit="member", description="The same for other members."),
    )
    return Table(
        id="sensitivity",
        title="Risk and sensitivity",
        caption="Sensitivity: log of the ratio of a member's modified entropy when the model is trained without it to "
        "that when it is trained with it. First members of the first split, undefended. The agreement of LiRA, RMIA "
        "and the risk score goes beyond the paper.",
        entry="evaluator",
        columns=columns,
        rows=tuple(rows),
    )


def _removed(score: np.ndarray, high: np.ndarray, sensitivities: np.ndarray) -> dict[str, Value]:
    """Return the correlation of scores and sensitivities, and mean sensitivities of members in `high` and of others."""
    try:
        estimate = correlate(score, sensitivities, "spearman")
        correlation = Value(value=estimate.value, n=estimate.n)
    except NotTestable as reason:
        correlation = missing(reason)
    means = {
        key: Value(value=float(sensitivities[mask].mean()), n=int(mask.sum()))
        if mask.any()
        else missing("no such member")
        for key, mask in (("high", high), ("rest", ~high))
    }
    return {"correlation": correlation, **means}


def sensitivity_by_score(query: Query) -> Table:
    """Return quartiles and mean of the members' sensitivity by their privacy risk score (Song & Mittal, figure 7)."""
    pairs = query(
        "SELECT dataset, model, score, sensitivity FROM evaluate e JOIN sensitivity USING (dataset, model, defense, "
        f"row) WHERE e.split = 0 AND adaptive AND member AND evaluator = '{THREE[2]}' ORDER BY dataset, model, row"
    )
    predicted, moved = pairs["score"].astype(np.float64) + 0.5, pairs["sensitivity"].astype(np.float64)
    tenth = np.clip(np.floor((predicted + SLACK) * TENTHS), 0, TENTHS - 1).astype(int)
    places = [{name: str(pairs[name][i]) for name in ("dataset", "model")} for i in range(len(predicted))]
    rows = []
    for facets, indices in apart(places, ("dataset", "model")):
        here = np.array(indices)
        for number in np.unique(tenth[here]).tolist():
            changes = moved[here[tenth[here] == number]]
            last = number == TENTHS - 1
            label = f"score {number / TENTHS:.1f} to {'' if last else 'below '}{(number + 1) / TENTHS:.1f}"
            first, third = np.quantile(changes, [0.25, 0.75])
            values = {"first": first, "mean": changes.mean(), "third": third}
            quartiles = {key: Value(value=float(value), n=len(changes)) for key, value in values.items()}
            rows.append(Row(label=", ".join([label, *facets]), values=quartiles))
    columns = [
        ColumnSpec(key=key, label=label, unit="member", description=f"{label.capitalize()} of the sensitivity.")
        for key, label in (("first", "first quartile"), ("mean", "mean"), ("third", "third quartile"))
    ]
    return Table(
        id="sensitivity-by-score",
        title="Figure 7: sensitivity by risk score",
        caption="What the removal of a member does to the model, by the tenth in which its privacy risk score lies. "
        "First members of the first split, undefended.",
        entry="risk score",
        columns=tuple(columns),
        rows=tuple(rows),
    )
