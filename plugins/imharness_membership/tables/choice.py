"""The strongest evaluator of each defense, chosen for every split on half of the other splits.

If an evaluator were chosen and reported on the same rows, its number would be too large: the best of 14 evaluators that
guess at random reaches .520. So splits form a circle, and the evaluator of a split is chosen on the splits that follow
it, half of the others. Of any two splits, then, at most one has its evaluator chosen on the other. So the numbers of
evaluators that guess at random are uncorrelated, and intervals over splits cover the truth in .95 of cases. They
would cover .92 if splits were divided into two halves and the evaluators of each half were chosen on the other, because
an evaluator that looks good by chance on both halves is reported on both; and .71 if the evaluator of a split were
chosen on all others. Where splits share pools of rows and references, splits of the same pool are left out of the
choice: an evaluator may look good by chance on the rows of a pool.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from imharness.leaderboard import Blocks, Value, chosen_half, common, missing
from imharness_membership.tables.figures import figures_of
from imharness_membership.tables.rates import Figures
from imharness_membership.tables.splits import DATASET, POOL, over_splits, pools_among

STRONGEST = "the strongest"
EQUAL = 10
"""The number of decimals in which figures are compared; of equally strong evaluators, the first by name is chosen."""
FEWEST = 3
"""With fewer splits, evaluators are chosen on half of the rows, and the other half is reported."""
WAY = (
    "the evaluator of each split is the one that is strongest on the half of the other splits that follow it on a "
    f"circle; with fewer than {FEWEST} splits, on a half of the rows, drawn by a hash of their names, and the other "
    "half is reported"
)
"""How evaluators are chosen, in the words of captions."""


class Parts(NamedTuple):
    """Scores or figures: of rows that are set aside, on which evaluators are chosen, and of rows that are reported.

    Of a study (a data set and a model) with at least `FEWEST` splits, all rows are reported, and none is set aside.
    """

    aside: Blocks
    reported: Blocks


def parted(scores: Blocks) -> Parts:
    """Return the parts of scores; in studies with few splits, half of the rows is set aside."""
    splits: dict[tuple[str, str], set[str]] = {}
    for condition in scores.conditions:
        splits.setdefault(_study(condition), set()).add(condition["split"])
    # the rows of conditions whose study has few splits
    names_of = {
        c: scores.units[c].astype(str)
        for c, facets in enumerate(scores.conditions)
        if len(splits[_study(facets)]) < FEWEST
    }
    names = np.unique(np.concatenate([np.zeros(0, str), *names_of.values()]))
    half = names[chosen_half(names)]
    aside = [
        np.isin(names_of[c], half) if c in names_of else np.zeros(len(units), bool)
        for c, units in enumerate(scores.units)
    ]
    return Parts(_rows(scores, aside), _rows(scores, [~mask for mask in aside]) if names_of else scores)


def figures_of_parts(parted_scores: Parts, kinds: Figures, pools: Mapping[str, str] | None = None) -> Parts:
    """Return the figures of both parts of scores, see `figures_of`."""
    aside = figures_of(parted_scores.aside, kinds, to_choose=True, pools=pools)
    return Parts(aside, figures_of(parted_scores.reported, kinds, pools=pools))


def following(count: int) -> list[list[int]]:
    """Return for each of `count` splits the indices of those on which its evaluator is chosen.

    These are the (count - 1) // 2 splits that follow it on the circle.
    """
    return [[(index + step) % count for step in range(1, (count - 1) // 2 + 1)] for index in range(count)]


def run_both_ways(figures: Blocks, key: str) -> Blocks:
    """Return a figure where an evaluator has it with defended and with plain shadow models; NaN elsewhere."""
    values = figures.values[key]
    attacks = [(_study(facets), facets["evaluator"]) for facets in figures.conditions]
    in_both = []
    for c, attack in enumerate(attacks):
        defined = [~np.isnan(values[k]) for k, other in enumerate(attacks) if other == attack]
        in_both.append(np.where(np.all(defined, axis=0), values[c], np.nan))
    return replace(figures, values={key: tuple(in_both)})


@dataclass(frozen=True)
class Strongest:
    """The figure of the strongest evaluators.

    `broken_by`: entry -> evaluator -> the share of splits on which it is the strongest.
    """

    scores: Blocks
    broken_by: Mapping[str, Mapping[str, float]]


def strongest(figures: Parts, key: str, adversaries: Mapping[str, Sequence[str]]) -> Strongest:
    """Return a figure of each defense's strongest evaluator; it is chosen on other rows than it is reported on.

    The blocks have a condition for each adversary, data set and model, with splits as units. An evaluator that few
    defenses met is not chosen, see `common`.

    Args:
        figures: of the rows that are set aside, and of the rows that are reported.
        key: the figure, by which evaluators are also chosen.
        adversaries: name -> the kinds of shadow model ("fixed", "adaptive") among whose attacks the adversary chooses.
    """
    reported, pools = figures.reported, pools_among(figures.reported)
    conditions, units, values = list[Mapping[str, str]](), list[np.ndarray](), list[np.ndarray]()
    shared: dict[str, list[np.ndarray]] = {} if pools is None else {POOL: [], DATASET: []}
    chosen_counts: dict[str, Counter[str]] = {label: Counter() for label in reported.entries}
    studies = sorted({_study(condition) for condition in reported.conditions})
    for attacker, (dataset, model) in itertools.product(sorted(adversaries), studies):
        facets = {"dataset": dataset, "model": model}
        # 1. The attacks among which this adversary chooses: arrays (attacks, entries, splits).
        tried = [c for c in reported.where(**facets) if reported.conditions[c]["attacker"] in adversaries[attacker]]
        aside, reported_values = (np.stack([side.values[key][c] for c in tried]) for side in figures)
        # 2. Choose the attack with the largest criterion, for each entry and split.
        rare = ~common(reported.entries, ~np.isnan(reported_values).all(axis=2))
        criterion = np.where(rare[:, None, None], np.nan, _criterion(reported.entries, aside, reported_values, pools))
        has_none = np.isnan(criterion).all(axis=0)
        best = np.where(np.isnan(criterion), -np.inf, criterion).argmax(axis=0)
        best_values = np.where(has_none, np.nan, np.take_along_axis(reported_values, best[None], axis=0)[0])
        for i, label in enumerate(reported.entries):
            chosen_attacks = best[i][~np.isnan(best_values[i])]
            chosen_counts[label].update(reported.conditions[tried[k]]["evaluator"] for k in chosen_attacks)
        # 3. Report its figure, with splits sorted by name.
        names = np.array([f"{dataset}, split {split}" for split in reported.units[tried[0]]], dtype=object)
        order = np.argsort(names.astype(str))
        conditions.append({**facets, "evaluator": STRONGEST, "attacker": attacker})
        units.append(names[order])
        values.append(best_values[:, order])
        if pools is not None:
            shared[POOL].append(np.array([f"{dataset}, pool {pool}" for pool in pools[order]], dtype=object))
            shared[DATASET].append(np.full(len(order), dataset, dtype=object))
    shares = {
        label: {evaluator: n / counter.total() for evaluator, n in counter.most_common()}
        for label, counter in chosen_counts.items()
    }
    scores = {key: tuple(values)}
    about = {"split": tuple(units), **{fact: tuple(column) for fact, column in shared.items()}}
    return Strongest(Blocks(reported.entries, tuple(conditions), tuple(units), scores, about), shares)


def over_strongest(scores: Blocks, key: str, entry: str, conditions: Sequence[int], reason: str = "no task") -> Value:
    """Return the mean over splits of an entry's figure in some conditions of `strongest`, see `over_splits`."""
    if not conditions:
        return missing(reason)
    row = scores.entries.index(entry)
    numbers = np.concatenate([scores.values[key][c][row] for c in conditions])
    pools, datasets = (
        np.concatenate([scores.about[fact][c] for c in conditions]) if fact in scores.about else None
        for fact in (POOL, DATASET)
    )
    return over_splits(numbers, reason, pools, datasets)


def _criterion(
    entries: Sequence[str], aside: np.ndarray, reported: np.ndarray, pools: np.ndarray | None = None
) -> np.ndarray:
    """Return the number by which evaluators are chosen for each split, ``(evaluators, entries, splits)``.

    It is the mean figure over the splits that follow on the circle, without NaN. If rows were set aside, it is the mean
    figure on those rows. A split on which few entries were measured is not on the circle, see `common`, so that it
    changes no number of the others; for it, evaluators are chosen on all splits of the circle.

    Args:
        aside: figures on rows that were set aside ``(evaluators, entries, splits)``; all NaN if none were.
        reported: figures of the same shape.
        pools: the pool of each split ``(splits,)``. If some of the following splits are of other pools, only these
            count, because an evaluator that looks good by chance with a pool's rows and references does so on all
            its splits.
    """
    if not np.isnan(aside).all():
        return np.broadcast_to(_mean(aside), aside.shape)
    circle = np.flatnonzero(common(entries, ~np.isnan(reported).all(axis=0).T))
    criterion = np.broadcast_to(_mean(reported[:, :, circle]), reported.shape).copy()
    for split, places in zip(circle, following(len(circle)), strict=True):
        others = circle[places]
        if pools is not None and (pools[others] != pools[split]).any():
            others = others[pools[others] != pools[split]]
        criterion[:, :, split] = _mean(reported[:, :, others])[:, :, 0]
    return criterion


def _mean(figures: np.ndarray) -> np.ndarray:
    """Return the mean over the last axis without NaN, ``(evaluators, entries, 1)``, rounded to `EQUAL` decimals."""
    count = (~np.isnan(figures)).sum(axis=2, keepdims=True)
    total = np.nansum(figures, axis=2, keepdims=True)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0).round(EQUAL)


def _study(facets: Mapping[str, str]) -> tuple[str, str]:
    """Return the data set and the model of a condition."""
    return facets["dataset"], facets["model"]


def _rows(scores: Blocks, masks: Sequence[np.ndarray]) -> Blocks:
    """Return the scores of the rows in `masks`, one mask for each condition."""
    return Blocks(
        scores.entries,
        scores.conditions,
        tuple(units[mask] for units, mask in zip(scores.units, masks, strict=True)),
        {
            name: tuple(block[:, mask] for block, mask in zip(blocks, masks, strict=True))
            for name, blocks in scores.values.items()
        },
        {
            name: tuple(fact[mask] for fact, mask in zip(facts, masks, strict=True))
            for name, facts in scores.about.items()
        },
    )
