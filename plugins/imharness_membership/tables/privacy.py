"""An empirical epsilon from guesses of membership, which is no bound; chosen and reported on different rows."""

from imharness.tables import Blocks, Column, Value, missing
from imharness_membership.epsilon import DELTA, chosen_rule, held_out
from imharness_membership.tables.cells import rows_of

FACETS = ("dataset", "model", "evaluator", "attacker")


def empirical_epsilon(parts: tuple[Blocks, Blocks], delta: dict[str, Value]) -> Column:
    """Return the column of empirical epsilons, no bounds; `delta`: what each defense promises, or 1e-5."""

    def bound(defense: str) -> Value:
        promised = delta[defense].value
        return _bound(*parts, defense, DELTA if promised is None else promised)

    return Column(
        "empirical",
        "empirical epsilon, no bound",
        f"What Clopper-Pearson intervals of the guesses would bound with 95%, delta {DELTA:g} where none is promised, "
        "if rows were independent. They are not: all rows of a split meet one model. The evaluator, the threshold and "
        "which side is accused are chosen on a quarter of the rows; the number comes from the others, over all "
        "splits together.",
        "lower",
        2,
        value=bound,
        unit="row",
    )


def _bound(chosen: Blocks, reported: Blocks, defense: str, delta: float) -> Value:
    attacks = sorted({tuple(own[name] for name in FACETS) for own in chosen.conditions})
    best, reach = None, -1.0
    for attack in attacks:
        facets = dict(zip(FACETS, attack, strict=True))
        rows = rows_of(chosen, defense, chosen.where(**facets))
        if rows["member"].any() and not rows["member"].all():
            found, rule = chosen_rule(rows["score"], rows["member"].astype(bool), delta)
            if found > reach:
                best, reach = (facets, rule), found
    if best is None:
        return missing("no cell")
    rows = rows_of(reported, defense, reported.where(**best[0]))
    return Value(value=held_out(best[1], rows["score"], rows["member"].astype(bool), delta), n=len(rows["score"]))
