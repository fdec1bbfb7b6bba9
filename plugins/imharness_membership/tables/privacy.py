"""An empirical epsilon from guesses of membership, which is no bound; no split is chosen for on its own rows."""

from collections.abc import Mapping

import numpy as np

from imharness.leaderboard import Blocks, Column, Value, missing
from imharness_membership.epsilon import DELTA, Rule, chosen_rule, counted, epsilon_if_independent
from imharness_membership.tables.choice import Parts, following
from imharness_membership.tables.figures import rows_of

FACETS = ("dataset", "model", "evaluator", "attacker")
Rows = Mapping[str, np.ndarray]
Attacks = dict[tuple[str, ...], dict[int, Rows]]
"""Attack -> split -> rows."""


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
    aside, reported = (_attacks(side, defense) for side in parted_scores)
    total = np.zeros(4, np.int64)
    for split, others in _chosen_on(reported).items():
        attacks = {
            attack: list(aside[attack].values()) or [tasks[other] for other in others if other in tasks]
            for attack, tasks in reported.items()
            if split in tasks
        }
        best = _best(attacks, delta)
        if best is not None:
            rows = reported[best[0]][split]
            total += counted(best[1], rows["score"], rows["member"])
    if not total[1]:
        return missing("no task")
    return Value(value=float(epsilon_if_independent(*total, delta)), n=int(total[1] + total[3]))


def _chosen_on(reported: Attacks) -> dict[int, list[int]]:
    splits = sorted({split for tasks in reported.values() for split in tasks})
    return {split: [splits[p] for p in places] for split, places in zip(splits, following(len(splits)), strict=True)}


def _best(attacks: Mapping[tuple[str, ...], list[Rows]], delta: float) -> tuple[tuple[str, ...], Rule] | None:
    """Return the attack and the rule that give the largest epsilon on known rows; None where nothing is known."""
    best, reach = None, -1.0
    for attack, tables in attacks.items():
        if not tables:
            continue
        score, member = (np.concatenate([table[name] for table in tables]) for name in ("score", "member"))
        if member.any() and not member.all():
            bound, rule = chosen_rule(score, member, delta)
            if bound > reach:
                best, reach = (attack, rule), bound
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
