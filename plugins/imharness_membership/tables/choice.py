"""The strongest evaluator of each defense, chosen for every split on half of the others.

Choosing and reporting on the same rows would overstate it: the best of 14 evaluators that guess reaches .520. Splits
stand on a circle, and the evaluator of each is chosen on those that follow it, half of the others: of any two splits,
at most one is chosen for on the other. So numbers of evaluators that guess are uncorrelated, and intervals over splits
cover .95 of the truths. They would cover .92 if two halves were chosen for on each other, because what looks good by
chance on both is reported on both, and .71 if each split were chosen for on all others. Where splits share pools of
rows and references, those of the same pool are left out: an evaluator's luck with a pool would be chosen and reported.
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
"""Evaluators are equally strong if so many decimals are equal: the first of them, by name, is chosen."""
FEWEST = 3
"""With fewer splits than these, evaluators are chosen on a half of the rows."""
WAY = (
    "the evaluator of each split is the one that is strongest on the half of the other splits that follow it on a "
    f"circle; with fewer than {FEWEST} splits, on a half of the rows, drawn by a hash of their names, and the other "
    "half is reported"
)
"""How evaluators are chosen, in the words of captions."""


class Parts(NamedTuple):
    """Scores or figures: of the rows on which evaluators are only chosen, and of the rows that are reported.

    Of studies with at least `FEWEST` splits, all rows are reported.
    """

    aside: Blocks
    reported: Blocks


def parted(scores: Blocks) -> Parts:
    """Return the parts of scores; a half of the rows of studies with few splits is set aside."""
    splits: dict[tuple[str, str], set[str]] = {}
    for condition in scores.conditions:
        splits.setdefault(_study(condition), set()).add(condition["split"])
    few = {
        c: scores.units[c].astype(str)
        for c, facets in enumerate(scores.conditions)
        if len(splits[_study(facets)]) < FEWEST
    }
    unit_names = np.unique(np.concatenate([np.zeros(0, str), *few.values()]))
    half = unit_names[chosen_half(unit_names)]
    aside = [np.isin(few[c], half) if c in few else np.zeros(len(units), bool) for c, units in enumerate(scores.units)]
    return Parts(_rows(scores, aside), _rows(scores, [~mask for mask in aside]) if few else scores)


def figures_of_parts(parted_scores: Parts, kinds: Figures, pools: Mapping[str, str] | None = None) -> Parts:
    """Return the figures of scores, see `figures_of`."""
    aside = figures_of(parted_scores.aside, kinds, to_choose=True, pools=pools)
    return Parts(aside, figures_of(parted_scores.reported, kinds, pools=pools))


def following(count: int) -> list[list[int]]:
    """Return for each of so many splits the places of those on which its evaluator is chosen: (count - 1) // 2."""
    return [[(index + step) % count for step in range(1, (count - 1) // 2 + 1)] for index in range(count)]


def run_both_ways(figures: Blocks, key: str) -> Blocks:
    """Return a figure of the evaluators that were run with defended and with plain shadow models; NaN of the others."""
    conditions, values = figures.conditions, figures.values[key]
    keys = [(_study(facets), facets["evaluator"]) for facets in conditions]

    def both(c: int) -> np.ndarray:
        others = [~np.isnan(values[k]) for k, other in enumerate(keys) if other == keys[c]]
        return np.where(np.all(others, axis=0), values[c], np.nan)

    return replace(figures, values={key: tuple(map(both, range(len(conditions))))})


@dataclass(frozen=True)
class Strongest:
    """A figure of the strongest evaluators, and entry -> evaluator -> on how many splits it is that one, as a share."""

    scores: Blocks
    broken_by: Mapping[str, Mapping[str, float]]


def strongest(figures: Parts, key: str, adversaries: Mapping[str, Sequence[str]]) -> Strongest:
    """Return a figure of each defense's strongest evaluator; no split is chosen for on rows that it is reported on.

    The blocks have a condition for each adversary, data set and model, with splits as units; `adversaries`: name -> the
    kinds of shadow model among which it chooses. An evaluator that few defenses met is not chosen, see `common`.
    """
    reported, pools = figures.reported, pools_among(figures.reported)
    conditions, units, values = list[Mapping[str, str]](), list[np.ndarray](), list[np.ndarray]()
    shared: dict[str, list[np.ndarray]] = {} if pools is None else {POOL: [], DATASET: []}
    named: dict[str, Counter[str]] = {label: Counter() for label in reported.entries}
    studies = sorted({_study(condition) for condition in reported.conditions})
    for attacker, (dataset, model) in itertools.product(sorted(adversaries), studies):
        facets = {"dataset": dataset, "model": model}
        tried = [c for c in reported.where(**facets) if reported.conditions[c]["attacker"] in adversaries[attacker]]
        aside, reported_values = (np.stack([side.values[key][c] for c in tried]) for side in figures)
        few = ~common(reported.entries, ~np.isnan(reported_values).all(axis=2))
        reach = np.where(few[:, None, None], np.nan, _reach(reported.entries, aside, reported_values, pools))
        none = np.isnan(reach).all(axis=0)
        best = np.where(np.isnan(reach), -np.inf, reach).argmax(axis=0)
        best_values = np.where(none, np.nan, np.take_along_axis(reported_values, best[None], axis=0)[0])
        for i, label in enumerate(reported.entries):
            named[label].update(reported.conditions[tried[k]]["evaluator"] for k in best[i][~np.isnan(best_values[i])])
        names = np.array([f"{dataset}, split {split}" for split in reported.units[tried[0]]], dtype=object)
        at = np.argsort(names.astype(str))
        conditions.append({**facets, "evaluator": STRONGEST, "attacker": attacker})
        units.append(names[at])
        values.append(best_values[:, at])
        if pools is not None:
            shared[POOL].append(np.array([f"{dataset}, pool {pool}" for pool in pools[at]], dtype=object))
            shared[DATASET].append(np.full(len(at), dataset, dtype=object))
    shares = {
        label: {name: n / counter.total() for name, n in counter.most_common()} for label, counter in named.items()
    }
    scores = {key: tuple(values)}
    about = {"split": tuple(units), **{fact: tuple(column) for fact, column in shared.items()}}
    return Strongest(Blocks(reported.entries, tuple(conditions), tuple(units), scores, about), shares)


def over_strongest(scores: Blocks, key: str, entry: str, conditions: Sequence[int], reason: str = "no task") -> Value:
    """Return the mean of an entry's figure over splits, as `over_splits` does, in some conditions of `strongest`."""
    if not conditions:
        return missing(reason)
    row = scores.entries.index(entry)
    numbers, *facts = (
        np.concatenate([columns[c] for c in conditions])
        for columns in (
            [block[row] for block in scores.values[key]],
            *(scores.about[fact] for fact in (POOL, DATASET) if fact in scores.about),
        )
    )
    return over_splits(numbers, reason, *facts)


def _reach(
    entries: Sequence[str], aside: np.ndarray, reported: np.ndarray, pools: np.ndarray | None = None
) -> np.ndarray:
    """Return what evaluators are chosen by for each split: the mean over those that follow it, NaN left out.

    The splits on the circle are those that count, see `common`: one that few entries were measured on changes no
    number of the others. For such a split, evaluators are chosen on all that count.

    Args:
        aside: figures on rows that were set aside ``(evaluators, entries, splits)``; they count where there are some.
        reported: figures of the same shape.
        pools: the pool of each split ``(splits,)``. Where some of the splits that follow are of other pools, it is
            chosen on these, since what favours it by chance on a pool's rows and references would be seen twice.
    """
    if not np.isnan(aside).all():
        return np.broadcast_to(_mean(aside), aside.shape)
    on = common(entries, ~np.isnan(reported).all(axis=0).T)
    reach, places = np.broadcast_to(_mean(reported[:, :, on]), reported.shape).copy(), np.flatnonzero(on)
    for index, others in zip(places, following(len(places)), strict=True):
        on_these = places[others]
        if pools is not None and (pools[on_these] != pools[index]).any():
            on_these = on_these[pools[on_these] != pools[index]]
        reach[:, :, index] = _mean(reported[:, :, on_these])[:, :, 0]
    return reach


def _mean(figures: np.ndarray) -> np.ndarray:
    """Return the mean over the last axis, which is kept, without NaN."""
    count = (~np.isnan(figures)).sum(axis=2, keepdims=True)
    total = np.nansum(figures, axis=2, keepdims=True)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0).round(EQUAL)


def _study(facets: Mapping[str, str]) -> tuple[str, str]:
    return facets["dataset"], facets["model"]


def _rows(scores: Blocks, masks: Sequence[np.ndarray]) -> Blocks:
    """Return the scores of some of each condition's rows."""
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
