"""The tables of all figures by defense: attacks, accuracy, calibration and promised privacy."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from imharness.leaderboard import Blocks, Column, Row, Table, Value, Wins, missing, ranking
from imharness.tracks import Query, TrackReport
from imharness_membership.tables.calibrated import Calibrated
from imharness_membership.tables.choice import WAY, Parts, over_strongest, strongest
from imharness_membership.tables.contest import KINDS
from imharness_membership.tables.figures import evaluators_of, labelled, why_not
from imharness_membership.tables.privacy import empirical_epsilon
from imharness_membership.tables.rates import Figures
from imharness_membership.tables.splits import SHARE, mean_of, over_splits, pools_among, pools_of, said_of

Facts = dict[str, dict[str, Value]]
"""Defense -> facts of its target models by column."""
ADVERSARIES = {"plain": ("fixed", "does not know the defense"), "adaptive": ("adaptive", "knows it")}
"""Part of a column's key -> the stored name of the adversary, and what the adversary knows, in words."""
TEST = Column(
    "test", "test accuracy", "Accuracy of the defended model on test rows.", "higher", unit="split", limits=SHARE
)
ACCURACY = (
    TEST,
    Column("train", "train accuracy", "Accuracy of the defended model on its members.", unit="split", limits=SHARE),
)
CALIBRATION = Column(
    "calibration_error",
    "calibration error",
    "Expected calibration error of the released outputs on non-members, 15 bins.",
    "lower",
    unit="split",
)
PRIVACY = (
    Column(
        "epsilon",
        "promised epsilon",
        "Epsilon of the members' (epsilon, delta)-differential privacy, by Renyi divergences. It takes the settings of "
        "the training as given: choosing them on the members would cost privacy, too.",
        "lower",
        2,
    ),
    Column("delta", "promised delta", "Probability that the bound of epsilon does not hold.", "lower", 6),
)
WINS = {
    kind: Wins(
        f"defense-wins-{kind}",
        f"Which defense protects better if the adversary {word}",
        "a lower balanced accuracy of the guess",
        unit="split",
    )
    for kind, (_, word) in ADVERSARIES.items()
}


def facts_of(query: Query, defenses: Sequence[str]) -> Facts:
    """Return the accuracies and calibration of the defended models, and the privacy that their training promises."""
    rows, pools = _rows_of(query), pools_of(query)
    return {
        defense: _facts({name: values[rows["defense"] == defense] for name, values in rows.items()}, pools)
        for defense in defenses
    }


def tested_of(query: Query, defenses: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return defense -> split -> the mean test accuracy of its target models there."""
    rows = _rows_of(query)
    return {
        defense: {
            str(split): float(rows["test"][(rows["defense"] == defense) & (rows["split"] == split)].mean())
            for split in np.unique(rows["split"][rows["defense"] == defense])
        }
        for defense in defenses
    }


def _rows_of(query: Query) -> dict[str, np.ndarray]:
    """Return the defense, the split and the facts of every target model, each ``(models,)``, by column."""
    chunks = [
        query(
            f"SELECT {labelled(query, step)} AS defense, split, test_accuracy AS test, train_accuracy AS train, "
            f"{', '.join(_or_null(query, step, column.key) for column in (CALIBRATION, *PRIVACY))} "
            f"FROM {step}_tasks WHERE role = 'target'"
        )
        for step in ("train", "stop", "release")
        if step in query.steps
    ]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _or_null(query: Query, step: str, name: str) -> str:
    """Return SQL for a fact of a step's tasks; it is NULL if no task of the step has the fact."""
    present = name in query(f"SELECT * FROM {step}_tasks LIMIT 0")
    return f"CAST({name if present else 'NULL'} AS DOUBLE) AS {name}"


def _facts(rows: Mapping[str, np.ndarray], pools: Mapping[str, str]) -> dict[str, Value]:
    """Return the facts of one defense: means over splits of accuracies, and the largest epsilon and delta."""
    facts, splits = dict[str, Value](), np.unique(rows["split"])
    shared = np.array([pools.get(str(split), f"split {split}") for split in splits], dtype=object) if pools else None
    for column in (*ACCURACY, CALIBRATION):
        means = [rows[column.key][rows["split"] == split].mean() for split in splits]
        facts[column.key] = over_splits(np.array(means), pools=shared)
    for column in PRIVACY:
        worst = np.max(rows[column.key], initial=-np.inf)
        promised = np.isfinite(worst)
        facts[column.key] = Value(value=float(worst)) if promised else missing("no differential privacy is promised")
    return facts


def rates(figures: Parts, kinds: Figures, parted_scores: Parts, trained: Facts, calibrated: Calibrated) -> TrackReport:
    """Return every figure of the strongest evaluator of each adversary, and the privacy that trainings promise.

    `figures`, `parted_scores`: figures and scores, each as `imharness_membership.tables.choice.parted` divides them.
    """
    strongest_scores = [strongest(figures, key, KINDS).scores for key in kinds]
    why = {key: why_not(figures.reported, figure) for key, figure in kinds.items()}
    best = replace(
        strongest_scores[0],
        values={key: scores.values[key] for key, scores in zip(kinds, strongest_scores, strict=True)},
    )
    return ranking(
        best,
        *(_against(best, kinds, key, kind, why[key]) for kind in ADVERSARIES for key in kinds),
        *calibrated.columns(),
        *(fact(trained, column) for column in (*ACCURACY, CALIBRATION)),
        empirical_epsilon(parted_scores, {defense: facts["delta"] for defense, facts in trained.items()}),
        *(fact(trained, column) for column in PRIVACY),
        id="rates",
        title="All figures of the strongest evaluators",
        caption="Privacy of models with each defense; n is the number of splits. For each figure, "
        f"{WAY}. Marks and tests compare what stands in the table, split by split. The empirical epsilon takes rows as "
        f"independent and is not a bound; beside it stands the bound that a training promises. {calibrated.caption} "
        f"{said_of(figures.reported)}",
        entry="defense",
        by=[f"{key}_adaptive" for key in kinds],
    )


def _against(best: Blocks, kinds: Figures, key: str, kind: str, why: str) -> Column:
    """Return the column of a figure of the strongest evaluator of one adversary, "plain" or "adaptive"."""
    attacker, word = ADVERSARIES[kind]
    figure, here = kinds[key], best.where(attacker=attacker)
    return Column(
        f"{key}_{kind}",
        f"{figure.label}, adversary {word}",
        f"{figure.meaning}; the strongest evaluator of an adversary that {word}; mean over splits.",
        "lower",
        figure.decimals,
        where={"attacker": attacker},
        of=key,
        value=lambda defense: over_strongest(best, key, defense, here, why),
        wins=WINS[kind] if key == "accuracy" else None,
        unit="split",
        limits=SHARE,
    )


def fact(trained: Facts, column: Column) -> Column:
    """Return a column of facts of the defended models."""
    return replace(column, value=lambda defense: trained[defense][column.key])


def attack_accuracy(figures: Blocks, trained: Facts) -> Table:
    """Return tables 1, 2, 4 and 5: attack accuracy by defense and evaluator, for an adversary who knows the former."""
    names = evaluators_of(figures)
    places = [figures.where(evaluator=name, attacker="adaptive") for name in names]
    rows = []
    for i, defense in enumerate(figures.entries):
        values = {
            f"e{number}": over_splits(
                mean_of([figures.values["accuracy"][c][i] for c in here]), pools=pools_among(figures)
            )
            for number, here in enumerate(places)
        }
        rows.append(Row(label=defense, values={**values, **{c.key: trained[defense][c.key] for c in ACCURACY}}))
    columns = [
        Column(
            f"e{i}", name, f"Balanced accuracy of {name}, mean over splits.", "lower", unit="split", limits=SHARE
        ).spec
        for i, name in enumerate(names)
    ]
    return Table(
        id="accuracy",
        title="Tables 1, 2, 4 and 5: attack accuracy by defense and evaluator",
        caption=f"The adversary knows the defense: its shadow models are defended as the target is. {said_of(figures)}",
        entry="defense",
        columns=(*columns, *(column.spec for column in ACCURACY)),
        rows=tuple(rows),
    )
