"""What adaptive attacks are compared with: attacks on the undefended metric, and the same attacks without knowledge."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from imharness.leaderboard import Blocks

COMMON = "common"
"""A third kind of attacker: the fixed attacks on a defense under the conditions in which it was attacked adaptively."""
SETTING = ("dataset", "metric", "attack", "strength")
"""The facets that fixed and adaptive attacks have in common."""


class Condition(NamedTuple):
    """The results of one attack under one condition.

    `facets`: data set, metric, attack and so on; `units` ``(u,)``: names of images; `values`: measures
    ``(entries, u)`` by name, NaN where an entry has none; `about`: facts of units ``(u,)`` by name.
    """

    facets: dict[str, str]
    units: np.ndarray
    values: dict[str, np.ndarray]
    about: dict[str, np.ndarray]


def with_common(blocks: Blocks, baselines: Collection[str]) -> Blocks:
    """Return blocks of fixed and adaptive attacks, completed by two kinds of conditions that are comparable.

    Adaptive attacks also get the fixed attacks on `baselines`, the names of the undefended metric: there an attacker
    has nothing more to know. One that has adaptive attacks of its own keeps these. The new attacker "common" gets the
    fixed attacks on `baselines`, and those on the defenses that were attacked adaptively under the same condition.
    Arrays of adaptive attacks are changed in place; where all entries of a condition are taken over, no number is
    copied.
    """
    has_number = [  # of each condition: the mask of the entries with any number
        np.any([~np.isnan(values[c]).all(axis=1) for values in blocks.values.values()], axis=0)
        for c in range(len(blocks.conditions))
    ]
    conditions_by_key = {
        tuple(facet_values.values()): _condition(blocks, c) for c, facet_values in enumerate(blocks.conditions)
    }
    adaptive_entries: dict[tuple[str, ...], np.ndarray] = {}  # setting -> mask of the entries attacked adaptively
    for condition, had in zip(blocks.conditions, has_number, strict=True):
        if condition["attacker"] == "adaptive":
            key = tuple(condition[name] for name in SETTING)
            adaptive_entries[key] = adaptive_entries.get(key, False) | had
    plain = np.isin(blocks.entries, list(baselines))
    for c, (condition, had) in enumerate(zip(blocks.conditions, has_number, strict=True)):
        both_ways = adaptive_entries.get(tuple(condition[name] for name in SETTING))
        if condition["attacker"] == "adaptive" or both_ways is None:
            continue
        for attacker, mask in (("adaptive", plain & had & ~both_ways), (COMMON, (plain | both_ways) & had)):
            if mask.any():
                facets = {**condition, "attacker": attacker}
                key = tuple(facets.values())
                conditions_by_key[key] = _joined(conditions_by_key.get(key), _condition(blocks, c), facets, mask, had)
    chosen = [conditions_by_key[key] for key in sorted(conditions_by_key)]
    return Blocks(
        blocks.entries,
        tuple(condition.facets for condition in chosen),
        tuple(condition.units for condition in chosen),
        {name: tuple(condition.values[name] for condition in chosen) for name in blocks.values},
        {name: tuple(condition.about[name] for condition in chosen) for name in blocks.about},
    )


def _condition(blocks: Blocks, c: int) -> Condition:
    values, about = ({name: arrays[c] for name, arrays in columns.items()} for columns in (blocks.values, blocks.about))
    return Condition(dict(blocks.conditions[c]), blocks.units[c], values, about)


def _joined(
    old: Condition | None, added: Condition, facets: dict[str, str], mask: np.ndarray, had: np.ndarray
) -> Condition:
    """Return the condition `old`, if there is one, with some entries of `added`, under other facets.

    `mask` ``(entries,)``: the entries that are taken from `added`; they are written into the arrays of `old` where both
    have the same units. `had` ``(entries,)``: the entries with a number in `added`.
    """
    if old is None:
        if (mask == had).all():
            return added._replace(facets=facets)
        masked = {
            name: np.where(mask[:, None], block, np.nan).astype(block.dtype) for name, block in added.values.items()
        }
        return added._replace(facets=facets, values=masked)
    if old.units is not added.units and not np.array_equal(old.units, added.units):
        names = np.unique(np.concatenate([old.units, added.units]).astype(str))
        old, added = _over(names, old), _over(names, added)
        about = {name: np.where(_blank(fact), added.about[name], fact) for name, fact in old.about.items()}
        old = old._replace(about=about)
    for name, block in old.values.items():
        block[mask] = added.values[name][mask]
    return old._replace(facets=facets)


def _over(names: np.ndarray, condition: Condition) -> Condition:
    """Return a condition over the units `names`, which are sorted; NaN where it has no number or fact."""
    at = np.searchsorted(names, condition.units.astype(str))

    def wider(array: np.ndarray) -> np.ndarray:
        widened = np.full((*array.shape[:-1], len(names)), np.nan, np.promote_types(array.dtype, np.float32))
        widened[..., at] = array
        return widened

    values = {name: wider(array) for name, array in condition.values.items()}
    about = {name: wider(array) for name, array in condition.about.items()}
    return Condition(condition.facets, names.astype(object), values, about)


def _blank(fact: np.ndarray) -> np.ndarray:
    return np.isnan(fact.astype(float))
