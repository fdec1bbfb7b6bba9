"""Tables of the track: forced choices, noticeable differences, opinion scores, and distances under attack."""

from collections.abc import Sequence

import numpy as np

from imharness.stats import Interval, NotTestable, correlate, interval, spearman_rows
from imharness.tracks import (
    Blocks,
    Chart,
    Column,
    ColumnSpec,
    Query,
    Row,
    Series,
    Table,
    TrackReport,
    Value,
    Wins,
    mean_value,
    missing,
    ranked,
    ranking,
    value_of,
)
from imharness_perceptual.verdicts import average_precision, ceiling, credit

CEILING = "people"
FACTS = ["name", "reference", "family", "severity", "group", "choice", "judge", "same", "mos", "proxy"]
Numbers = tuple[np.ndarray, np.ndarray]
"""The distances of one metric, and a fact of the images they belong to."""


def report(query: Query) -> TrackReport:
    """Return every table there are results for; the first ranks metrics by forced choices."""
    if "distance" not in query.steps:
        return TrackReport()
    images = distances(query)
    choices = forced_choices(images)
    asked = any(map(len, choices.units))
    found = _agreement(images, choices) if asked else TrackReport()
    tables = [*_noticeable(images), *_tests_together(images, choices), *_opinions(images)]
    if "attack" in query.steps:
        tables.append(_attacked(query))
    return found + TrackReport(tables, [], _both_chart(images, choices) if asked else [])


def distances(query: Query) -> Blocks:
    """Return d(x, reference) of every metric on every image, by data set."""
    sql = "SELECT * FROM distance"
    return query.blocks(sql, entry="metric", by=["dataset"], measures=["distance"], about=FACTS)


def forced_choices(images: Blocks) -> Blocks:
    """Return who is right about each forced choice, and how far a person agrees with the others.

    Judged choices stand in the data; on a ladder, neighbouring severities of one distortion make one, with the milder
    alternative 0 always nearer.
    """
    found = []
    for pairs in (_judged, _neighbours):
        for c, own in enumerate(images.conditions):
            facts = {name: images.about[name][c] for name in FACTS}
            first, second, units, judge = pairs(facts)
            block = images.values["distance"][c]
            right = credit(block[:, first], block[:, second], judge)
            right = np.where(np.isnan(block[:, first] + block[:, second]), np.nan, right)
            names = np.array([f"{own['dataset']} {unit}" for unit in units], dtype=object)
            found.append((own, names, right, facts["family"][first], ceiling(judge)))
    found = [part for part in found if len(part[1])]
    return Blocks(
        images.entries,
        tuple(own for own, *_ in found),
        tuple(names for _, names, *_ in found),
        {"all": tuple(right for _, _, right, _, _ in found)},
        {"family": tuple(part[3] for part in found), "ceiling": tuple(part[4] for part in found)},
    )


def _judged(facts: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the positions of both alternatives, a name, and the share of judges that found 1 nearer."""
    mine = np.flatnonzero(facts["group"].astype(str) != "")
    group = facts["group"][mine].astype(str)
    order = np.lexsort((facts["choice"][mine], group))
    mine, group = mine[order], group[order]
    both = group[1:] == group[:-1]
    return mine[:-1][both], mine[1:][both], group[:-1][both], facts["judge"][mine[:-1][both]]


def _neighbours(facts: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Join every image with the next severity of the same distortion of the same reference."""
    mine = np.flatnonzero(_on_ladder(facts))
    first, second, place = _steps(facts["reference"][mine], facts["family"][mine], facts["severity"][mine])
    units = np.array([f"{p} {s}" for p, s in zip(place, facts["severity"][mine[second]], strict=True)], dtype=str)
    return mine[first], mine[second], units, np.zeros(len(first))


def _steps(reference: np.ndarray, family: np.ndarray, severity: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the positions of neighbouring severities, and which distortion of which reference they belong to."""
    place = np.array([f"{r} {f}" for r, f in zip(reference, family, strict=True)], dtype=str)
    order = np.lexsort((severity, place))
    place, severity = place[order], severity[order]
    next_to = (place[1:] == place[:-1]) & (severity[1:] == severity[:-1] + 1)
    return order[:-1][next_to], order[1:][next_to], place[1:][next_to]


def _on_ladder(facts: dict[str, np.ndarray]) -> np.ndarray:
    """Return where the order of severities is all that is known: nobody gave an opinion or chose."""
    nobody = np.isnan(facts["mos"]) | (facts["proxy"].astype(str) != "")
    return (facts["severity"] > 0) & nobody & (facts["group"].astype(str) == "")


def _facts(images: Blocks, c: int) -> dict[str, np.ndarray]:
    return {name: images.about[name][c] for name in FACTS}


def _beside(images: Blocks, metric: str, masks: Sequence[np.ndarray], fact: str) -> Numbers:
    """Return a metric's distances of some images of each data set, and a fact of the same images."""
    row, found = images.entries.index(metric), ([], [])
    for c, mask in enumerate(masks):
        own = images.values["distance"][c][row]
        kept = mask & ~np.isnan(own)
        found[0].append(own[kept])
        found[1].append(images.about[fact][c][kept])
    return np.concatenate(found[0]), np.concatenate(found[1])


def _agreement(images: Blocks, choices: Blocks) -> TrackReport:
    split = choices.split("family", "distortion")
    families = sorted({own["distortion"] for own in split.conditions})
    human = any((known < 1).any() for known in choices.about["ceiling"])
    ladder = [_on_ladder(_facts(images, c)) for c in range(len(images.conditions))]
    on_ladder = any(mask.any() for mask in ladder)
    wins = Wins(
        "metric-wins",
        "Which metric agrees more",
        "more forced choices right",
        measure="agreement",
        description="Share of judges that the metric agrees with.",
        unit="forced choice",
    )
    text = "Share of judges agreed with; 0.5 is chance."
    columns = [
        Column("all", "2AFC agreement", text, "higher", value=lambda m: mean_value(choices.of("all", m)), wins=wins)
    ]
    if on_ladder:
        text = "Spearman correlation of distance and severity over all families."
        srcc = Column(
            "srcc", "SROCC with severity", text, "higher", value=lambda m: _rho(*_beside(images, m, ladder, "severity"))
        )
        columns.append(srcc)
    for family in families:
        columns.append(
            Column(family, family, f"2AFC agreement on {family}.", "higher", of="all", where={"distortion": family})
        )
    parts = [
        "Two distorted images, one reference: which is nearer? The credit is the share of judges that a metric agrees "
        "with. ",
        "People: one of the judges against the others. " if human else "",
        "On a ladder the two are neighbouring severities of one distortion of one photograph." if on_ladder else "",
    ]
    return ranking(
        split,
        *columns,
        id="agreement",
        title="Agreement on forced choices",
        caption="".join(parts),
        entry="metric",
        by=["all", "srcc"] if on_ladder else ["all"],
        note="Severity order, not human judgement." if on_ladder else "",
        chart="Share of judges that each metric agrees with; 0.5 is chance.",
        last=[_people(split, families, [c.key for c in columns])] if human else (),
    )


def _people(choices: Blocks, families: Sequence[str], keys: Sequence[str]) -> Row:
    """Return how far one judge agrees with the others, where more than one was asked and they did not all agree."""
    asked = [known[known < 1] for known in choices.about["ceiling"]]
    values = {key: missing("nobody was asked") for key in keys}
    values["all"] = mean_value(np.concatenate(asked))
    for family in families:
        here = np.concatenate([asked[c] for c in choices.where(distortion=family)])
        if len(here):
            values[family] = mean_value(here)
    return Row(label=CEILING, title="How far one judge agrees with the others", values=values)


def _rho(distance: np.ndarray, wanted: np.ndarray) -> Value:
    try:
        found: Interval = interval(lambda chosen: spearman_rows(distance[chosen], wanted[chosen]), len(distance))
    except NotTestable as error:
        return missing(error)
    return value_of(found)


def _both_chart(images: Blocks, choices: Blocks) -> list[Chart]:
    both = both_tests(images, choices)
    if len(both) < 3:
        return []
    return [
        Chart(
            id="tests",
            title="Two tests of a metric",
            kind="scatter",
            x_label="2AFC agreement",
            y_label="JND mAP",
            series=tuple(Series(label=metric, x=(score,), y=(jnd,)) for metric, (score, jnd) in both.items()),
            caption="Forced choices against just noticeable differences: do both tests rank metrics alike?",
        )
    ]


def jnd_scores(images: Blocks) -> dict[str, dict[str, float]]:
    """Return metric -> family -> average precision of "no difference"."""
    judged = [
        ~np.isnan(images.about["same"][c]) & (images.about["name"][c] != images.about["reference"][c])
        for c in range(len(images.conditions))
    ]
    families = sorted({str(f) for c, mask in enumerate(judged) for f in images.about["family"][c][mask]})
    found: dict[str, dict[str, float]] = {}
    for metric in images.entries:
        for family in families:
            here = [mask & (images.about["family"][c] == family) for c, mask in enumerate(judged)]
            distance, same = _beside(images, metric, here, "same")
            if len(distance):
                found.setdefault(metric, {})[family] = average_precision(distance, same)
    return found


def _noticeable(images: Blocks) -> list[Table]:
    scores = jnd_scores(images)
    if not scores:
        return []
    families = sorted({family for own in scores.values() for family in own})
    columns = [ColumnSpec(key="map", label="JND mAP", better="higher", description="Mean of the families.")]
    columns += [ColumnSpec(key=f, label=f, better="higher", description=f"Average precision on {f}.") for f in families]
    rows = []
    for metric, own in scores.items():
        finite = [score for score in own.values() if np.isfinite(score)]
        values = {f: _precision(own.get(f, np.nan)) for f in families}
        rows.append(Row(label=metric, values={**values, "map": _precision(np.mean(finite or [np.nan]), len(finite))}))
    return [
        Table(
            id="jnd",
            title="Just noticeable differences",
            caption="Are pairs in which people saw no difference the nearest? Average precision by family, and mean.",
            entry="metric",
            columns=tuple(columns),
            rows=tuple(ranked(rows, columns[0])),
            ranked_by="map",
        )
    ]


def _precision(score: float, n: int | None = None) -> Value:
    return Value(value=float(score), n=n) if np.isfinite(score) else missing("all saw a difference")


def both_tests(images: Blocks, choices: Blocks) -> dict[str, tuple[float, float]]:
    """Return metric -> (2AFC agreement with people, JND mAP), for metrics that met both tests."""
    found = {}
    for metric, own in jnd_scores(images).items():
        row = choices.entries.index(metric)
        here = [
            right[row][known < 1] for right, known in zip(choices.values["all"], choices.about["ceiling"], strict=True)
        ]
        agreed = np.concatenate([np.zeros(0), *here])
        agreed, finite = agreed[~np.isnan(agreed)], [score for score in own.values() if np.isfinite(score)]
        if len(agreed) and finite:
            found[metric] = (float(agreed.mean()), float(np.mean(finite)))
    return found


def _tests_together(images: Blocks, choices: Blocks) -> list[Table]:
    """Return whether the two perceptual tests rank metrics alike: figure 5."""
    found = both_tests(images, choices)
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


def _opinions(images: Blocks) -> list[Table]:
    judged = {}
    for c, own in enumerate(images.conditions):
        facts = _facts(images, c)
        mask = ~np.isnan(facts["mos"]) & np.isnan(facts["same"]) & (facts["proxy"].astype(str) == "")
        mask &= facts["name"] != facts["reference"]
        if mask.any():
            judged[own["dataset"]] = (c, mask)
    if not judged:
        return []
    columns = tuple(
        ColumnSpec(key=d, label=d, better="higher", description=f"Spearman correlation with opinions, {d}.")
        for d in judged
    )
    rows = [
        Row(label=metric, values={d: _with_opinions(images, metric, c, mask) for d, (c, mask) in judged.items()})
        for metric in images.entries
    ]
    return [
        Table(
            id="opinions",
            title="SROCC with opinion scores, by size",
            caption="Spearman correlation of minus the distance with the mean opinion score.",
            entry="metric",
            columns=columns,
            rows=tuple(ranked(rows, columns[0])),
            ranked_by=columns[0].key,
        )
    ]


def _with_opinions(images: Blocks, metric: str, c: int, mask: np.ndarray) -> Value:
    distance = images.values["distance"][c][images.entries.index(metric)]
    kept = mask & ~np.isnan(distance)
    return _rho(distance[kept], -images.about["mos"][c][kept])


def _attacked(query: Query) -> Table:
    """How far a distance is moved, in units of itself, and how many forced choices a moved alternative 0 still wins."""
    sql = "SELECT * FROM attack WHERE distorted"
    by, about = ["radius", "dataset", "attack"], ["reference", "family", "severity"]
    images = query.blocks(sql, entry="metric", by=by, measures=["before", "after"], about=about)
    tasks = query(f"SELECT metric, {', '.join(by)} FROM attack_tasks ORDER BY task")
    columns, values = [], {metric: {} for metric in images.entries}
    for radius in sorted({own["radius"] for own in images.conditions}, key=int):
        moved = ColumnSpec(
            key=f"moved-{radius}",
            label=f"moved at {radius}/255",
            better="lower",
            description=f"Mean of (d' - d) over mean d, attack within {radius}/255.",
        )
        right = ColumnSpec(
            key=f"right-{radius}",
            label=f"right at {radius}/255",
            better="higher",
            description="Share of forced choices that stay right when the nearer image is attacked within "
            f"{radius}/255.",
        )
        columns += [moved, right]
        for metric, own in values.items():
            asked = [
                {name: str(tasks[name][i]) for name in by}
                for i in np.flatnonzero((tasks["metric"] == metric) & (tasks["radius"].astype(str) == radius))
            ]
            places = [c for facets in asked for c in images.where(**facets)]
            own[moved.key] = mean_value(_moved(images, metric, places))
            own[right.key] = mean_value(_still_right(images, metric, sorted(places)))
    return Table(
        id="attacked",
        title="Distances under attack",
        caption="An attack pushes a distorted image away from its reference inside a small ball: how far does the "
        "distance move, as a multiple of the mean distance, and does the milder of two distortions still look nearer? "
        "PSNR counts downwards from infinity and has no natural unit; read its second column.",
        entry="metric",
        columns=tuple(columns),
        rows=tuple(ranked((Row(label=metric, values=own) for metric, own in values.items()), columns[-2])),
        ranked_by=columns[-2].key,
    )


def _moved(images: Blocks, metric: str, conditions: Sequence[int]) -> np.ndarray:
    before, after = (images.of(measure, metric, conditions) for measure in ("before", "after"))
    return (after - before) / max(float(np.abs(before).mean()), 1e-12)


def _still_right(images: Blocks, metric: str, conditions: Sequence[int]) -> np.ndarray:
    row, found = images.entries.index(metric), [np.zeros(0)]
    for c in conditions:
        first, second, _ = _steps(*(images.about[name][c] for name in ("reference", "family", "severity")))
        moved, untouched = images.values["after"][c][row, first], images.values["before"][c][row, second]
        found.append((moved < untouched) + 0.5 * (moved == untouched))
    return np.concatenate(found)
