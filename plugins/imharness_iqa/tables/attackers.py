"""What attacks that know the defense are compared with: the undefended metric, and the attacks without knowledge."""

import numpy as np

from imharness.leaderboard import Blocks

COMMON = "common"
"""A further kind of attack: the fixed attacks on a defense under the conditions in which it was attacked adaptively."""
SETTING = ("dataset", "metric", "attack", "strength")
Condition = tuple[dict[str, str], np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]
"""Facets; names of units ``(u,)``; measures ``(entries, u)`` by name; facts of units ``(u,)`` by name."""


def with_common(blocks: Blocks, baseline: str) -> Blocks:
    """Return blocks of fixed and adaptive attacks with what compares them; the adaptive ones are changed in place.

    A fixed attack on `baseline`, the undefended metric, knows all there is to know, so it counts as an adaptive one,
    too. The attacker "common" has the fixed attacks on `baseline` and on the defenses that were attacked adaptively
    under the same condition; if these are all fixed attacks, no number is copied.
    """
    some = [
        np.any([~np.isnan(values[c]).all(axis=1) for values in blocks.values.values()], axis=0)
        for c in range(len(blocks.conditions))
    ]
    conditions_by_key = {
        tuple(facet_values.values()): _condition(blocks, c) for c, facet_values in enumerate(blocks.conditions)
    }
    adaptive_entries: dict[tuple[str, ...], np.ndarray] = {}  # setting -> mask of the entries attacked adaptively
    for condition, had in zip(blocks.conditions, some, strict=True):
        if condition["attacker"] == "adaptive":
            key = tuple(condition[name] for name in SETTING)
            adaptive_entries[key] = adaptive_entries.get(key, False) | had
    plain = np.array([label == baseline for label in blocks.entries])
    for c, (condition, had) in enumerate(zip(blocks.conditions, some, strict=True)):
        both_ways = adaptive_entries.get(tuple(condition[name] for name in SETTING))
        if condition["attacker"] == "adaptive" or both_ways is None:
            continue
        for attacker, mask in (("adaptive", plain & had), (COMMON, (plain | both_ways) & had)):
            if mask.any():
                facets = {**condition, "attacker": attacker}
                key = tuple(facets.values())
                conditions_by_key[key] = _joined(conditions_by_key.get(key), _condition(blocks, c), facets, mask, had)
    chosen = [conditions_by_key[key] for key in sorted(conditions_by_key)]
    return Blocks(
        blocks.entries,
        tuple(facets for facets, _, _, _ in chosen),
        tuple(units for _, units, _, _ in chosen),
        {name: tuple(values[name] for _, _, values, _ in chosen) for name in blocks.values},
        {name: tuple(about[name] for _, _, _, about in chosen) for name in blocks.about},
    )


def _condition(blocks: Blocks, c: int) -> Condition:
    values, about = ({name: arrays[c] for name, arrays in columns.items()} for columns in (blocks.values, blocks.about))
    return dict(blocks.conditions[c]), blocks.units[c], values, about


def _joined(
    old: Condition | None, condition: Condition, facets: dict[str, str], mask: np.ndarray, had: np.ndarray
) -> Condition:
    """Return the condition `old`, if there is one, with some entries of another one, under other facets.

    `mask` ``(entries,)``: those that are copied, into the arrays of `old` where both have the same units; `had`: those
    with a number in the other one.
    """
    _, units, values, about = condition
    if old is None:
        if (mask == had).all():
            return facets, units, values, about
        return (
            facets,
            units,
            {name: np.where(mask[:, None], block, np.nan).astype(block.dtype) for name, block in values.items()},
            about,
        )
    if old[1] is not units and not np.array_equal(old[1], units):
        old, condition = (
            _over(np.unique(np.concatenate([old[1], units]).astype(str)), each) for each in (old, condition)
        )
        about = {name: np.where(_blank(fact), condition[3][name], fact) for name, fact in old[3].items()}
        old = (*old[:3], about)
    for name, block in old[2].items():
        block[mask] = condition[2][name][mask]
    return facets, *old[1:]


def _over(names: np.ndarray, condition: Condition) -> Condition:
    """Return a condition over more units, sorted by name; NaN where there is no number or fact."""
    at = np.searchsorted(names, condition[1].astype(str))

    def wider(array: np.ndarray) -> np.ndarray:
        widened = np.full((*array.shape[:-1], len(names)), np.nan, np.promote_types(array.dtype, np.float32))
        widened[..., at] = array
        return widened

    values, about = ({name: wider(array) for name, array in columns.items()} for columns in condition[2:])
    return condition[0], names.astype(object), values, about


def _blank(fact: np.ndarray) -> np.ndarray:
    return np.isnan(fact.astype(float))
