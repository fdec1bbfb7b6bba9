"""Tables of the track: protected models by leakage, what defenses cost, and which metric ranks models as people do."""

from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np

from imharness.stats import NotTestable
from imharness.tracks import (
    Chart,
    ColumnSpec,
    Example,
    PairedScores,
    Panel,
    Query,
    Row,
    Table,
    TrackReport,
    Value,
    cube,
    mean_value,
    missing,
    paired_scores,
    ranked,
)
from imharness_reconstruction.agreement import Study, agreement_table, comparison_table, matrix_table

Columns = Mapping[str, np.ndarray]
BASELINE = "harness/plain-gradient"
FIRST = "harness/psnr"
CELL = "dataset, attack, model, defense"
PEOPLE, PROXY = "people", "proxy: top-1 of a classifier, not people"


def report(query: Query) -> TrackReport:
    """Return every table there are results for."""
    if "leakage" not in query.steps:
        return TrackReport()
    rows, sets = _leakage(query), _sets(query)
    judged = recognised(query)
    studies = list(_studies(rows, sets, judged))
    main, *others = _rankings(rows, sets, judged)
    found = [main]
    if studies:
        found += [agreement_table(studies), *map(matrix_table, studies), *map(comparison_table, studies)]
    return TrackReport(
        tables=[*found, *_cost(query), *others],
        comparisons=[_comparison(rows)],
        charts=_charts(main),
        examples=_examples(query, rows),
    )


def all_studies(query: Query) -> list[Study]:
    """Return one study per data set and attack that enough models met."""
    if "leakage" not in query.steps:
        return []
    return list(_studies(_leakage(query), _sets(query), recognised(query)))


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


def recognised(query: Query) -> Columns:
    """Return per reconstruction whether it was recognised, and ``who`` says so.

    People decide on every data set and attack they were asked about, the judge on the others. Empty without either.
    """
    people, judge = _people(query), {}
    if "recognise" in query.steps:
        judge = _verdicts(query, "recognise", PROXY)
    if not people or not judge:
        return people or judge
    asked = {*zip(people["dataset"], people["attack"], strict=True)}
    left = np.array([pair not in asked for pair in zip(judge["dataset"], judge["attack"], strict=True)])
    return {name: np.concatenate([people[name], judge[name][left]]) for name in judge}


def _people(query: Query) -> Columns:
    if "external" not in query.steps:
        return {}
    columns = set(query("SELECT * FROM external LIMIT 0"))
    return _verdicts(query, "external", PEOPLE) if {"recognised", "attack", "model", "defense"} <= columns else {}


def _verdicts(query: Query, view: str, who: str) -> dict[str, np.ndarray]:
    rows = _named(query(f"SELECT {CELL}, name, CAST(recognised AS DOUBLE) AS score FROM {view}"))
    return {**rows, "who": np.full(len(rows["entry"]), who)}


def _where(rows: Columns, **wanted: str) -> dict[str, np.ndarray]:
    mask = np.ones(len(rows["entry"]), dtype=bool)
    for name, value in wanted.items():
        mask &= rows[name] == value
    return {name: values[mask] for name, values in rows.items()}


def _studies(rows: Columns, sets: Columns, judged: Columns) -> Iterator[Study]:
    """Yield one study per data set and attack that enough models met."""
    if not judged:
        return
    for dataset in np.unique(rows["dataset"]):
        for attack in np.unique(rows["attack"]):
            here = {"dataset": str(dataset), "attack": str(attack)}
            one, many, votes = (_where(table, **here) for table in (rows, sets, judged))
            study = Study.of(str(dataset), str(attack), one, many, votes)
            if study is not None:
                yield study


def _rankings(rows: Columns, sets: Columns, judged: Columns) -> list[Table]:
    """Return one table per attack, the attack that most protected models met first."""
    names, counts = np.unique(rows["attack"][_first_of_each(rows)], return_counts=True)
    attacks = [str(name) for name in names[np.argsort(-counts, kind="stable")]]
    found = []
    for number, attack in enumerate(attacks):
        parts = [_where(table, attack=attack) if len(table) else table for table in (rows, sets, judged)]
        found.append(_ranking(*parts, attack, "models" if number == 0 else f"models-{_slug(attack)}"))
    return found


def _first_of_each(rows: Columns) -> np.ndarray:
    """Return one row of each protected model and attack."""
    both = np.array([f"{entry} {attack}" for entry, attack in zip(rows["entry"], rows["attack"], strict=True)])
    return np.unique(both, return_index=True)[1]


def _slug(attack: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in attack.partition("/")[2].lower()).strip("-")


def _ranking(rows: Columns, sets: Columns, judged: Columns, attack: str, id: str) -> Table:
    columns: list[ColumnSpec] = []
    entries = [str(entry) for entry in np.unique(rows["entry"])]
    values: dict[str, dict[str, Value]] = {entry: {} for entry in entries}

    def add(column: ColumnSpec, numbers: Columns) -> None:
        columns.append(column)
        for entry in entries:
            values[entry][column.key] = mean_value(numbers["score"][numbers["entry"] == entry])

    for table in (rows, sets):
        for metric in sorted(map(str, np.unique(table["metric"])), key=lambda m: (m != FIRST, m)):
            here = _where(table, metric=metric)
            text = f"Mean {metric} between reconstruction and private image."
            better: Literal["lower", "higher"] = "lower" if int(here["closeness"][0]) > 0 else "higher"
            add(ColumnSpec(key=metric, label=metric.partition("/")[2], description=text, better=better), here)
    if judged:
        text = f"Share of reconstructions that are recognised; {', '.join(np.unique(judged['who']))}."
        add(ColumnSpec(key="recognised", label="recognised", description=text, better="lower"), judged)
    first = columns[0]
    direction = 1 if first.better == "lower" else -1

    def place(entry: str) -> float:
        value = values[entry][first.key].value
        return np.inf if value is None else direction * value

    several = " Data sets are pooled." if len(np.unique(rows["dataset"])) > 1 else ""
    return Table(
        id=id,
        title=f"Protected models by leakage, {attack.partition('/')[2]}",
        caption="A row is a classifier with a defense of the gradient or of the images; the less close a "
        f"reconstruction by {attack} comes, the better. n is the number of private images.{several}",
        entry="protected model",
        columns=tuple(columns),
        rows=tuple(Row(label=entry, values=values[entry]) for entry in sorted(entries, key=place)),
        ranked_by=first.key,
    )


def _cost(query: Query) -> list[Table]:
    """Return what a defense costs: test accuracy with it and without, over the same held-out images."""
    if "train" not in query.steps:
        return []
    rows = query('SELECT dataset, model, defense, name, CAST("right" AS DOUBLE) AS "right" FROM train')
    place = np.array([f"{d} {m}" for d, m in zip(rows["dataset"], rows["model"], strict=True)])
    defenses, conditions, right = cube(rows["defense"], place, rows["name"], rows["right"])
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
    return [
        Table(
            id="cost",
            title="What a defense costs",
            caption="Accuracy on held-out images of classifiers that were trained under the defense.",
            entry="defense",
            columns=tuple(columns),
            rows=tuple(ranked(table_rows, columns[0])),
            ranked_by="accuracy",
        )
    ]


def _comparison(rows: Columns) -> PairedScores:
    """A unit is a private image."""
    return paired_scores(
        rows["entry"],
        {name: rows[name] for name in ("dataset", "attack", "metric")},
        np.array([f"{d} {n}" for d, n in zip(rows["dataset"], rows["name"], strict=True)]),
        rows["score"] * rows["closeness"],
        id="model-wins",
        title="Which protected model leaks less",
        about="reconstructions less close to the private images",
        entry="protected model",
        measure="closeness",
        description="How close the reconstruction comes, in the unit of the metric, turned so that more is closer.",
        better="lower",
        unit="private image",
    )


def _charts(main: Table) -> list[Chart]:
    """Draw each metric against recognition, where somebody recognised."""
    metrics = [c for c in main.columns if c.key != "recognised"]
    if len(metrics) == len(main.columns):
        return []
    return [
        Chart(
            id=f"recognition-{metric.label}", title=f"{metric.label} against recognition", kind="scatter",
            table=main.id, x=metric.key, y="recognised",
            caption="Each point is a protected model: what the metric says leaks, and what is recognised.",
        )
        for metric in metrics
    ]  # fmt: skip


def _examples(query: Query, rows: Columns) -> list[Example]:
    """Show the first private images beside what the attack that met most models made of them."""
    if "gallery" not in query.steps:
        return []
    attack = _main_attack(rows)
    private = query("SELECT dataset, position, name, task FROM gallery ORDER BY ALL")
    cells = _named(query(f"SELECT task, {CELL} FROM reconstruct_tasks ORDER BY ALL"))
    cells = _where(cells, attack=attack)
    psnr = _where(rows, attack=attack, metric=FIRST)
    scores = dict(zip(zip(psnr["dataset"], psnr["entry"], psnr["name"], strict=True), psnr["score"], strict=True))
    found = []
    places = zip(*(private[name].tolist() for name in ("dataset", "position", "name", "task")), strict=True)
    for dataset, position, name, task in places:
        for cell, entry in zip(cells["task"], cells["entry"], strict=True):
            score = scores.get((dataset, entry, name))
            if score is not None:
                shown = (
                    Panel(label="private", task=task, array="images", position=position),
                    Panel(label="rebuilt", task=cell, array="images", position=position, score=f"{score:.1f} dB"),
                )
                facets = {"dataset": dataset, "attack": attack}
                found.append(Example(entry=entry, title=name, facets=facets, panels=shown))
    return found


def _main_attack(rows: Columns) -> str:
    names, counts = np.unique(rows["attack"][_first_of_each(rows)], return_counts=True)
    return str(names[np.argmax(counts)])
