"""Tables of the track, after those of Song & Mittal (USENIX Security 2021)."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from imharness.stats import NotTestable, auc, balanced_accuracy, correlate, tpr_at_fpr, wilcoxon_greater
from imharness.tracks import (
    ColumnSpec,
    PairedScores,
    Query,
    Row,
    Table,
    TrackReport,
    Value,
    mean_value,
    missing,
    paired_scores,
    ranked,
)
from imharness_membership.pictures import charts, where
from imharness_membership.risk import calibration_rmse, precision_and_recall

Columns = Mapping[str, np.ndarray]
CELL = ("dataset", "model", "defense", "evaluator", "adaptive", "split")
THRESHOLDS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
FIGURES = {
    "accuracy": ("Attack accuracy", "Balanced accuracy of the guess, 0.5 is chance", 3),
    "auc": ("AUC", "Area under the ROC curve, 0.5 is chance", 3),
    "tpr1": ("TPR at 1% FPR", "Share of members found while at most 1% of non-members are accused", 3),
    "tpr01": ("TPR at 0.1% FPR", "Share of members found while at most 0.1% of non-members are accused", 3),
}


def report(query: Query) -> TrackReport:
    """Return defenses, evaluators, thresholds, risk scores, classes, and who beats whom."""
    if not {"evaluate", "train"} <= query.steps:
        return TrackReport()
    rows = _labelled(query("SELECT * FROM evaluate ORDER BY ALL"))
    trained = _labelled(query("SELECT * FROM train_tasks WHERE role = 'target' ORDER BY ALL"))
    figures = _figures(rows)
    tables = [
        _defenses(figures, trained),
        _by_evaluator(figures, trained),
        _evaluators(figures),
        *_thresholds(figures),
        *_risk(rows),
        *_classes(rows),
        *_sensitivity(query, rows),
    ]
    return TrackReport(tables=tables, comparisons=[_comparison(rows)], charts=charts(rows))


def _labelled(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Name early stopping after the defense whose accuracy it has."""
    if "matched" not in rows:
        return rows
    shown = [d if not m else f"{d}, as accurate as {m}" for d, m in zip(rows["defense"], rows["matched"], strict=True)]
    return {**rows, "defense": np.array(shown, dtype=str)}


def _figures(rows: Columns) -> dict[str, np.ndarray]:
    """Return one line per cell: what the evaluator achieved there."""
    keys = np.array(["\x1f".join(map(str, parts)) for parts in zip(*(rows[n] for n in CELL), strict=True)])
    names, place = np.unique(keys, return_inverse=True)
    order = np.argsort(place, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(place[order])) + 1)
    score, member = rows["score"], rows["member"].astype(bool)
    parts = np.array([name.split("\x1f") for name in names])
    found = {name: parts[:, i] for i, name in enumerate(CELL)}
    return {
        **found,
        "adaptive": found["adaptive"] == "True",
        "accuracy": np.array([balanced_accuracy(score[g], member[g]) for g in groups]),
        "auc": np.array([auc(score[g], member[g]) for g in groups]),
        "tpr1": np.array([tpr_at_fpr(score[g], member[g], 0.01) for g in groups]),
        "tpr01": np.array([tpr_at_fpr(score[g], member[g], 0.001) for g in groups]),
    }


def _defenses(figures: Columns, trained: Columns) -> Table:
    columns = [
        ColumnSpec(
            key=f"{key}_{kind}",
            label=f"{label}, {word}",
            description=f"{meaning}; the strongest evaluator, {word} adversary; mean over splits.",
            better="lower",
            decimals=decimals,
        )
        for kind, word in (("plain", "non-adaptive"), ("adaptive", "adaptive"))
        for key, (label, meaning, decimals) in FIGURES.items()
    ]
    rows = []
    for defense in np.unique(figures["defense"]):
        values: dict[str, Value] = {}
        for kind in ("plain", "adaptive"):
            here = (figures["defense"] == defense) & (figures["adaptive"] == (kind == "adaptive"))
            values |= {f"{key}_{kind}": _strongest(figures["evaluator"][here], figures[key][here]) for key in FIGURES}
        rows.append(Row(label=str(defense), values={**values, **_accuracies(trained, defense)}))
    return Table(
        id="defenses",
        title="Defenses against membership inference",
        caption="Privacy of models trained with each defense. n is the number of splits; intervals are bootstrapped "
        "over splits. Early stopping at the accuracy of a defense says whether the defense is worth it.",
        entry="defense",
        columns=(*columns, *_ACCURACY_COLUMNS),
        rows=tuple(ranked(rows, *(c for c in columns if c.key == "accuracy_adaptive"))),
        ranked_by="accuracy_adaptive",
    )


_ACCURACY_COLUMNS = (
    ColumnSpec(key="test", label="Test accuracy", description="Of the defended model.", better="higher"),
    ColumnSpec(key="train", label="Train accuracy", description="Of the defended model."),
)


def _accuracies(trained: Columns, defense: str) -> dict[str, Value]:
    own = trained["defense"] == defense
    return {"test": mean_value(trained["test_accuracy"][own]), "train": mean_value(trained["train_accuracy"][own])}


def _strongest(evaluators: np.ndarray, numbers: np.ndarray) -> Value:
    if len(numbers) == 0:
        return missing("no cell")
    return mean_value(max((numbers[evaluators == name] for name in np.unique(evaluators)), key=np.mean))


def _by_evaluator(figures: Columns, trained: Columns) -> Table:
    """Return tables 2, 4 and 5: attack accuracy per defense and evaluator, adaptive."""
    names = np.unique(figures["evaluator"]).tolist()
    rows = []
    for defense in np.unique(figures["defense"]):
        own = where(figures, (figures["defense"] == defense) & figures["adaptive"])
        values = {f"e{i}": mean_value(own["accuracy"][own["evaluator"] == name]) for i, name in enumerate(names)}
        rows.append(Row(label=str(defense), values={**values, **_accuracies(trained, defense)}))
    columns = [
        ColumnSpec(
            key=f"e{i}", label=name, better="lower", description=f"Balanced accuracy of {name}, mean over splits."
        )
        for i, name in enumerate(names)
    ]
    return Table(
        id="accuracy",
        title="Tables 1, 2, 4 and 5: attack accuracy by defense and evaluator",
        caption="Adaptive adversaries: their shadow models are defended as the target is.",
        entry="defense",
        columns=(*columns, *_ACCURACY_COLUMNS),
        rows=tuple(rows),
    )


def _evaluators(figures: Columns) -> Table:
    columns = tuple(
        ColumnSpec(
            key=key,
            label=label,
            description=f"{meaning}; adaptive, mean over defenses and splits.",
            better="higher",
            decimals=decimals,
        )
        for key, (label, meaning, decimals) in FIGURES.items()
    )
    rows = []
    for name in np.unique(figures["evaluator"]):
        here = (figures["evaluator"] == name) & figures["adaptive"]
        rows.append(Row(label=str(name), values={key: mean_value(figures[key][here]) for key in FIGURES}))
    return Table(
        id="evaluators",
        title="Evaluators",
        caption="How much each evaluator finds out. n counts (defense, split) pairs.",
        entry="evaluator",
        columns=columns,
        rows=tuple(ranked(rows, *(c for c in columns if c.key == "accuracy"))),
        ranked_by="accuracy",
    )


def _thresholds(figures: Columns) -> list[Table]:
    """Return table 3: thresholds of their own for each class against one for all."""
    own = where(figures, figures["adaptive"])
    conditions = _joined(own, ("dataset", "model", "defense", "split"))
    rows = []
    for name in sorted({e.partition("[")[0] for e in own["evaluator"] if "[per_class=False]" in e}):
        single, each = (own["evaluator"] == f"{name}{end}" for end in ("[per_class=False]", ""))
        first, second = (dict(zip(conditions[m], own["accuracy"][m], strict=True)) for m in (single, each))
        shared = sorted(set(first) & set(second))
        if shared:
            one, many = (np.array([found[key] for key in shared]) for found in (first, second))
            rows.append(_compared(name, one, many))
    if not rows:
        return []
    columns = (
        ColumnSpec(key="one", label="one threshold", better="higher", description="Balanced accuracy, one for all."),
        ColumnSpec(key="each", label="one per class", better="higher", description="Balanced accuracy, one per class."),
        ColumnSpec(key="gain", label="gain", better="higher", description="Of one threshold per class, paired."),
        ColumnSpec(key="p", label="p", decimals=4, description="One-sided Wilcoxon signed-rank test of the gain."),
    )
    return [
        Table(
            id="thresholds",
            title="Table 3: one threshold for all classes, or one per class",
            caption="Attack accuracy over defenses and splits, adaptive adversaries.",
            entry="evaluator",
            columns=columns,
            rows=tuple(rows),
        )
    ]


def _compared(name: str, one: np.ndarray, many: np.ndarray) -> Row:
    found = float(wilcoxon_greater((many - one)[None])[0])
    p = missing("no differing pairs") if np.isnan(found) else Value(value=found, n=len(one))
    values = {"one": mean_value(one), "each": mean_value(many), "gain": mean_value(many - one), "p": p}
    return Row(label=name, values=values)


def _risk(rows: Columns) -> list[Table]:
    """Return table 6 and the calibration: what privacy risk scores promise and keep."""
    own = _risk_rows(rows)
    if len(own["score"]) == 0:
        return []
    table_rows = []
    for defense in np.unique(own["defense"]):
        part = where(own, own["defense"] == defense)
        score, member = part["score"] + 0.5, part["member"].astype(bool)
        precision, recall = precision_and_recall(score, member, np.array(THRESHOLDS))
        values: dict[str, Value] = {}
        for i, _ in enumerate(THRESHOLDS):
            known = not np.isnan(precision[i])
            values[f"p{i}"] = Value(value=float(precision[i])) if known else missing("nobody is accused")
            values[f"r{i}"] = Value(value=float(recall[i]), n=int(member.sum()))
        values["rmse"] = Value(value=calibration_rmse(score, member), n=len(score))
        table_rows.append(Row(label=str(defense), values=values))
    columns = [
        ColumnSpec(
            key=f"{key}{i}",
            label=f"{word}, {threshold:g}",
            description=f"{word.capitalize()} of: member if the risk score is at least {threshold:g}.",
        )
        for i, threshold in enumerate(THRESHOLDS)
        for key, word in (("p", "precision"), ("r", "recall"))
    ]
    rmse = ColumnSpec(
        key="rmse", label="calibration RMSE", better="lower",
        description="Of the risk score against the real share of members, ten bins.",
    )  # fmt: skip
    return [
        Table(
            id="risk",
            title="Table 6: privacy risk scores",
            caption="Precision and recall of accusing rows above a threshold of the risk score, splits together.",
            entry="defense",
            columns=(*columns, rmse),
            rows=tuple(table_rows),
        )
    ]


def _classes(rows: Columns) -> list[Table]:
    """Return how unequal the risk is between classes, and how it goes with the generalisation error."""
    own = _risk_rows(rows)
    table_rows = []
    for defense in np.unique(own["defense"]):
        part = where(own, own["defense"] == defense)
        risk, error = _per_class(part)
        values = {"low": Value(value=float(risk.min())), "high": Value(value=float(risk.max()))}
        values["correlation"] = _correlation(risk, error, "pearson")
        table_rows.append(Row(label=str(defense), values=values))
    if not table_rows:
        return []
    columns = (
        ColumnSpec(key="low", label="lowest risk", description="Mean risk score of the members of the safest class."),
        ColumnSpec(key="high", label="highest risk", description="The same of the most exposed class."),
        ColumnSpec(key="correlation", label="with generalisation error",
                   description="Pearson correlation over classes of mean risk score and train minus test accuracy."),
    )  # fmt: skip
    return [
        Table(
            id="classes",
            title="Risk by class",
            caption="Classes are not equally exposed; the risk follows the generalisation error.",
            entry="defense",
            columns=columns,
            rows=tuple(table_rows),
        )
    ]


def _per_class(rows: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return mean risk score of members and generalisation error of the classes that have both kinds of row."""
    labels, place = np.unique(rows["label"], return_inverse=True)
    member, right = rows["member"].astype(bool), rows["right"].astype(float)
    inside, outside = (np.bincount(place[m], minlength=len(labels)) for m in (member, ~member))
    kept = (inside > 0) & (outside > 0)
    risk = np.bincount(place[member], rows["score"][member] + 0.5, len(labels))[kept] / inside[kept]
    train = np.bincount(place[member], right[member], len(labels))[kept] / inside[kept]
    test = np.bincount(place[~member], right[~member], len(labels))[kept] / outside[kept]
    return risk, train - test


def _sensitivity(query: Query, rows: Columns) -> list[Table]:
    """Return how the risk score of a member goes with what its removal does to the model."""
    if "sensitivity" not in query.steps:
        return []
    moved = query("SELECT dataset, model, defense, row, sensitivity FROM sensitivity ORDER BY ALL")
    table_rows = []
    for name in ("harness/privacy-risk", "harness/confidence", "harness/lira"):
        mask = (rows["evaluator"] == name) & (rows["split"] == 0) & rows["adaptive"].astype(bool)
        own = where(rows, mask & (rows["defense"] == moved["defense"][0]))
        scores = dict(zip(zip(own["dataset"], own["model"], own["row"], strict=True), own["score"], strict=True))
        keys = list(zip(moved["dataset"], moved["model"], moved["row"], strict=True))
        pairs = np.array([(scores[k], m) for k, m in zip(keys, moved["sensitivity"], strict=True) if k in scores])
        if len(pairs) == 0:
            continue
        table_rows.append(Row(label=name, values={"correlation": _correlation(*pairs.T, "spearman")}))
    if not table_rows:
        return []
    column = ColumnSpec(key="correlation", label="Spearman correlation", description="Of score and sensitivity.")
    return [
        Table(
            id="sensitivity",
            title="Risk and sensitivity",
            caption="Sensitivity: log of the modified entropy of a member when the model is trained without it over "
            "that when it is trained with it. First members of the first split, undefended.",
            entry="evaluator",
            columns=(column,),
            rows=tuple(table_rows),
        )
    ]


def _correlation(x: np.ndarray, y: np.ndarray, method: Literal["pearson", "spearman"]) -> Value:
    try:
        found = correlate(x, y, method)
    except NotTestable as reason:
        return missing(reason)
    return Value(value=found.value, n=found.n)


def _risk_rows(rows: Columns) -> dict[str, np.ndarray]:
    named = np.char.startswith(rows["evaluator"].astype(str), "harness/privacy-risk")
    return where(rows, named & rows["adaptive"].astype(bool))


def _comparison(rows: Columns) -> PairedScores:
    """A unit is a row of the data set: is its membership guessed right?"""
    caught = (rows["score"] >= 0) == rows["member"].astype(bool)
    facets = {name: rows[name] for name in ("dataset", "model", "evaluator")}
    facets["split"] = rows["split"].astype(str)
    facets["attacker"] = np.where(rows["adaptive"].astype(bool), "adaptive", "fixed")
    return paired_scores(
        rows["defense"],
        facets,
        _joined(rows, ("dataset", "row")),
        caught,
        id="defense-wins",
        title="Which defense protects better",
        about="fewer rows whose membership is guessed right",
        entry="defense",
        measure="guessed right",
        description="Share of rows whose membership the evaluator guesses right.",
        better="lower",
        unit="row",
        table="defenses",
        column="accuracy_adaptive",
    )


def _joined(rows: Columns, names: Sequence[str]) -> np.ndarray:
    return np.array([" ".join(map(str, parts)) for parts in zip(*(rows[n] for n in names), strict=True)])
