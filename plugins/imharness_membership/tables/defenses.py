"""How well defenses protect, and what they cost."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from imharness.tracks import Blocks, Column, Query, Row, Table, TrackReport, Value, Wins, mean_value, missing, ranking
from imharness_membership.tables.cells import FIGURES, evaluators_of, labelled

Accuracies = dict[str, dict[str, Value]]
"""Defense -> accuracy of its models on rows they were tested on and on rows they were trained on."""
ADVERSARIES = {"plain": ("fixed", "non-adaptive"), "adaptive": ("adaptive", "adaptive")}
ACCURACY = (
    Column("test", "Test accuracy", "Of the defended model.", "higher"),
    Column("train", "Train accuracy", "Of the defended model."),
)
WINS = Wins(
    "defense-wins",
    "Which defense protects better",
    "fewer rows whose membership is guessed right",
    measure="guessed right",
    description="Share of rows whose membership the evaluator guesses right.",
    unit="row",
)


def accuracies(query: Query, defenses: Sequence[str]) -> Accuracies:
    """Return the mean accuracies of the defended models. The order of tasks decides what intervals draw."""
    rows = query(
        f"SELECT {labelled(query, 'train')} AS defense, test_accuracy AS test, train_accuracy AS train "
        "FROM train_tasks WHERE role = 'target' ORDER BY task"
    )
    return {
        defense: {column.key: mean_value(rows[column.key][rows["defense"] == defense]) for column in ACCURACY}
        for defense in defenses
    }


def ranked_defenses(scores: Blocks, figures: Blocks, trained: Accuracies) -> TrackReport:
    """Rank defenses by what the strongest adaptive evaluator achieves."""
    return ranking(
        scores,
        *(_against(figures, key, kind) for kind in ADVERSARIES for key in FIGURES),
        *(_accuracy(trained, column) for column in ACCURACY),
        id="defenses",
        title="Defenses against membership inference",
        caption="Privacy of models trained with each defense. n is the number of splits; intervals are bootstrapped "
        "over splits. Early stopping at the accuracy of a defense says whether the defense is worth it.",
        entry="defense",
        by=["accuracy_adaptive"],
    )


def _against(figures: Blocks, key: str, kind: str) -> Column:
    attacker, word = ADVERSARIES[kind]
    label, meaning, decimals = FIGURES[key]
    return Column(
        f"{key}_{kind}",
        f"{label}, {word}",
        f"{meaning}; the strongest evaluator, {word} adversary; mean over splits.",
        "lower",
        decimals,
        of="caught",
        value=lambda defense: strongest(figures, key, defense, attacker),
        wins=WINS if (key, kind) == ("accuracy", "adaptive") else None,
    )


def _accuracy(trained: Accuracies, column: Column) -> Column:
    return replace(column, value=lambda defense: trained[defense][column.key])


def strongest(figures: Blocks, key: str, defense: str, attacker: str) -> Value:
    """Return the figure of the evaluator with the highest mean."""
    places = [figures.where(evaluator=name, attacker=attacker) for name in evaluators_of(figures)]
    found = [numbers for here in places if len(numbers := figures.of(key, defense, here))]
    return mean_value(max(found, key=np.mean)) if found else missing("no cell")


def attack_accuracy(figures: Blocks, trained: Accuracies) -> Table:
    """Return tables 2, 4 and 5: attack accuracy per defense and evaluator, adaptive."""
    names = evaluators_of(figures)
    places = [figures.where(evaluator=name, attacker="adaptive") for name in names]
    rows = []
    for defense in figures.entries:
        values = {f"e{i}": mean_value(figures.of("accuracy", defense, here)) for i, here in enumerate(places)}
        rows.append(Row(label=defense, values={**values, **trained[defense]}))
    columns = [
        Column(f"e{i}", name, f"Balanced accuracy of {name}, mean over splits.", "lower").spec
        for i, name in enumerate(names)
    ]
    return Table(
        id="accuracy", title="Tables 1, 2, 4 and 5: attack accuracy by defense and evaluator",
        caption="Adaptive adversaries: their shadow models are defended as the target is.",
        entry="defense", columns=(*columns, *(column.spec for column in ACCURACY)), rows=tuple(rows),
    )  # fmt: skip
