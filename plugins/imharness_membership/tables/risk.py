"""The tables of privacy risk scores: by threshold, class and prior, and how well they estimate membership."""

import re
from collections.abc import Mapping
from typing import Literal

import numpy as np
from scipy.special import expit

from imharness.leaderboard import Blocks, ColumnSpec, NotTestable, Row, Table, Value, correlate, missing
from imharness_membership.risk import SLACK, THRESHOLDS, calibration_rmse, precision_and_recall
from imharness_membership.tables.figures import apart, rows_of

Columns = Mapping[str, np.ndarray]
RISK = "harness/privacy-risk"
LEARNT = (
    "harness/neural",
    "harness/neural-known",
    "harness/neural-per-class",
    "harness/neural-robust",
    "harness/white-box",
    "harness/white-box-known",
    "harness/white-box-layers",
    "harness/white-box-layers-known",
)
"""The evaluators whose score is the logit of a network that learnt membership."""
ESTIMATES = (RISK, *LEARNT)
EQUALLY_MANY = "Further non-members are left out."


def risk_rows(scores: Blocks) -> dict[str, Columns]:
    """Return the risk score, membership, class and ``right`` of all rows of all splits, by defense.

    The adversaries know the defense. A key is the defense, with data set, model and evaluator if there are several.
    """
    chosen = [c for c in scores.where(attacker="adaptive") if scores.conditions[c]["evaluator"].startswith(RISK)]
    tables = {}
    for facets, indices in apart([scores.conditions[c] for c in chosen], ("dataset", "model", "evaluator")):
        for defense in scores.entries:
            rows = rows_of(scores, defense, [chosen[i] for i in indices])
            if len(rows["score"]):
                tables[", ".join([defense, *facets])] = {**rows, "risk": rows["score"].astype(np.float64) + 0.5}
    return dict(sorted(tables.items()))


def risk(promised: Mapping[str, Columns]) -> Table:
    """Return table 6, precision and recall by threshold, with the calibration."""
    columns = [
        ColumnSpec(
            key=f"{key}{i}",
            label=f"{word}, {threshold:g}",
            description=f"{word.capitalize()} of accusing rows whose risk score is at least {threshold:g}.",
        )
        for i, threshold in enumerate(THRESHOLDS)
        for key, word in (("p", "precision"), ("r", "recall"))
    ]
    rmse = ColumnSpec(
        key="rmse",
        label="calibration RMSE",
        better="lower",
        description="Root mean square difference between the risk score and the true share of members, ten bins.",
    )
    return Table(
        id="risk",
        title="Table 6: privacy risk scores",
        caption="Precision and recall of accusing all rows above a threshold of the risk score, over all splits. "
        + EQUALLY_MANY,
        entry="defense",
        columns=(*columns, rmse),
        rows=tuple(Row(label=defense, values=_precision_and_recall(rows)) for defense, rows in promised.items()),
    )


def estimates(scores: Blocks) -> Table:
    """Return how far estimates of membership are from the truth: risk scores, and outputs of attacking networks.

    Song & Mittal, figures 3 and 11: the output of a network is the sigmoid of its score.
    """
    places = scores.conditions
    chosen = [c for c in scores.where(attacker="adaptive") if places[c]["evaluator"].partition("[")[0] in ESTIMATES]
    names = sorted({places[c]["evaluator"] for c in chosen}, key=lambda name: (not name.startswith(RISK), name))
    rows = []
    for facets, indices in apart([places[c] for c in chosen], ("dataset", "model")):
        for defense in scores.entries:
            values = {}
            for i, name in enumerate(names):
                columns = rows_of(
                    scores, defense, [chosen[k] for k in indices if places[chosen[k]]["evaluator"] == name]
                )
                values[f"e{i}"] = _rmse(columns, name) if len(columns["score"]) else missing("no task")
            if any(value.value is not None for value in values.values()):
                rows.append(Row(label=", ".join([defense, *facets]), values=values))
    return Table(
        id="estimates",
        title="Figures 3 and 11: estimates of membership and the truth",
        caption="Root mean square difference between the estimated probability of being a member and the true share of "
        f"members, ten bins, weighed by their rows, over all splits. {EQUALLY_MANY} The adversary knows the defense. "
        "Where members and non-members are equally many, an estimate of one half for everybody has 0.",
        entry="defense",
        columns=tuple(
            ColumnSpec(
                key=f"e{i}",
                label=name,
                better="lower",
                description=f"Of the probability of membership that {name} says.",
            )
            for i, name in enumerate(names)
        ),
        rows=tuple(rows) if any(name.partition("[")[0] in LEARNT for name in names) else (),
    )


def _rmse(columns: Columns, name: str) -> Value:
    """Return the calibration error of the probabilities of membership that an evaluator's scores stand for."""
    score = columns["score"].astype(np.float64)
    predicted = score + 0.5 if name.startswith(RISK) else expit(score)
    return Value(value=calibration_rmse(predicted, columns["member"].astype(bool)), n=len(predicted))


def priors(scores: Blocks) -> Table:
    """Return how much risk scores raise the members' probability above the prior, for runs with several priors.

    Song & Mittal, appendix B: the mean over members of risk score minus prior.
    """
    places = scores.conditions
    chosen = [c for c in scores.where(attacker="adaptive") if places[c]["evaluator"].startswith(RISK)]
    prior = {name: _prior(name) for name in {places[c]["evaluator"] for c in chosen}}
    rows = []
    for facets, indices in apart([places[c] for c in chosen], ("dataset", "model")) if len(prior) > 1 else ():
        for name in sorted(prior, key=prior.__getitem__):
            for defense in scores.entries:
                columns = rows_of(
                    scores, defense, [chosen[k] for k in indices if places[chosen[k]]["evaluator"] == name]
                )
                inside = columns["score"][columns["member"].astype(bool)].astype(np.float64) + 0.5
                if len(inside):
                    several = [defense] if len(scores.entries) > 1 else []
                    gain = Value(value=float(inside.mean() - prior[name]), n=len(inside))
                    values = {"prior": Value(value=prior[name]), "gain": gain}
                    rows.append(Row(label=", ".join([name, *several, *facets]), values=values))
    return Table(
        id="priors",
        title="Figure 10: risk scores by prior",
        caption="How much more likely a member is called to be one than before the model was seen, over all splits.",
        entry="evaluator",
        columns=(
            ColumnSpec(key="prior", label="prior", description="Probability of membership before anything is seen."),
            ColumnSpec(key="gain", label="score minus prior", description="Mean over members.", better="lower"),
        ),
        rows=tuple(rows),
    )


def _prior(name: str) -> float:
    """Return the prior in the label of an evaluator; 0.5 if it names none."""
    match = re.search(r"prior=([\d.e-]+)", name)
    return float(match[1]) if match else 0.5


def _precision_and_recall(columns: Columns) -> dict[str, Value]:
    """Return precision and recall at each threshold, and the calibration error."""
    precision, recall = precision_and_recall(columns["risk"], columns["member"], np.array(THRESHOLDS))
    accused = [int(np.sum(columns["risk"] >= threshold - SLACK)) for threshold in THRESHOLDS]
    values: dict[str, Value] = {}
    for i, _ in enumerate(THRESHOLDS):
        values[f"p{i}"] = Value(value=float(precision[i]), n=accused[i]) if accused[i] else missing("nobody is accused")
        values[f"r{i}"] = Value(value=float(recall[i]), n=int(columns["member"].sum()))
    return {**values, "rmse": Value(value=calibration_rmse(columns["risk"], columns["member"]), n=len(columns["risk"]))}


def classes(promised: Mapping[str, Columns]) -> Table:
    """Return how the risk differs between classes, and its correlation with the generalisation error."""
    rows = []
    for defense, risk_columns in promised.items():
        mean, error = _per_class(risk_columns)
        values = dict.fromkeys(("low", "high", "correlation"), missing("no class has members and non-members"))
        if len(mean):
            values = {"low": Value(value=float(mean.min())), "high": Value(value=float(mean.max()))}
            values["correlation"] = _correlation(mean, error, "pearson")
        rows.append(Row(label=defense, values=values))
    columns = (
        ColumnSpec(key="low", label="lowest risk", description="Mean risk score of the members of the safest class."),
        ColumnSpec(key="high", label="highest risk", description="The same for the most exposed class."),
        ColumnSpec(
            key="correlation",
            label="with generalisation error",
            description="Pearson correlation over classes of mean risk score and train minus test accuracy.",
        ),
    )
    return Table(
        id="classes",
        title="Risk by class",
        caption="Risk scores by class: the lowest, the highest, and their correlation with the generalisation error.",
        entry="defense",
        columns=columns,
        rows=tuple(rows),
    )


def _per_class(columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the members' mean risk score and the generalisation error of each class that has both kinds of row."""
    labels, class_index = np.unique(columns["label"], return_inverse=True)
    member, right = columns["member"], columns["right"]
    inside, outside = (np.bincount(class_index[m], minlength=len(labels)) for m in (member, ~member))
    usable = (inside > 0) & (outside > 0)
    mean = np.bincount(class_index[member], columns["risk"][member], len(labels))[usable] / inside[usable]
    train = np.bincount(class_index[member], right[member], len(labels))[usable] / inside[usable]
    test = np.bincount(class_index[~member], right[~member], len(labels))[usable] / outside[usable]
    return mean, train - test


def _correlation(x: np.ndarray, y: np.ndarray, method: Literal["pearson", "spearman"]) -> Value:
    try:
        correlation = correlate(x, y, method)
    except NotTestable as reason:
        return missing(reason)
    return Value(value=correlation.value, n=correlation.n)
