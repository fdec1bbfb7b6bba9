"""Tables of the track: protected models by leakage, what defenses cost, and which metric ranks models as people do."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from imharness.tracks import (
    Blocks,
    Chart,
    Column,
    Example,
    PairedScores,
    Panel,
    Query,
    Table,
    TrackReport,
    missing,
    ranking,
)
from imharness_reconstruction.agreement import (
    RECOGNISED,
    Study,
    agreement_table,
    comparison_table,
    matrix_table,
    slug,
)

BASELINE = "harness/plain-gradient"
FIRST = "harness/psnr"
CELL = "dataset, attack, model, defense"
PEOPLE, PROXY = "people", "proxy: top-1 of a classifier, not people"


def report(query: Query) -> TrackReport:
    """Return every table there are results for."""
    if "leakage" not in query.steps:
        return TrackReport()
    scores = leakages(query)
    attacks = _by_attack(_as_stored(query, scores))
    main, *others = [
        _ranking(part, attack, f"models-{slug(attack.partition('/')[2])}" if number else "models")
        for number, (attack, part) in enumerate(attacks.items())
    ]
    studies, agreements = studies_of(scores), []
    if studies:
        agreements = [agreement_table(studies), *map(matrix_table, studies), *map(comparison_table, studies)]
    return TrackReport(
        tables=[main, *agreements, *_cost(query), *others],
        comparisons=[_comparison(scores)],
        charts=_charts(main),
        examples=_examples(query, next(iter(attacks))),
    )


def leakages(query: Query) -> Blocks:
    """Return the scores of every protected model by data set, attack and metric, one for each private image.

    A metric of whole sets has one number in place of those (`whole`), and `RECOGNISED` stands for a metric where
    somebody judged (`who`). `closeness` is 1 where a larger number means closer, -1 where a smaller one does.
    """
    parts = [f"SELECT {CELL}, metric, name, score, closeness, false AS whole, '' AS who FROM leakage"]
    if "distribution" in query.steps:
        parts.append(f"SELECT {CELL}, metric, '', score, closeness, true, '' FROM distribution")
    if votes := verdicts(query):
        parts.append(f"SELECT {CELL}, '{RECOGNISED}', name, score, 1, false, who FROM ({votes})")
    return query.blocks(
        "SELECT *, model || ' + ' || defense AS entry, dataset || ' ' || name AS image "
        f"FROM ({' UNION ALL '.join(parts)}) SEMI JOIN leakage USING ({CELL})",
        entry="entry",
        by=["dataset", "attack", "metric"],
        unit="image",
        about=["closeness", "whole", "who"],
    )


def verdicts(query: Query) -> str:
    """Return a SELECT of what was recognised: `score` is 1 for recognised and `who` says so; "" if nobody was asked.

    People decide on every data set and attack they were asked about, the judge on the others.
    """
    columns = f"SELECT {CELL}, name, CAST(recognised AS DOUBLE) AS score"
    people, judge = "", ""
    if "external" in query.steps:
        given = set(query("SELECT * FROM external LIMIT 0"))
        if {"recognised", "attack", "model", "defense"} <= given:
            people = f"{columns}, '{PEOPLE}' AS who FROM external"
    if "recognise" in query.steps:
        judge = f"{columns}, '{PROXY}' AS who FROM recognise"
    if people and judge:
        return f"{people} UNION ALL {judge} ANTI JOIN external USING (dataset, attack)"
    return people or judge


def studies_of(scores: Blocks) -> list[Study]:
    """Return one study for each data set and attack that enough models met."""
    judged = [own for own in scores.conditions if own["metric"] == RECOGNISED]
    found = [Study.of(scores.part(scores.where(dataset=own["dataset"], attack=own["attack"]))) for own in judged]
    return [study for study in found if study is not None]


def _by_attack(scores: Blocks) -> dict[str, Blocks]:
    """Return the scores of each attack, the attack that most protected models met first."""
    names = sorted({own["attack"] for own in scores.conditions})
    parts = {name: scores.part(scores.where(attack=name)) for name in names}
    return dict(sorted(parts.items(), key=lambda part: -len(part[1].entries)))


def _as_stored(query: Query, scores: Blocks) -> Blocks:
    """Return the same with images in the order of the data set, in which the intervals of the rankings are drawn."""
    first = "SELECT min(task) FROM leakage_tasks GROUP BY dataset"
    images = query(f"SELECT dataset || ' ' || name AS image FROM leakage WHERE task IN ({first})")["image"]
    place = {image: i for i, image in enumerate(images)}
    orders = [np.argsort([place.get(image, len(place)) for image in units], kind="stable") for units in scores.units]

    def ordered(blocks: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(block[..., order] for block, order in zip(blocks, orders, strict=True))

    return Blocks(
        scores.entries,
        scores.conditions,
        ordered(scores.units),
        {name: ordered(blocks) for name, blocks in scores.values.items()},
        {name: ordered(facts) for name, facts in scores.about.items()},
    )


def _ranking(scores: Blocks, attack: str, id: str) -> Table:
    places = {own["metric"]: c for c, own in enumerate(scores.conditions)}
    whole = {metric: bool(scores.about["whole"][c][0]) for metric, c in places.items()}
    metrics = sorted(places, key=lambda m: (m == RECOGNISED, whole[m], m != FIRST, m))
    several = " Data sets are pooled." if len({own["dataset"] for own in scores.conditions}) > 1 else ""
    found = ranking(
        scores,
        *(_column(scores, metric, places[metric]) for metric in metrics),
        id=id,
        title=f"Protected models by leakage, {attack.partition('/')[2]}",
        caption="A row is a classifier with a defense of the gradient or of the images; the less close a "
        f"reconstruction by {attack} comes, the better. n is the number of private images.{several}",
        entry="protected model",
    )
    return found.tables[0]


def _column(scores: Blocks, metric: str, condition: int) -> Column:
    where = {"metric": metric}
    if metric == RECOGNISED:
        who = sorted({scores.about["who"][c][0] for c in scores.where(metric=metric)})
        text = f"Share of reconstructions that are recognised; {', '.join(who)}."
        return Column(metric, metric, text, "lower", of="score", where=where)
    text = f"Mean {metric} between reconstruction and private image."
    better = "lower" if scores.about["closeness"][condition][0] > 0 else "higher"
    return Column(metric, metric.partition("/")[2], text, better, of="score", where=where)


def _cost(query: Query) -> list[Table]:
    """Return what a defense costs: test accuracy with it and without, over the same held-out images."""
    if "train" not in query.steps:
        return []
    right = query.blocks(
        'SELECT dataset, model, defense, name, CAST("right" AS DOUBLE) AS accuracy FROM train',
        entry="defense",
        by=["dataset", "model"],
        measures=["accuracy"],
    )
    cost = Column("cost", "cost", "Accuracy without a defense minus accuracy with it.", "lower")
    if BASELINE in right.entries:
        accuracy, plain = right.values["accuracy"], right.entries.index(BASELINE)
        lost = tuple(block[plain] - block for block in accuracy)
        right = Blocks(right.entries, right.conditions, right.units, {"accuracy": accuracy, "cost": lost})
    else:
        cost = replace(cost, value=lambda defense: missing("no undefended model was trained"))
    found = ranking(
        right,
        Column("accuracy", "test accuracy", "Over models and held-out images.", "higher"),
        cost,
        *(_accuracy(**own) for own in right.conditions),
        id="cost",
        title="What a defense costs",
        caption="Accuracy on held-out images of classifiers that were trained under the defense.",
        entry="defense",
    )
    return [*found.tables]


def _accuracy(dataset: str, model: str) -> Column:
    both, where = f"{dataset} {model}", {"dataset": dataset, "model": model}
    return Column(both, model.partition("/")[2], f"Test accuracy, {both}.", "higher", of="accuracy", where=where)


def _comparison(scores: Blocks) -> PairedScores:
    """Compare protected models by what each metric says of each private image."""
    image_by_image = [
        c for c, own in enumerate(scores.conditions) if own["metric"] != RECOGNISED and not scores.about["whole"][c][0]
    ]
    rows = scores.part(image_by_image)
    turned = [block * sign[0] for block, sign in zip(rows.values["score"], rows.about["closeness"], strict=True)]
    return PairedScores(
        id="model-wins",
        title="Which protected model leaks less",
        about="reconstructions less close to the private images",
        entry="protected model",
        measure="closeness",
        description="How close the reconstruction comes, in the unit of the metric, turned so that more is closer.",
        better="lower",
        entries=rows.entries,
        conditions=rows.conditions,
        units=tuple(map(tuple, rows.units)),
        values=tuple(block.astype(np.float32) for block in turned),
        unit="private image",
    )


def _charts(main: Table) -> list[Chart]:
    """Draw each metric against recognition, where somebody recognised."""
    metrics = [column for column in main.columns if column.key != RECOGNISED]
    if len(metrics) == len(main.columns):
        return []
    return [
        Chart(
            id=f"recognition-{metric.label}", title=f"{metric.label} against recognition", kind="scatter",
            table=main.id, x=metric.key, y=RECOGNISED,
            caption="Each point is a protected model: what the metric says leaks, and what is recognised.",
        )
        for metric in metrics
    ]  # fmt: skip


def _examples(query: Query, attack: str) -> list[Example]:
    """Show the first private images beside what an attack made of them."""
    if "gallery" not in query.steps:
        return []
    rows = query(
        "SELECT dataset, position, name, g.task AS private, r.task AS rebuilt, attack, "
        "model || ' + ' || defense AS entry, score "
        f"FROM gallery g JOIN reconstruct_tasks r USING (dataset) JOIN leakage USING ({CELL}, name) "
        f"WHERE metric = '{FIRST}' ORDER BY ALL"
    )
    found = []
    for i in np.flatnonzero(rows["attack"] == attack):
        private, rebuilt, position = rows["private"][i], rows["rebuilt"][i], int(rows["position"][i])
        score = f"{rows['score'][i]:.1f} dB"
        shown = (
            Panel(label="private", task=private, array="images", position=position),
            Panel(label="rebuilt", task=rebuilt, array="images", position=position, score=score),
        )
        facets = {"dataset": rows["dataset"][i], "attack": attack}
        found.append(Example(entry=rows["entry"][i], title=rows["name"][i], facets=facets, panels=shown))
    return found
