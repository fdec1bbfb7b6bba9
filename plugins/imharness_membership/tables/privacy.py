"""The column of empirical epsilons, from guesses of membership; they are no bounds, see `imharness_membership.epsilon`.

For each split, the attack and the rule that accuses rows are chosen on other splits, or on rows that are set aside, as
evaluators are in `imharness_membership.tables.choice`.
"""

from collections.abc import Mapping

import numpy as np

from imharness.leaderboard import Blocks, Column, Value, missing
from imharness_membership.epsilon import DELTA, Rule, chosen_rule, counted, epsilon_if_independent
from imharness_membership.tables.choice import Parts, following
from imharness_membership.tables.figures import rows_of

FACETS = ("dataset", "model", "evaluator", "attacker")
Rows = Mapping[str, np.ndarray]
"""``score`` and ``member`` of the rows of a split, each ``(n,)``."""
Attacks = dict[tuple[str, ...], dict[int, Rows]]
"""Attack, by its `FACETS` -> split -> rows."""


def empirical_epsilon(parted_scores: Parts, delta: dict[str, Value]) -> Column:
    """Return the column of empirical epsilons, no bounds; `delta`: what each defense promises, or 1e-5."""

    def bound(defense: str) -> Value:
        promised = delta[defense].value
        return _bound(parted_scores, defense, DELTA if promised is None else promised)

    return Column(
        "empirical",
        "empirical epsilon, no bound",
        f"What Clopper-Pearson intervals of the guesses would bound with 95%, delta {DELTA:g} where none is promised, "
        "if rows were independent. They are not: all rows of a split meet one model. The evaluator, the threshold and "
        "which side is accused are chosen for each split on other splits, as evaluators are; right and wrong "
        "accusations of all splits are added up.",
        "lower",
        2,
        value=bound,
        unit="row",
    )


def _bound(parted_scores: Parts, defense: str, delta: float) -> Value:
    """Return the empirical epsilon of a defense; its n is the number of rows of both kinds."""
    aside, reported = (_attacks(side, defense) for side in parted_scores)
    counts = np.zeros(4, np.int64)  # right, of, wrong, others; see `epsilon_if_independent`
    for split, others in _splits_to_choose_on(reported).items():
        # 1. The rows on which the attack and its rule are chosen for this split: those set aside, or other splits.
        rows_to_choose_on: dict[tuple[str, ...], list[Rows]] = {}
        for attack, by_split in reported.items():
            if split in by_split:
                rows_aside = list(aside[attack].values())
                rows_to_choose_on[attack] = rows_aside or [by_split[other] for other in others if other in by_split]
        # 2. The counts of that rule on the split's own rows.
        best = _best(rows_to_choose_on, delta)
        if best is not None:
            attack, rule = best
            rows = reported[attack][split]
            counts += counted(rule, rows["score"], rows["member"])
    if not counts[1]:
        return missing("no task")
    return Value(value=float(epsilon_if_independent(*counts, delta)), n=int(counts[1] + counts[3]))


def _splits_to_choose_on(reported: Attacks) -> dict[int, list[int]]:
    """Return split -> the splits that follow it on the circle, see `following`."""
    splits = sorted({split for by_split in reported.values() for split in by_split})
    indices = following(len(splits))
    return {split: [splits[index] for index in others] for split, others in zip(splits, indices, strict=True)}


def _best(attacks: Mapping[tuple[str, ...], list[Rows]], delta: float) -> tuple[tuple[str, ...], Rule] | None:
    """Return the attack and the rule that give the largest epsilon on known rows; None where nothing is known."""
    best, largest = None, -1.0
    for attack, tables in attacks.items():
        if not tables:
            continue
        score, member = (np.concatenate([table[name] for table in tables]) for name in ("score", "member"))
        if member.any() and not member.all():
            epsilon, rule = chosen_rule(score, member, delta)
            if epsilon > largest:
                best, largest = (attack, rule), epsilon
    return best


def _attacks(scores: Blocks, defense: str) -> Attacks:
    """Return the rows of every attack that a defense met, by split in the order of their numbers."""
    attacks: Attacks = {}
    for c in sorted(range(len(scores.conditions)), key=lambda c: int(scores.conditions[c]["split"])):
        rows, facets = rows_of(scores, defense, [c]), scores.conditions[c]
        by_split = attacks.setdefault(tuple(facets[name] for name in FACETS), {})
        if len(rows["score"]):
            by_split[int(facets["split"])] = {"score": rows["score"], "member": rows["member"].astype(bool)}
    return dict(sorted(attacks.items()))
