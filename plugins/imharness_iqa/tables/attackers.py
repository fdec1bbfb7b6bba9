"""What attacks that know the defense are compared with: the undefended metric, and the attacks without knowledge."""

import numpy as np

from imharness.tables import Blocks

COMMON = "common"
"""A further kind of attack: the fixed attacks on a defense under the conditions in which it was attacked adaptively."""
SETTING = ("dataset", "metric", "attack", "strength")
Condition = tuple[dict[str, str], np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]


def with_common(found: Blocks, baseline: str) -> Blocks:
    """Return blocks of fixed and adaptive attacks with what compares them; the adaptive ones are changed in place.

    A fixed attack on `baseline`, the undefended metric, knows all there is to know, so it counts as an adaptive one,
    too. The attacker "common" has the fixed attacks on `baseline` and on the defenses that were attacked adaptively
    under the same condition; if these are all fixed attacks, no number is copied.
    """
    some = [
        np.any([~np.isnan(own[c]).all(axis=1) for own in found.values.values()], axis=0)
        for c in range(len(found.conditions))
    ]
    made = {tuple(own.values()): _condition(found, c) for c, own in enumerate(found.conditions)}
    aware: dict[tuple[str, ...], np.ndarray] = {}
    for own, had in zip(found.conditions, some, strict=True):
        if own["attacker"] == "adaptive":
            key = tuple(own[name] for name in SETTING)
            aware[key] = aware.get(key, False) | had
    plain = np.array([label == baseline for label in found.entries])
    for c, (own, had) in enumerate(zip(found.conditions, some, strict=True)):
        known = aware.get(tuple(own[name] for name in SETTING))
        if own["attacker"] == "adaptive" or known is None:
            continue
        for attacker, shown in (("adaptive", plain & had), (COMMON, (plain | known) & had)):
            if shown.any():
                facets = {**own, "attacker": attacker}
                key = tuple(facets.values())
                made[key] = _joined(made.get(key), _condition(found, c), facets, shown, had)
    chosen = [made[key] for key in sorted(made)]
    return Blocks(
        found.entries,
        tuple(facets for facets, _, _, _ in chosen),
        tuple(units for _, units, _, _ in chosen),
        {name: tuple(values[name] for _, _, values, _ in chosen) for name in found.values},
        {name: tuple(about[name] for _, _, _, about in chosen) for name in found.about},
    )


def _condition(found: Blocks, c: int) -> Condition:
    values, about = ({name: own[c] for name, own in part.items()} for part in (found.values, found.about))
    return dict(found.conditions[c]), found.units[c], values, about


def _joined(
    old: Condition | None, own: Condition, facets: dict[str, str], shown: np.ndarray, had: np.ndarray
) -> Condition:
    """Return a condition with its own entries and some entries of another one."""
    _, units, values, about = own
    if old is None:
        if (shown == had).all():
            return facets, units, values, about
        return (
            facets,
            units,
            {name: np.where(shown[:, None], block, np.nan).astype(block.dtype) for name, block in values.items()},
            about,
        )
    if old[1] is not units and not np.array_equal(old[1], units):
        old, own = (_over(np.unique(np.concatenate([old[1], units]).astype(str)), each) for each in (old, own))
        about = {name: np.where(_blank(fact), own[3][name], fact) for name, fact in old[3].items()}
        old = (*old[:3], about)
    for name, block in old[2].items():
        block[shown] = own[2][name][shown]
    return facets, *old[1:]


def _over(names: np.ndarray, own: Condition) -> Condition:
    """Return a condition over more units, sorted by name; NaN where there is no number or fact."""
    at = np.searchsorted(names, own[1].astype(str))

    def wider(array: np.ndarray) -> np.ndarray:
        found = np.full((*array.shape[:-1], len(names)), np.nan, np.promote_types(array.dtype, np.float32))
        found[..., at] = array
        return found

    values, about = ({name: wider(array) for name, array in part.items()} for part in own[2:])
    return own[0], names.astype(object), values, about


def _blank(fact: np.ndarray) -> np.ndarray:
    return np.isnan(fact.astype(float))
