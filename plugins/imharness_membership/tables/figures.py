"""The results of evaluators as arrays: the scores of rows, and the figures (accuracy, AUC, rates) of every task."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import scipy

from imharness.errors import UsageError
from imharness.leaderboard import Blocks, NotTestable, tpr_at_fpr
from imharness.tracks import Query
from imharness_membership.tables.rates import Figure, Figures
from imharness_membership.tables.splits import POOL

UNDEFENDED = "harness/plain-training"
FURTHER = "further"
"""The column that marks further non-members: there are as many non-members as members, and in some runs these, too."""
FACETS = ["dataset", "model", "evaluator", "split", "attacker"]
TASK = ["dataset", "model", "evaluator", "attacker"]
ALWAYS = {"attacker": {"adaptive", "fixed"}}
"""Facet -> values for which tables have columns, even if a run lacks them."""


def scores_of(query: Query) -> Blocks:
    """Return the score of every defense and row, with the row's class, whether it is a member, and `FURTHER`, if any.

    Measures: ``score``; ``right``: the model classifies the row right; ``caught``: its membership is guessed right.
    """
    further = [FURTHER] if FURTHER in query("SELECT * FROM evaluate LIMIT 0") else []
    guesses = query.blocks(
        f"SELECT {labelled(query, 'evaluate')} AS defense, dataset, model, evaluator, split, CASE WHEN adaptive "
        "THEN 'adaptive' ELSE 'fixed' END AS attacker, dataset || ' ' || row AS name, member, label, score, "
        f'CAST("right" AS FLOAT) AS "right"{"".join(f", {name}" for name in further)} FROM evaluate',
        entry="defense",
        by=FACETS,
        measures=["score", "right"],
        about=["member", "label", *further],
    )
    member = guesses.about["member"]
    caught = [
        np.where(np.isnan(score), np.nan, (score >= 0) == inside).astype(np.float32)
        for score, inside in zip(guesses.values["score"], member, strict=True)
    ]
    values = {**guesses.values, "caught": tuple(caught)}
    return Blocks(guesses.entries, guesses.conditions, guesses.units, values, guesses.about)


def labelled(query: Query, step: str) -> str:
    """Return SQL for the defense's label; early stopping is named after the defense whose accuracy it matches."""
    if "matched" not in query(f"SELECT * FROM {step}_tasks LIMIT 0"):
        return "defense"
    return (
        "CASE WHEN matched IS NULL THEN defense ELSE defense || ', stopped nearest to the accuracy of ' || matched END"
    )


def evaluators_of(blocks: Blocks) -> list[str]:
    """Return the evaluators, sorted."""
    return sorted({condition["evaluator"] for condition in blocks.conditions})


def apart(places: Sequence[Mapping[str, str]], names: Sequence[str]) -> Iterator[tuple[list[str], list[int]]]:
    """Group `places` by the facets `names`; yield each group's facets, and the indices of its places.

    Facets that are the same for all places are left out.
    """
    differing = [name for name in names if len({facets[name] for facets in places}) > 1]
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, facets in enumerate(places):
        groups.setdefault(tuple(facets[name] for name in differing), []).append(i)
    for key, indices in sorted(groups.items()):
        yield list(key), indices


def rows_of(scores: Blocks, defense: str, conditions: Iterable[int]) -> dict[str, np.ndarray]:
    """Return measures and facts of a defense's rows, concatenated over those of the conditions that it met.

    Further non-members are left out, because the tables of these rows suppose as many non-members as members.
    """
    i = scores.entries.index(defense)
    met = [c for c in conditions if not np.isnan(scores.values["score"][c][i]).any()]
    columns = {name: [blocks[c][i] for c in met] for name, blocks in scores.values.items()}
    columns |= {name: [facts[c] for c in met] for name, facts in scores.about.items()}
    joined = {name: np.concatenate(arrays) if arrays else np.zeros(0) for name, arrays in columns.items()}
    further = joined.pop(FURTHER, None)
    return joined if further is None else {name: column[~further.astype(bool)] for name, column in joined.items()}


def figures(score: np.ndarray, member: np.ndarray, kinds: Figures, *, to_choose: bool = False) -> dict[str, np.ndarray]:
    """Return the figures of every row of scores ``(k, n)`` by membership ``(n,)``, each ``(k,)``.

    They are those of `imharness.leaderboard`: balanced accuracy, AUC, and true-positive rates. A row that lacks a
    number has NaN, and so has a rate for which there are too few non-members. With `to_choose`, where figures only
    serve to choose evaluators, such a rate is taken at the lowest false-positive rate for which there are enough.
    Raises `UsageError` without members or without non-members.
    """
    n_in, n_out = int(member.sum()), int((~member).sum())
    if not n_in or not n_out:
        raise UsageError(f"figures of an attack need members and non-members, got {n_in} and {n_out}")
    whole = ~np.isnan(score).any(axis=1)
    complete = score[whole].astype(np.float64)
    results = {key: np.full(len(score), np.nan) for key in kinds}
    for key, figure in kinds.items():
        fpr = max(figure.fpr, 1 / (n_out + 1)) if to_choose else figure.fpr
        results[key][whole] = _figure(key, fpr, complete, member)
    return results


def _figure(key: str, fpr: float, score: np.ndarray, member: np.ndarray) -> np.ndarray:
    """Return one figure of every row of complete scores ``(k,)``; `fpr` counts for rates alone."""
    inside, outside = score[:, member], score[:, ~member]
    n_in, n_out = inside.shape[1], outside.shape[1]
    if key == "accuracy":
        return (np.mean(inside >= 0, axis=1) + np.mean(outside < 0, axis=1)) / 2
    if key == "auc":
        ranks = scipy.stats.rankdata(score, axis=1)[:, member].sum(axis=1)
        return (ranks - n_in * (n_in + 1) / 2) / (n_in * n_out)
    try:
        return np.array([tpr_at_fpr(row, member, fpr) for row in score])
    except NotTestable:
        return np.full(len(score), np.nan)


def figures_of(
    scores: Blocks, kinds: Figures, *, to_choose: bool = False, pools: Mapping[str, str] | None = None
) -> Blocks:
    """Return the figures as measures: a condition for each combination of the facets `TASK`, with splits as units.

    The facts of a split are its number of non-members and, with `pools` (split -> pool), its pool. A figure is NaN for
    a split without members or without non-members, and everywhere if there are too few non-members for it.
    """
    splits = sorted({condition["split"] for condition in scores.conditions}, key=int)
    facets = [sorted({condition[name] for condition in scores.conditions} | ALWAYS.get(name, set())) for name in TASK]
    shape = (len(scores.entries), len(splits))
    keys = list(itertools.product(*facets))
    tasks = {key: {name: np.full(shape, np.nan) for name in kinds} for key in keys}
    non_members = {key: np.zeros(len(splits), np.int64) for key in keys}
    for c, condition in enumerate(scores.conditions):
        key, member = tuple(condition[name] for name in TASK), scores.about["member"][c]
        position = splits.index(condition["split"])
        non_members[key][position] = np.sum(~member)
        if member.all() or not member.any():
            continue
        for name, numbers in figures(scores.values["score"][c], member, kinds, to_choose=to_choose).items():
            tasks[key][name][:, position] = numbers
    for key, (name, figure) in itertools.product(keys, kinds.items()):
        if not to_choose and figure.why_not(non_members[key]):
            tasks[key][name][:] = np.nan
    return Blocks(
        scores.entries,
        tuple(dict(zip(TASK, key, strict=True)) for key in keys),
        tuple(np.array(splits, dtype=object) for _ in keys),
        {name: tuple(tasks[key][name] for key in keys) for name in kinds},
        {"non_members": tuple(non_members[key] for key in keys), **_shared(splits, pools or {}, len(keys))},
    )


def _shared(splits: Sequence[str], pools: Mapping[str, str], conditions: int) -> dict[str, tuple[np.ndarray, ...]]:
    """Return the fact `POOL` of each split for so many conditions; nothing without pools."""
    pool_names = np.array([pools.get(split, f"split {split}") for split in splits], dtype=object)
    return {POOL: (pool_names,) * conditions} if pools else {}


def non_members(figures: Blocks) -> np.ndarray:
    """Return the number of non-members in each split ``(splits,)``, of the condition that has the most in total."""
    return max(figures.about["non_members"], key=np.sum, default=np.zeros(0))


def why_not(figures: Blocks, figure: Figure) -> str:
    """Return why a figure is missing everywhere."""
    return figure.why_not(non_members(figures)) or "no task"
