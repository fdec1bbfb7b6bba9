"""The strongest evaluator of each defense, chosen for every split on the splits before it.

Choosing and reporting on the same rows would overstate it: the best of 14 evaluators that guess reaches .520. Choosing
on one half and reporting on the other, both ways, leaves the two halves correlated: what is chosen on a half is what
looks good there by chance, and is reported there if the other half agrees. Of evaluators that guess, intervals over
splits then cover .92, and .71 if each split's evaluator is chosen on all others. Where no split is chosen for on later
ones, numbers are as independent as splits are, and intervals hold their level (docs/concepts/statistics.md).
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from imharness.contests import common
from imharness.stats import chosen_half
from imharness.tables import Blocks
from imharness_membership.tables.cells import Figures, figures_of

STRONGEST = "the strongest"
WAY = (
    "the evaluator of each split is the one that was strongest on the splits before it; that of the first split is "
    "chosen on a half of its rows, drawn by a hash of their names, and reported on the other half"
)
"""How evaluators are chosen, in the words of captions."""


class Parts(NamedTuple):
    """Scores or figures: of the first splits' rows to choose on alone, of all rows, and of the rows to report."""

    start: Blocks
    whole: Blocks
    reported: Blocks


def parted(scores: Blocks) -> Parts:
    """Return the scores of a half of each first split's rows, of all rows, and of all rows but that half."""
    own = [(_study(facets), int(facets["split"])) for facets in scores.conditions]
    first = {study: min(split for other, split in own if other == study) for study, _ in own}
    names = [units.astype(str) for units in scores.units]
    begun = [c for c, (study, split) in enumerate(own) if split == first[study]]
    known = np.unique(np.concatenate([np.zeros(0, str), *(names[c] for c in begun)]))
    half = known[chosen_half(known)]
    start = [np.isin(names[c], half) if c in set(begun) else np.zeros(len(names[c]), bool) for c in range(len(own))]
    return Parts(_rows(scores, start), scores, _rows(scores, [~kept for kept in start]))


def figures_of_parts(parts: Parts, kinds: Figures) -> Parts:
    """Return the figures of scores, see `figures_of`; where a half has too few non-members, those of a higher rate."""
    start, whole, reported = parts
    return Parts(figures_of(start, kinds, to_choose=True), figures_of(whole, kinds), figures_of(reported, kinds))


def run_both_ways(figures: Parts, key: str) -> Parts:
    """Return a figure of the evaluators that were run with defended and with plain shadow models; NaN of the others.

    Evaluators are chosen by it; what is reported stays as it is.
    """
    return figures._replace(start=_both(figures.start, key), whole=_both(figures.whole, key))


def _both(figures: Blocks, key: str) -> Blocks:
    own, found = figures.conditions, figures.values[key]
    keys = [(_study(facets), facets["evaluator"]) for facets in own]

    def both(c: int) -> np.ndarray:
        others = [~np.isnan(found[k]) for k, other in enumerate(keys) if other == keys[c]]
        return np.where(np.all(others, axis=0), found[c], np.nan)

    return replace(figures, values={key: tuple(map(both, range(len(own))))})


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
    reported = figures.reported
    conditions, units, values = list[Mapping[str, str]](), list[np.ndarray](), list[np.ndarray]()
    named: dict[str, Counter[str]] = {label: Counter() for label in reported.entries}
    studies = sorted({_study(own) for own in reported.conditions})
    for attacker, (dataset, model) in itertools.product(sorted(adversaries), studies):
        facets = {"dataset": dataset, "model": model}
        tried = [c for c in reported.where(**facets) if reported.conditions[c]["attacker"] in adversaries[attacker]]
        start, whole, shown = (np.stack([part.values[key][c] for c in tried]) for part in figures)
        few = ~common(reported.entries, ~np.isnan(whole).all(axis=2))
        reach = np.where(few[:, :, None], np.nan, _reach(start, whole))
        none = np.isnan(reach).all(axis=0)
        best = np.where(np.isnan(reach), -np.inf, reach).argmax(axis=0)
        own = np.where(none, np.nan, np.take_along_axis(shown, best[None], axis=0)[0])
        for i, label in enumerate(reported.entries):
            named[label].update(reported.conditions[tried[k]]["evaluator"] for k in best[i][~np.isnan(own[i])])
        names = np.array([f"{dataset}, split {split}" for split in reported.units[tried[0]]], dtype=object)
        at = np.argsort(names.astype(str))
        conditions.append({**facets, "evaluator": STRONGEST, "attacker": attacker})
        units.append(names[at])
        values.append(own[:, at])
    shares = {label: {name: n / own.total() for name, n in own.most_common()} for label, own in named.items()}
    scores = {key: tuple(values)}
    return Strongest(Blocks(reported.entries, tuple(conditions), tuple(units), scores, {"split": tuple(units)}), shares)


def where_defined(found: Strongest, key: str) -> Blocks:
    """Return the scores without splits on which no entry has a number, if there are others.

    A half of the first split may have too few non-members for a rate.
    """
    scores = found.scores
    kept = [~np.isnan(own).all(axis=0) for own in scores.values[key]]
    kept = [own if own.any() else ~own for own in kept]
    units = tuple(own[here] for own, here in zip(scores.units, kept, strict=True))
    values = {key: tuple(own[:, here] for own, here in zip(scores.values[key], kept, strict=True))}
    return Blocks(scores.entries, scores.conditions, units, values, {"split": units})


def _reach(start: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return what evaluators are chosen by for each split: the mean over the splits before it, NaN left out.

    Args:
        start: figures on the rows to choose on alone ``(evaluators, entries, splits)``, NaN but for the first split.
        whole: figures on all rows, of the same shape.
    """
    count = np.cumsum(~np.isnan(whole), axis=2)
    mean = np.divide(np.cumsum(np.nan_to_num(whole), axis=2), count, out=np.full(whole.shape, np.nan), where=count > 0)
    before = np.concatenate([np.full((*whole.shape[:2], 1), np.nan), mean[:, :, :-1]], axis=2)
    return np.where(np.isnan(start), before, start)


def _study(facets: Mapping[str, str]) -> tuple[str, str]:
    return facets["dataset"], facets["model"]


def _rows(scores: Blocks, kept: Sequence[np.ndarray]) -> Blocks:
    """Return the scores of some of each condition's rows."""
    return Blocks(
        scores.entries,
        scores.conditions,
        tuple(units[own] for units, own in zip(scores.units, kept, strict=True)),
        {
            name: tuple(block[:, own] for block, own in zip(blocks, kept, strict=True))
            for name, blocks in scores.values.items()
        },
        {name: tuple(fact[own] for fact, own in zip(facts, kept, strict=True)) for name, facts in scores.about.items()},
    )
