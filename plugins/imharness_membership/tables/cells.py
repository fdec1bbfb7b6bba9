"""What evaluators achieved, as arrays: scores of rows, and the figures of every cell."""

import itertools
from collections.abc import Iterable

import numpy as np
import scipy

from imharness.tracks import Blocks, Query, UsageError

FIGURES = {
    "accuracy": ("Attack accuracy", "Balanced accuracy of the guess, 0.5 is chance", 3),
    "auc": ("AUC", "Area under the ROC curve, 0.5 is chance", 3),
    "tpr1": ("TPR at 1% FPR", "Share of members found while at most 1% of non-members are accused", 3),
    "tpr01": ("TPR at 0.1% FPR", "Share of members found while at most 0.1% of non-members are accused", 3),
}
FACETS = ["dataset", "model", "evaluator", "split", "attacker"]
CELL = ["dataset", "model", "evaluator", "attacker"]
ALWAYS = {"attacker": {"adaptive", "fixed"}}


def scores_of(query: Query) -> Blocks:
    """Return the score of every defense and row, and two facts of the row: its class, and whether it is a member.

    Measures: ``score``; ``right``, the model knows the row's class; ``caught``, its membership is guessed right.
    """
    guesses = query.blocks(
        f"SELECT {labelled(query, 'evaluate')} AS defense, dataset, model, evaluator, split, CASE WHEN adaptive "
        "THEN 'adaptive' ELSE 'fixed' END AS attacker, dataset || ' ' || row AS name, member, label, score, "
        'CAST("right" AS FLOAT) AS "right" FROM evaluate',
        entry="defense",
        by=FACETS,
        measures=["score", "right"],
        about=["member", "label"],
    )
    member = guesses.about["member"]
    caught = [
        np.where(np.isnan(score), np.nan, (score >= 0) == inside).astype(np.float32)
        for score, inside in zip(guesses.values["score"], member, strict=True)
    ]
    values = {**guesses.values, "caught": tuple(caught)}
    return Blocks(guesses.entries, guesses.conditions, guesses.units, values, guesses.about)


def labelled(query: Query, step: str) -> str:
    """Return the SQL that names early stopping after the defense whose accuracy it has."""
    if "matched" not in query(f"SELECT * FROM {step}_tasks LIMIT 0"):
        return "defense"
    return "CASE WHEN matched IS NULL THEN defense ELSE defense || ', as accurate as ' || matched END"


def evaluators_of(blocks: Blocks) -> list[str]:
    """Return the evaluators, sorted."""
    return sorted({own["evaluator"] for own in blocks.conditions})


def rows_of(scores: Blocks, defense: str, conditions: Iterable[int]) -> dict[str, np.ndarray]:
    """Return measures and facts of a defense's rows in those of the conditions that it met, one after the other."""
    i = scores.entries.index(defense)
    met = [c for c in conditions if not np.isnan(scores.values["score"][c][i]).any()]
    found = {name: [blocks[c][i] for c in met] for name, blocks in scores.values.items()}
    found |= {name: [facts[c] for c in met] for name, facts in scores.about.items()}
    return {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in found.items()}


def figures(score: np.ndarray, member: np.ndarray) -> dict[str, np.ndarray]:
    """Return the figures of every row of scores ``(k, n)`` by membership ``(n,)``, each ``(k,)``.

    They are those of `imharness.stats`: balanced accuracy, AUC, and true-positive rates at two false-positive rates.
    A row that lacks a number has NaN. Raises `UsageError` without members or without non-members.
    """
    n_in, n_out = int(member.sum()), int((~member).sum())
    if not n_in or not n_out:
        raise UsageError(f"figures of an attack need members and non-members, got {n_in} and {n_out}")
    whole = ~np.isnan(score).any(axis=1)
    known = score[whole].astype(np.float64)
    inside, outside = known[:, member], np.sort(known[:, ~member], axis=1)
    ranks = scipy.stats.rankdata(known, axis=1)[:, member].sum(axis=1)

    def found(share: float) -> np.ndarray:
        allowed = int(np.floor(share * n_out + 1e-9))
        return np.mean(inside > outside[:, n_out - allowed - 1, None], axis=1)

    numbers = {
        "accuracy": (np.mean(inside >= 0, axis=1) + np.mean(outside < 0, axis=1)) / 2,
        "auc": (ranks - n_in * (n_in + 1) / 2) / (n_in * n_out),
        "tpr1": found(0.01),
        "tpr01": found(0.001),
    }
    made = {name: np.full(len(score), np.nan) for name in numbers}
    for name, own in numbers.items():
        made[name][whole] = own
    return made


def figures_of(scores: Blocks) -> Blocks:
    """Return the figures as measures: a condition for every combination of facets, and all splits as units."""
    splits = sorted({own["split"] for own in scores.conditions})
    facets = [sorted({own[name] for own in scores.conditions} | ALWAYS.get(name, set())) for name in CELL]
    shape = (len(scores.entries), len(splits))
    cells = {key: {name: np.full(shape, np.nan) for name in FIGURES} for key in itertools.product(*facets)}
    for c, own in enumerate(scores.conditions):
        cell = cells[tuple(own[name] for name in CELL)]
        for name, numbers in figures(scores.values["score"][c], scores.about["member"][c]).items():
            cell[name][:, splits.index(own["split"])] = numbers
    return Blocks(
        scores.entries,
        tuple(dict(zip(CELL, key, strict=True)) for key in cells),
        tuple(np.array(splits, dtype=object) for _ in cells),
        {name: tuple(cell[name] for cell in cells.values()) for name in FIGURES},
    )
