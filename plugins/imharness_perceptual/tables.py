"""Tables of the track: forced choices, noticeable differences, opinion scores, and distances under attack."""

from collections.abc import Mapping

import numpy as np

from imharness.stats import Interval, NotTestable, correlate, interval, spearman_rows
from imharness.tracks import (
    Chart,
    ColumnSpec,
    PairedScores,
    Query,
    Row,
    Series,
    Table,
    TrackReport,
    Value,
    mean_value,
    missing,
    paired_scores,
    value_of,
)
from imharness_perceptual.verdicts import average_precision, ceiling, credit

Columns = Mapping[str, np.ndarray]
CEILING = "people"
COLUMNS = 'metric, dataset, name, reference, family, severity, "group", choice, judge, same, mos, proxy, distance'


def report(query: Query) -> TrackReport:
    """Return every table there are results for; the first ranks metrics by forced choices."""
    if "distance" not in query.steps:
        return TrackReport()
    rows = query(f"SELECT {COLUMNS} FROM distance ORDER BY ALL")
    choices = forced_choices(rows)
    asked = len(choices["metric"]) > 0
    found = [_agreement(rows, choices)] if asked else []
    found += [*_noticeable(rows), *_tests_together(rows, choices), *_opinions(rows)]
    if "attack" in query.steps:
        found.append(_attacked(query("SELECT * FROM attack WHERE distorted ORDER BY ALL")))
    if not asked:
        return TrackReport(found)
    return TrackReport(found, [_comparison(choices)], _charts(rows, choices))


def forced_choices(rows: Columns) -> dict[str, np.ndarray]:
    """Return one line per metric and forced choice: who is right, and how far a person agrees with the others.

    Judged choices stand in the data; on a ladder, neighbouring severities of one distortion make one, with the milder
    alternative 0 always nearer.
    """
    parts = [_judged(rows), _neighbours(rows)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _lines(rows: Columns, unit: np.ndarray, first: np.ndarray, second: np.ndarray, judge: np.ndarray) -> dict:
    """`first` and `second`: positions of the two alternatives of each choice."""
    return {
        "metric": rows["metric"][first].astype(str),
        "dataset": rows["dataset"][first].astype(str),
        "family": rows["family"][first].astype(str),
        "unit": unit.astype(str),
        "agreement": credit(rows["distance"][first], rows["distance"][second], judge),
        "ceiling": ceiling(judge),
    }


def _judged(rows: Columns) -> dict[str, np.ndarray]:
    mine = np.flatnonzero(rows["group"].astype(str) != "")
    key = _joined(rows, ("metric", "dataset", "group"), mine)
    order = np.lexsort((rows["choice"][mine], key))
    mine, key = mine[order], key[order]
    both = key[1:] == key[:-1]
    first, second = mine[:-1][both], mine[1:][both]
    return _lines(rows, _joined(rows, ("dataset", "group"), first), first, second, rows["judge"][first])


def _neighbours(rows: Columns) -> dict[str, np.ndarray]:
    """Join every image with the next severity of the same distortion of the same reference."""
    mine = np.flatnonzero(_on_ladder(rows))
    place = _joined(rows, ("metric", "dataset", "reference", "family"), mine)
    order = np.lexsort((rows["severity"][mine], place))
    mine, place = mine[order], place[order]
    next_to = (place[1:] == place[:-1]) & (rows["severity"][mine][1:] == rows["severity"][mine][:-1] + 1)
    first, second = mine[:-1][next_to], mine[1:][next_to]
    unit = _joined(rows, ("dataset", "reference", "family", "severity"), second)
    return _lines(rows, unit, first, second, np.zeros(len(first)))


def _on_ladder(rows: Columns) -> np.ndarray:
    """Return where the order of severities is all that is known: nobody gave an opinion or chose."""
    nobody = np.isnan(rows["mos"]) | (rows["proxy"].astype(str) != "")
    return (rows["severity"] > 0) & nobody & (rows["group"].astype(str) == "")


def _joined(rows: Columns, names: tuple[str, ...], positions: np.ndarray) -> np.ndarray:
    parts = zip(*(rows[name][positions].astype(str) for name in names), strict=True)
    return np.array([" ".join(part) for part in parts], dtype=str)


def _agreement(rows: Columns, choices: Columns) -> Table:
    families, human = np.unique(choices["family"]), bool((choices["ceiling"] < 1).any())
    ladder = _on_ladder(rows)
    columns = [
        ColumnSpec(
            key="all",
            label="2AFC agreement",
            better="higher",
            description="Share of judges agreed with; 0.5 is chance.",
        )
    ]
    if ladder.any():
        text = "Spearman correlation of distance and severity over all families."
        columns.append(ColumnSpec(key="srcc", label="SROCC with severity", better="higher", description=text))
    columns += [
        ColumnSpec(key=str(f), label=str(f), better="higher", description=f"2AFC agreement on {f}.") for f in families
    ]
    table_rows = []
    for metric in np.unique(choices["metric"]):
        own = choices["metric"] == metric
        values = {"all": mean_value(choices["agreement"][own])}
        if ladder.any():
            values["srcc"] = _rho(rows, ladder & (rows["metric"] == metric), "severity")
        for family in families:
            values[str(family)] = mean_value(choices["agreement"][own & (choices["family"] == family)])
        table_rows.append(Row(label=str(metric), values=values))
    table_rows.sort(key=lambda row: (-(row.values["all"].value or 0), -_number(row, "srcc")))
    if human:
        table_rows.append(_people(choices, families, [c.key for c in columns]))
    return Table(
        id="agreement",
        title="Agreement on forced choices",
        caption="Two distorted images, one reference: which is nearer? The credit is the share of judges that a metric "
        "agrees with. "
        + ("People: one of the judges against the others. " if human else "")
        + (
            "On a ladder the two are neighbouring severities of one distortion of one photograph."
            if ladder.any()
            else ""
        ),
        entry="metric",
        columns=tuple(columns),
        rows=tuple(table_rows),
        ranked_by="all",
        note="Severity order, not human judgement." if ladder.any() else "",
    )


def _number(row: Row, key: str) -> float:
    value = row.values.get(key)
    return 0.0 if value is None or value.value is None else value.value


def _people(choices: Columns, families: np.ndarray, keys: list[str]) -> Row:
    one = choices["metric"] == choices["metric"][0]
    asked = one & (choices["ceiling"] < 1)
    values = {key: missing("nobody was asked") for key in keys}
    values["all"] = mean_value(choices["ceiling"][asked])
    for family in families:
        here = asked & (choices["family"] == family)
        if here.any():
            values[str(family)] = mean_value(choices["ceiling"][here])
    return Row(label=CEILING, title="How far one judge agrees with the others", values=values)


def _rho(rows: Columns, mask: np.ndarray, column: str, sign: int = 1) -> Value:
    distance, wanted = rows["distance"][mask], sign * rows[column][mask]
    try:
        found: Interval = interval(lambda chosen: spearman_rows(distance[chosen], wanted[chosen]), len(distance))
    except NotTestable as error:
        return missing(error)
    return value_of(found)


def _comparison(choices: Columns) -> PairedScores:
    """A unit is one forced choice."""
    return paired_scores(
        choices["metric"],
        {"dataset": choices["dataset"], "distortion": choices["family"]},
        choices["unit"],
        choices["agreement"],
        id="metric-wins",
        title="Which metric agrees more",
        about="more forced choices right",
        entry="metric",
        measure="agreement",
        description="Share of judges that the metric agrees with.",
        better="higher",
        unit="forced choice",
        table="agreement",
        column="all",
    )


def _charts(rows: Columns, choices: Columns) -> list[Chart]:
    both = both_tests(rows, choices)
    found = [
        Chart(
            id="agreement", title="2AFC agreement", kind="bars", table="agreement", x="all",
            caption="Share of judges that each metric agrees with; 0.5 is chance.",
        )
    ]  # fmt: skip
    if len(both) >= 3:
        dots = tuple(Series(label=metric, x=(score,), y=(jnd,)) for metric, (score, jnd) in both.items())
        found.append(
            Chart(
                id="tests", title="Two tests of a metric", kind="scatter", series=dots,
                x_label="2AFC agreement", y_label="JND mAP",
                caption="Forced choices against just noticeable differences: do both tests rank metrics alike?",
            )
        )  # fmt: skip
    return found


def jnd_scores(rows: Columns) -> dict[str, dict[str, float]]:
    """Return metric -> family -> average precision of "no difference"."""
    judged = ~np.isnan(rows["same"]) & (rows["name"] != rows["reference"])
    found: dict[str, dict[str, float]] = {}
    for metric in np.unique(rows["metric"][judged]):
        for family in np.unique(rows["family"][judged]):
            here = judged & (rows["metric"] == metric) & (rows["family"] == family)
            score = average_precision(rows["distance"][here], rows["same"][here])
            found.setdefault(str(metric), {})[str(family)] = score
    return found


def _noticeable(rows: Columns) -> list[Table]:
    scores = jnd_scores(rows)
    if not scores:
        return []
    families = sorted({family for own in scores.values() for family in own})
    columns = [ColumnSpec(key="map", label="JND mAP", better="higher", description="Mean of the families.")]
    columns += [ColumnSpec(key=f, label=f, better="higher", description=f"Average precision on {f}.") for f in families]
    table_rows = []
    for metric, own in scores.items():
        finite = [score for score in own.values() if np.isfinite(score)]
        values = {f: Value(value=own[f]) if np.isfinite(own[f]) else missing("all saw a difference") for f in families}
        values["map"] = (
            Value(value=float(np.mean(finite)), n=len(finite)) if finite else missing("all saw a difference")
        )
        table_rows.append(Row(label=metric, values=values))
    table_rows.sort(key=lambda row: -_number(row, "map"))
    return [
        Table(
            id="jnd",
            title="Just noticeable differences",
            caption="Are pairs in which people saw no difference the nearest? Average precision by family, and mean.",
            entry="metric",
            columns=tuple(columns),
            rows=tuple(table_rows),
            ranked_by="map",
        )
    ]


def both_tests(rows: Columns, choices: Columns) -> dict[str, tuple[float, float]]:
    """Return metric -> (2AFC agreement with people, JND mAP), for metrics that met both tests."""
    asked = choices["ceiling"] < 1
    found = {}
    for metric, own in jnd_scores(rows).items():
        here = asked & (choices["metric"] == metric)
        finite = [score for score in own.values() if np.isfinite(score)]
        if here.any() and finite:
            found[metric] = (float(choices["agreement"][here].mean()), float(np.mean(finite)))
    return found


def _tests_together(rows: Columns, choices: Columns) -> list[Table]:
    """Return whether the two perceptual tests rank metrics alike: figure 5."""
    found = both_tests(rows, choices)
    if len(found) < 3:
        return []
    pairs, values = np.array(list(found.values())), {}
    for key, method in (("rho", "spearman"), ("r", "pearson")):
        try:
            result = correlate(pairs[:, 0], pairs[:, 1], method)
            values[key] = Value(value=result.value, n=result.n)
        except NotTestable as error:
            values[key] = missing(error)
    columns = (
        ColumnSpec(key="rho", label="Spearman", description="Of the metrics' 2AFC and JND scores."),
        ColumnSpec(key="r", label="Pearson", description="Of the metrics' 2AFC and JND scores."),
    )
    return [
        Table(
            id="tests",
            title="Do both tests rank metrics alike?",
            caption=f"Correlation of 2AFC agreement and JND mAP over {len(found)} metrics.",
            entry="tests",
            columns=columns,
            rows=(Row(label="2AFC and JND", values=values),),
        )
    ]


def _opinions(rows: Columns) -> list[Table]:
    judged = ~np.isnan(rows["mos"]) & np.isnan(rows["same"]) & (rows["proxy"].astype(str) == "")
    judged &= rows["name"] != rows["reference"]
    if not judged.any():
        return []
    sets = np.unique(rows["dataset"][judged])
    columns = tuple(
        ColumnSpec(key=str(d), label=str(d), better="higher", description=f"Spearman correlation with opinions, {d}.")
        for d in sets
    )
    table_rows = [
        Row(
            label=str(metric),
            values={
                str(d): _rho(rows, judged & (rows["metric"] == metric) & (rows["dataset"] == d), "mos", -1)
                for d in sets
            },
        )
        for metric in np.unique(rows["metric"][judged])
    ]
    table_rows.sort(key=lambda row: -_number(row, str(sets[0])))
    return [
        Table(
            id="opinions",
            title="SROCC with opinion scores, by size",
            caption="Spearman correlation of minus the distance with the mean opinion score.",
            entry="metric",
            columns=columns,
            rows=tuple(table_rows),
            ranked_by=str(sets[0]),
        )
    ]


def _attacked(rows: Columns) -> Table:
    """How far a distance is moved, in units of itself, and how many forced choices a moved alternative 0 still wins."""
    radii = np.unique(rows["radius"])
    columns = []
    for radius in radii:
        text = f"Mean of (d' - d) over mean d, attack within {radius}/255."
        columns.append(
            ColumnSpec(key=f"moved-{radius}", label=f"moved at {radius}/255", better="lower", description=text)
        )
        text = f"Share of forced choices that stay right when the nearer image is attacked within {radius}/255."
        columns.append(
            ColumnSpec(key=f"right-{radius}", label=f"right at {radius}/255", better="higher", description=text)
        )
    table_rows = []
    for metric in np.unique(rows["metric"]):
        values: dict[str, Value] = {}
        for radius in radii:
            here = {
                name: values_[(rows["metric"] == metric) & (rows["radius"] == radius)] for name, values_ in rows.items()
            }
            values[f"moved-{radius}"] = mean_value(_moved(here))
            values[f"right-{radius}"] = mean_value(_still_right(here))
        table_rows.append(Row(label=str(metric), values=values))
    last = f"moved-{radii[-1]}"
    table_rows.sort(key=lambda row: np.inf if row.values[last].value is None else row.values[last].value)
    return Table(
        id="attacked",
        title="Distances under attack",
        caption="An attack pushes a distorted image away from its reference inside a small ball: how far does the "
        "distance move, as a multiple of the mean distance, and does the milder of two distortions still look nearer? "
        "PSNR counts downwards from infinity and has no natural unit; read its second column.",
        entry="metric",
        columns=tuple(columns),
        rows=tuple(table_rows),
        ranked_by=last,
    )


def _moved(rows: Columns) -> np.ndarray:
    return (rows["after"] - rows["before"]) / max(float(np.abs(rows["before"]).mean()), 1e-12)


def _still_right(rows: Columns) -> np.ndarray:
    place = _joined(rows, ("dataset", "attack", "reference", "family"), np.arange(len(rows["name"])))
    order = np.lexsort((rows["severity"], place))
    place, severity = place[order], rows["severity"][order]
    pairs = (place[1:] == place[:-1]) & (severity[1:] == severity[:-1] + 1)
    moved, untouched = rows["after"][order][:-1][pairs], rows["before"][order][1:][pairs]
    return (moved < untouched) + 0.5 * (moved == untouched)
