"""Tables of the track: forced choices, noticeable differences, opinion scores, and distances under attack."""

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.leaderboard import (
    Blocks,
    Chart,
    Column,
    ColumnSpec,
    Interval,
    NotTestable,
    Row,
    Series,
    Table,
    Value,
    Wins,
    correlate,
    interval,
    missing,
    ranked,
    ranking,
    spearman_rows,
    value_of,
)
from imharness.tracks import Query, TrackReport
from imharness_perceptual.attacked import attacked, followed_own
from imharness_perceptual.choices import distances, facts, forced_choices, on_ladder
from imharness_perceptual.families import FamilyNumbers, mean_of_families, numbers_by_family, repeated
from imharness_perceptual.ranked import ranked_metrics
from imharness_perceptual.reversed_judgements import SCORES, SHARES, said_of_choices, said_of_ranks
from imharness_perceptual.verdicts import another_person, average_precision, ceiling, majority

CEILING, ANOTHER, MAJORITY = "people", "another person", "majority of people"
"""The labels of rows for people: one of the judges, somebody who was not asked, and the majority of judges."""
Numbers = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Three arrays ``(n,)`` over images: a metric's distance, a fact about the image, and the image's photograph."""


def report(query: Query, share: float = 0.05) -> TrackReport:
    """Return every table for which there are results; the first ranks metrics by forced choices under attack.

    Without an attack, a winner may agree less than the best metric by a `share`.
    """
    if "distance" not in query.steps:
        return TrackReport()
    images = distances(query)
    choices = forced_choices(images)
    has_choices = any(map(len, choices.units))
    result = TrackReport()
    if has_choices:
        result = ranked_metrics(query, choices, share) + _agreement(query, images, choices)
    tables = [*_noticeable(images), *_tests_together(images, choices), *_opinions(images)]
    if followed_own(query):
        tables.append(attacked(query))
    return result + TrackReport(tables, [], _both_chart(images, choices) if has_choices else [])


def _distances_and(images: Blocks, metric: str, masks: Sequence[np.ndarray], fact: str) -> Numbers:
    """Return a metric's distances of the images in `masks`, one mask for each data set, a fact, and the photographs."""
    row = images.entries.index(metric)
    distances, values, photographs = [], [], []
    for c, mask in enumerate(masks):
        of_dataset = images.values["distance"][c][row]
        selected = mask & ~np.isnan(of_dataset)
        distances.append(of_dataset[selected])
        values.append(images.about[fact][c][selected])
        photographs.append(images.about["photograph"][c][selected])
    return np.concatenate(distances), np.concatenate(values), np.concatenate(photographs)


def _agreement(query: Query, images: Blocks, choices: Blocks) -> TrackReport:
    """Return the table of agreement on forced choices without attacks: of metrics, and of people where they judged."""
    families = sorted({condition["distortion"] for condition in choices.conditions})
    human = any((judges != 0).any() for judges in choices.about["judges"])
    ladder = [on_ladder(facts(images, c)) for c in range(len(images.conditions))]
    on_a_ladder = any(mask.any() for mask in ladder)
    wins = Wins(
        "metric-wins",
        "Which metric agrees more",
        "more forced choices right",
        measure="agreement",
        description="Share of judges with whom the metric agrees; every choice has the same weight.",
        unit="forced choice",
    )
    each = {"cluster": "photograph", "unit": wins.unit}
    text = "Share of judges with whom the metric agrees, mean of the families; 0.5 is chance."

    def agreed(metric: str) -> Value:
        return mean_of_families(numbers_by_family(choices, metric, families))

    columns = [Column("all", "2AFC agreement", text, "higher", value=agreed, wins=wins, **each)]
    if on_a_ladder:
        columns.append(
            Column(
                "srcc",
                "SROCC with severity",
                "Spearman correlation of distance and severity over all families.",
                "higher",
                value=lambda metric: _rho(*_distances_and(images, metric, ladder, "severity")),
                unit="image",
                cluster_unit="photograph",
            )
        )
    if "ms" in query("SELECT * FROM distance LIMIT 0"):
        columns.append(_time(query))
    for family in families:
        text, only = f"2AFC agreement on {family}.", {"distortion": family}
        columns.append(Column(family, family, text, "higher", of="all", where=only, **each))
    sentences = [
        "Study table (LPIPS, table 5 and figure 4), without attacks. ",
        "Of two distorted images, which is nearer to the reference? The score is the share of judges with whom a "
        "metric agrees, averaged over families. ",
        "People: one of the judges who were asked; another person: somebody who was not asked; majority: the most "
        "that a distance can reach. "
        if human
        else "",
        "On a ladder the two are neighbouring severities of one distortion of one photograph." if on_a_ladder else "",
    ]
    return ranking(
        choices,
        *columns,
        id="agreement",
        title="Agreement on forced choices",
        caption="".join(sentences),
        entry="metric",
        by=["all", "srcc"] if on_a_ladder else ["all"],
        note=" ".join([*(["Severity order, not human judgement."] if on_a_ladder else []), *said_of_choices(choices)]),
        chart="Share of judges with whom each metric agrees, mean of the families; 0.5 is chance.",
        last=_people(choices, families) if human else (),
    )


def _time(query: Query) -> Column:
    columns = query("SELECT metric, avg(ms) AS ms FROM distance_tasks GROUP BY metric")
    ms = dict(zip(columns["metric"], columns["ms"], strict=True))
    text = "Milliseconds for one pair of images on the machine of the run, mean over the data sets."
    return Column("ms", "ms per pair", text, "lower", 1, value=lambda metric: Value(value=float(ms[metric])))


def _people(choices: Blocks, families: Sequence[str]) -> list[Row]:
    """Return the agreement of people among themselves, where people were asked about every choice of a family."""
    titles = {
        CEILING: "Agreement of one judge with all who were asked: p^2 + (1 - p)^2",
        ANOTHER: "Agreement of a person who was not asked, estimated by two different judges",
        MAJORITY: "The most that a distance can reach: it chooses as the majority does",
    }
    rows = []
    for label, title in titles.items():
        by_family: dict[str, FamilyNumbers] = {}
        for family in families:
            judge, judges, photographs = (
                np.concatenate([choices.about[name][c] for c in choices.where(distortion=family)])
                for name in ("judge", "judges", "photograph")
            )
            if label == CEILING:
                agreement = ceiling(judge)
            elif label == ANOTHER:
                agreement = another_person(judge, judges)
            else:
                agreement = majority(judge)
            if (judges == 0).any() or np.isnan(agreement).any():  # then the family has no number
                agreement, photographs = agreement[:0], photographs[:0]
            by_family[family] = (agreement, photographs)
        values = {family: mean_of_families({family: numbers}) for family, numbers in by_family.items()}
        rows.append(Row(label=label, title=title, values={**values, "all": mean_of_families(by_family)}))
    return rows


def _rho(distance: np.ndarray, fact: np.ndarray, photographs: np.ndarray) -> Value:
    """Return the Spearman correlation of distances and a fact, with an interval that resamples photographs."""
    try:
        estimate: Interval = interval(
            lambda chosen: spearman_rows(distance[chosen], fact[chosen]),
            len(distance),
            repeated(photographs),
            limits=(-1.0, 1.0),
        )
    except NotTestable as error:
        return missing(error)
    return value_of(estimate)


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
            caption="Forced choices against just noticeable differences: do both tests give metrics the same order?",
        )
    ]


def _noticeable(images: Blocks) -> list[Table]:
    """Return the table of just noticeable differences, if people were asked about them."""
    judged = _compared_by_people(images)
    if not judged:
        return []
    texts = {"map": "Mean of the families."} | {family: f"Average precision on {family}." for family in judged}
    columns = [
        ColumnSpec(
            key=key,
            label="JND mAP" if key == "map" else key,
            better="higher",
            description=text,
            unit="pair of images",
            cluster_unit="photograph",
        )
        for key, text in texts.items()
    ]
    rows = []
    for metric in images.entries:
        values = {family: _precision(images, metric, {family: masks}) for family, masks in judged.items()}
        rows.append(Row(label=metric, values={"map": _precision(images, metric, judged), **values}))
    return [
        Table(
            id="jnd",
            title="Just noticeable differences",
            caption="Study table (LPIPS, section 4): are the pairs without a visible difference the nearest? Average "
            "precision by family, and mean.",
            entry="metric",
            columns=tuple(columns),
            rows=tuple(ranked(rows, columns[0])),
            ranked_by="map",
            note=_said_of_noticed(images, judged),
        )
    ]


def _said_of_noticed(images: Blocks, judged: Mapping[str, Sequence[np.ndarray]]) -> str:
    """Return a sentence for each data set whose shares of people contradict every distance; `judged`: as tested."""
    sentences = []
    for c, condition in enumerate(images.conditions):
        mask = np.logical_or.reduce([masks[c] for masks in judged.values()])
        sentences.append(_said_of(images, c, mask, "same", f"The shares of {condition['dataset']}", SHARES))
    return " ".join(filter(None, sentences))


def _said_of(images: Blocks, c: int, mask: np.ndarray, fact: str, judgements: str, meaning: str) -> str:
    """Return a sentence if judgements of the images of condition `c` in `mask` contradict every distance."""
    masks = [mask if k == c else np.zeros(len(units), bool) for k, units in enumerate(images.units)]
    measured = {metric: _distances_and(images, metric, masks, fact)[:2] for metric in images.entries}
    return said_of_ranks(judgements, measured, meaning)


def _compared_by_people(images: Blocks) -> dict[str, list[np.ndarray]]:
    """Return family -> a mask for each data set of the images that people compared with their reference."""
    names, judged = [], []
    for c in range(len(images.conditions)):
        image_facts = facts(images, c)
        names.append(image_facts["family"])
        judged.append(~np.isnan(image_facts["same"]) & (image_facts["name"] != image_facts["reference"]))
    families = sorted(
        {str(family) for of_images, mask in zip(names, judged, strict=True) for family in of_images[mask]}
    )
    return {
        family: [mask & (of_images == family) for of_images, mask in zip(names, judged, strict=True)]
        for family in families
    }


def _precision(images: Blocks, metric: str, families: Mapping[str, Sequence[np.ndarray]]) -> Value:
    """Return the mean over families of the average precision of "no difference"; `families`: family -> its masks."""
    measured = [_distances_and(images, metric, masks, "same") for masks in families.values()]
    for family, (distance, same, _) in zip(families, measured, strict=True):
        if not len(distance):
            return missing(f"no number on {family}")
        if not same.any():
            return missing(f"everybody saw a difference on {family}")
    distance, same, photographs = (np.concatenate(values) for values in zip(*measured, strict=True))
    family = np.repeat(np.arange(len(measured)), [len(distances) for distances, *_ in measured])

    def mean(chosen: np.ndarray) -> np.ndarray:
        precisions = [
            average_precision(distance[chosen], same[chosen], family[chosen] == number)
            for number in range(len(measured))
        ]
        return np.mean(precisions, axis=0)

    return value_of(interval(mean, len(distance), repeated(photographs), limits=(0.0, 1.0)))


def both_tests(images: Blocks, choices: Blocks) -> dict[str, tuple[float, float]]:
    """Return metric -> (2AFC agreement with people, JND mAP), means over the families of both tests (figure 5)."""
    judged = {
        condition["distortion"]
        for condition, judges in zip(choices.conditions, choices.about["judges"], strict=True)
        if (judges != 0).all()
    }
    in_both = {family: masks for family, masks in _compared_by_people(images).items() if family in judged}
    results: dict[str, tuple[float, float]] = {}
    for metric in images.entries if in_both else ():
        agreed = mean_of_families(numbers_by_family(choices, metric, list(in_both)))
        noticed = _precision(images, metric, in_both)
        if agreed.value is not None and noticed.value is not None:
            results[metric] = (agreed.value, noticed.value)
    return results


def _tests_together(images: Blocks, choices: Blocks) -> list[Table]:
    """Return the correlation of the two perceptual tests over metrics: figure 5."""
    results = both_tests(images, choices)
    if len(results) < 3:
        return []
    pairs, values = np.array(list(results.values())), {}
    for key, method in (("rho", "spearman"), ("r", "pearson")):
        try:
            result = correlate(pairs[:, 0], pairs[:, 1], method)
            values[key] = Value(value=result.value, n=result.n)
        except NotTestable as error:
            values[key] = missing(error)
    columns = (
        ColumnSpec(
            key="rho", label="Spearman", description="Spearman correlation of the metrics' 2AFC and JND scores."
        ),
        ColumnSpec(key="r", label="Pearson", description="Pearson correlation of the metrics' 2AFC and JND scores."),
    )
    return [
        Table(
            id="tests",
            title="Do both tests give metrics the same order?",
            caption="Study table (LPIPS, figure 5): correlation of 2AFC agreement and JND mAP over "
            f"{len(results)} metrics.",
            entry="tests",
            columns=columns,
            rows=(Row(label="2AFC and JND", values=values),),
        )
    ]


def _opinions(images: Blocks) -> list[Table]:
    """Return the table of correlations with opinion scores, if a data set has scores that people gave."""
    judged, doubts = {}, []
    for c, condition in enumerate(images.conditions):
        image_facts = facts(images, c)
        mask = ~np.isnan(image_facts["mos"]) & np.isnan(image_facts["same"]) & (image_facts["proxy"].astype(str) == "")
        mask &= image_facts["name"] != image_facts["reference"]
        if mask.any():
            others = [np.zeros(len(units), bool) for units in images.units]
            judged[condition["dataset"]] = [*others[:c], mask, *others[c + 1 :]]
            doubts.append(_said_of(images, c, mask, "mos", f"The opinions of {condition['dataset']}", SCORES))
    if not judged:
        return []
    columns = tuple(
        ColumnSpec(
            key=dataset,
            label=dataset,
            better="higher",
            description=f"Spearman correlation with opinions, {dataset}.",
            unit="image",
            cluster_unit="photograph",
        )
        for dataset in judged
    )
    rows = []
    for metric in images.entries:
        values = {dataset: _with_opinions(images, metric, masks) for dataset, masks in judged.items()}
        rows.append(Row(label=metric, values=values))
    return [
        Table(
            id="opinions",
            title="SROCC with opinion scores, by data set",
            caption="Study table: Spearman correlation of minus the distance with the mean opinion score.",
            entry="metric",
            columns=columns,
            rows=tuple(ranked(rows, columns[0])),
            ranked_by=columns[0].key,
            note=" ".join(filter(None, doubts)),
        )
    ]


def _with_opinions(images: Blocks, metric: str, masks: Sequence[np.ndarray]) -> Value:
    distance, mos, photographs = _distances_and(images, metric, masks, "mos")
    return _rho(distance, -mos, photographs)
