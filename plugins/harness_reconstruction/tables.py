"""Tables of the track: protected models by leakage, what defenses cost, and which metric ranks models as people do."""

from collections.abc import Iterator, Mapping

import numpy as np

from harness.api import (
    ColumnSpec,
    NotTestable,
    Query,
    Row,
    Table,
    Value,
    cube,
    mean_value,
    missing,
    win_rates,
    win_table,
)
from harness_reconstruction.agreement import Study, agreement_table, comparison_table, matrix_table

Columns = Mapping[str, np.ndarray]
BASELINE = "harness/plain-gradient"
FIRST = "harness/psnr"
CELL = "dataset, attack, model, defense"
PEOPLE, PROXY = "people", "proxy: top-1 of a classifier, not people"


def all_tables(query: Query) -> list[Table]:
    """Return every table there are results for."""
    if "leakage" not in query.steps:
        return []
    rows, sets = _leakage(query), _sets(query)
    judged, who = recognised(query)
    studies = list(_studies(rows, sets, judged, who))
    found = [_ranking(rows, sets, judged, who), *_cost(query)]
    if studies:
        found += [
            agreement_table(studies),
            *(matrix_table(s) for s in studies),
            *(comparison_table(s) for s in studies),
        ]
    return [*found, _wins(rows)]


def all_studies(query: Query) -> list[Study]:
    """Return one study per data set and attack that enough models met."""
    if "leakage" not in query.steps:
        return []
    judged, who = recognised(query)
    return list(_studies(_leakage(query), _sets(query), judged, who))


def _leakage(query: Query) -> dict[str, np.ndarray]:
    return _named(query(f"SELECT {CELL}, metric, name, score, closeness FROM leakage"))


def _named(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    entry = [f"{m} + {d}" for m, d in zip(rows["model"], rows["defense"], strict=True)]
    return {**rows, "entry": np.array(entry, dtype=str)}


def _sets(query: Query) -> dict[str, np.ndarray]:
    """Return the numbers that belong to a whole set of reconstructions."""
    if "distribution" not in query.steps:
        return {name: np.array([]) for name in ("dataset", "attack", "entry", "metric", "score", "closeness")}
    return _named(query(f"SELECT {CELL}, metric, score, closeness FROM distribution"))


def recognised(query: Query) -> tuple[Columns, str]:
    """Return per reconstruction whether it was recognised, by people where they were asked, else by the judge."""
    if "external" in query.steps:
        columns = query("SELECT * FROM external LIMIT 0")
        if {"recognised", "attack", "model", "defense"} <= set(columns):
            return _named(query(f"SELECT {CELL}, name, CAST(recognised AS DOUBLE) AS score FROM external")), PEOPLE
    if "recognise" not in query.steps:
        return {}, ""
    return _named(query(f"SELECT {CELL}, name, CAST(recognised AS DOUBLE) AS score FROM recognise")), PROXY


def _where(rows: Columns, **wanted: str) -> dict[str, np.ndarray]:
    mask = np.ones(len(rows["entry"]), dtype=bool)
    for name, value in wanted.items():
        mask &= rows[name] == value
    return {name: values[mask] for name, values in rows.items()}


def _studies(rows: Columns, sets: Columns, judged: Columns, who: str) -> Iterator[Study]:
    """Yield one study per data set and attack that enough models met."""
    if not judged:
        return
    for dataset in np.unique(rows["dataset"]):
        for attack in np.unique(rows["attack"]):
            here = {"dataset": str(dataset), "attack": str(attack)}
            one, many, votes = (_where(table, **here) for table in (rows, sets, judged))
            study = Study.of(str(dataset), str(attack), one, many, votes, who)
            if study is not None:
                yield study


def _ranking(rows: Columns, sets: Columns, judged: Columns, who: str) -> Table:
    metrics, attacks, several = (
        np.unique(rows["metric"]),
        np.unique(rows["attack"]),
        len(np.unique(rows["dataset"])) > 1,
    )
    columns: list[ColumnSpec] = []
    values: dict[str, dict[str, Value]] = {str(entry): {} for entry in np.unique(rows["entry"])}
    for table in (rows, sets):
        for metric in np.unique(table["metric"]):
            sign = int(table["closeness"][table["metric"] == metric][0])
            for attack in attacks:
                key = f"{metric} {attack}"
                columns.append(
                    ColumnSpec(
                        key=key,
                        label=f"{metric.partition('/')[2]}, {attack.partition('/')[2]}",
                        description=f"Mean {metric} between reconstruction by {attack} and private image.",
                        better="lower" if sign > 0 else "higher",
                    )
                )
                here = _where(table, metric=metric, attack=attack)
                for entry in values:
                    values[entry][key] = mean_value(here["score"][here["entry"] == entry])
    if judged:
        for attack in attacks:
            key = f"recognised {attack}"
            description = f"Share of reconstructions by {attack} that are recognised; {who}."
            label = f"recognised, {attack.partition('/')[2]}"
            columns.append(ColumnSpec(key=key, label=label, description=description, better="lower"))
            here = _where(judged, attack=attack)
            for entry in values:
                values[entry][key] = mean_value(here["score"][here["entry"] == entry])
    fullest = max(attacks, key=lambda a: len(np.unique(rows["entry"][rows["attack"] == a])))
    by = f"{FIRST if FIRST in metrics else metrics[0]} {fullest}"
    first = next(column for column in columns if column.key == by)
    direction = 1 if first.better == "lower" else -1

    def place(entry: str) -> float:
        value = values[entry][by].value
        return np.inf if value is None else direction * value

    return Table(
        id="models",
        title="Protected models by leakage",
        caption="A row is a classifier with a defense of the gradient or of the images; the less close a "
        "reconstruction comes, the better. n is the number of private images."
        + (" Data sets are pooled." if several else ""),
        entry="protected model",
        columns=tuple(columns),
        rows=tuple(Row(label=entry, values=values[entry]) for entry in sorted(values, key=place)),
        ranked_by=by,
    )


def _cost(query: Query) -> list[Table]:
    """Return what a defense costs: test accuracy with it and without, over the same held-out images."""
    if "train" not in query.steps:
        return []
    rows = query('SELECT dataset, model, defense, name, CAST("right" AS DOUBLE) AS "right" FROM train')
    place = np.array([f"{d} {m}" for d, m in zip(rows["dataset"], rows["model"], strict=True)])
    (
        defenses,
        conditions,
        _,
    ) = (labels := cube(rows["defense"], place, rows["name"], rows["right"]))
    right = labels[2]
    columns = [
        ColumnSpec(
            key="accuracy", label="test accuracy", description="Over models and held-out images.", better="higher"
        )
    ]
    columns.append(
        ColumnSpec(
            key="cost", label="cost", description="Accuracy without a defense minus accuracy with it.", better="lower"
        )
    )
    columns += [
        ColumnSpec(
            key=c, label=c.partition(" ")[2].partition("/")[2], description=f"Test accuracy, {c}.", better="higher"
        )
        for c in conditions
    ]
    table_rows = []
    for i, defense in enumerate(defenses):
        values = {"accuracy": mean_value(right[i].ravel())}
        values |= {c: mean_value(right[i, j]) for j, c in enumerate(conditions)}
        if BASELINE in defenses:
            values["cost"] = mean_value((right[defenses.index(BASELINE)] - right[i]).ravel())
        else:
            values["cost"] = missing(NotTestable("no undefended model was trained"))
        table_rows.append(Row(label=defense, values=values))
    table_rows.sort(key=lambda row: -(row.values["accuracy"].value or 0))
    return [
        Table(
            id="cost",
            title="What a defense costs",
            caption="Accuracy on held-out images of classifiers that were trained under the defense.",
            entry="defense",
            columns=tuple(columns),
            rows=tuple(table_rows),
            ranked_by="accuracy",
        )
    ]


def _wins(rows: Columns) -> Table:
    """A condition is (data set, attack, metric); a pair is a private image."""
    parts = zip(rows["dataset"], rows["attack"], rows["metric"], strict=True)
    condition = np.array([" ".join(part) for part in parts])
    labels, _, numbers = cube(rows["entry"], condition, rows["name"], rows["score"] * rows["closeness"])
    wins = win_rates(numbers, higher_wins=False)
    return win_table(
        "model-wins",
        "Which protected model leaks less",
        "protected model",
        labels,
        wins,
        "reconstructions less close to the private images",
    )
