"""The tables of the track: models by leakage, the cost of defenses, and the agreement of metrics with people."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from imharness.leaderboard import (
    Blocks,
    Chart,
    Column,
    Example,
    Panel,
    Table,
    Value,
    Wins,
    mean_value,
    missing,
    ranking,
)
from imharness.tracks import Query, TrackReport
from imharness_reconstruction.agreement import (
    RANKINGS,
    Study,
    agreement_table,
    comparison_table,
    matrix_table,
    slug,
)
from imharness_reconstruction.convergence import SHARE
from imharness_reconstruction.metrics.semsim import EACH, UNSEEN
from imharness_reconstruction.positive_control import uncontrolled
from imharness_reconstruction.ranked import ENOUGH, ranked_models
from imharness_reconstruction.recognition import CLASSIFIER, CONDITION, RECOGNISED, beside_people, verdicts
from imharness_reconstruction.resolution import PSNR, RESOLVED, limit_of
from imharness_reconstruction.scores import BASELINE, TRAINED
from imharness_reconstruction.studied import studied
from imharness_reconstruction.threats import MAIN, Case, case_of_attack
from imharness_reconstruction.units import of_source, repeated

COMMON = "Mean over held-out images and the models that were trained under every defense."
NOTES = {
    TRAINED: "Trained models: another image may have nearly the same gradient, so one that matches it need not be the "
    "private image.",
    "as initialised": "Models as initialised: the first round of federated learning, in which gradients reveal most.",
}
NO_COMMON = "there is no image on which the attack converged for every ranked model"


def report(query: Query, share: float = 0.05) -> TrackReport:
    """Return every table for which there are results; a winner may cost at most `share` of the undefended accuracy."""
    if "leakage" not in query.steps:
        return TrackReport()
    scores = leakages(query)
    cases = case_of_attack(query)
    measured = [c for c, condition in enumerate(scores.conditions) if condition["metric"] != CLASSIFIER]
    settings = _settings(_as_stored(query, scores.subset(measured)), cases)
    combined = TrackReport()
    for number, setting in enumerate(settings):
        combined += _ranking(setting, number == 0, cases.get(setting.conditions[0]["attack"], MAIN))
    studies, agreements = _with_control(query, scores, studies_of(scores)), []
    if studies:
        matrices = [matrix_table(study, ranking) for ranking in RANKINGS for study in studies]
        compared = [comparison_table(study) for study in studies if not study.uncontrolled]
        agreements = [agreement_table(studies), *matrices, *compared]
    main, *others = combined.tables
    return ranked_models(query, share) + TrackReport(
        tables=[main, *agreements, *studied(query), *_cost(query), *others],
        comparisons=combined.comparisons,
        charts=_charts(main),
        examples=_examples(query),
    )


def leakages(query: Query) -> Blocks:
    """Return the scores of every protected model by data set, attack, state and metric, one for each private image.

    A metric of whole sets has one number instead (`whole`), and `RECOGNISED` takes a metric's place where somebody
    judged (`who`). `closeness` is 1 where a larger number means closer, -1 where a smaller one does. `source` is the
    photograph or image that an image was taken from. `state` says whether the models are trained. The measure
    `converged` is 1 where the attack converged, 0 where it did not, and NaN where that is not known; `loss` is its
    matching loss. PSNR counts as at most `RESOLVED`. Networks of SemSim that each measured the data set which its
    training left out are one metric, and so is what a judge recognises where people were asked (`CLASSIFIER`).
    """
    columns = query("SELECT column_name FROM information_schema.columns WHERE table_name = 'reconstruct'")[
        "column_name"
    ]
    loss = "loss" if "loss" in columns else "NULL AS loss"
    facts = f"SELECT {CONDITION}, name, source, state, converged, {loss} FROM reconstruct"
    if not {"converged", "state"} <= set(columns):
        nothing = "name AS source, '' AS state, NULL AS converged, NULL AS loss"
        facts = f"SELECT DISTINCT {CONDITION}, name, {nothing} FROM leakage"
    selects = [f"SELECT {CONDITION}, metric, name, score, closeness, false AS whole, '' AS who FROM leakage"]
    if "distribution" in query.steps:
        selects.append(f"SELECT {CONDITION}, metric, '', score, closeness, true, '' FROM distribution")
    if votes := verdicts(query):
        selects.append(f"SELECT {CONDITION}, '{RECOGNISED}', name, score, 1, false, who FROM ({votes})")
    if judged := beside_people(query):
        selects.append(f"SELECT {CONDITION}, metric, name, score, 1, false, '' FROM ({judged})")
    return query.blocks(
        f"WITH facts AS ({facts}), states AS (SELECT DISTINCT {CONDITION}, state FROM facts) "
        f"SELECT rows.* EXCLUDE (score, metric), regexp_replace(metric, '{UNSEEN}', '{EACH}') AS metric, state, "
        " CAST(converged AS DOUBLE) AS converged, CAST(loss AS DOUBLE) AS loss, "
        f"CASE WHEN metric = '{PSNR}' AND NOT isnan(score) THEN least(score, {RESOLVED}) ELSE score END AS score, "
        "model || ' + ' || defense AS entry, dataset || ' ' || name AS image, "
        "dataset || ' ' || COALESCE(source, name) AS source "
        f"FROM ({' UNION ALL '.join(selects)}) AS rows JOIN states USING ({CONDITION}) "
        f"LEFT JOIN (SELECT * EXCLUDE (state) FROM facts) USING ({CONDITION}, name)",
        entry="entry",
        by=["dataset", "attack", "state", "metric"],
        unit="image",
        measures=["score", "converged", "loss"],
        about=["closeness", "whole", "who", "source"],
    )


def studies_of(scores: Blocks) -> list[Study]:
    """Return one study for each data set, attack and state that enough models met."""
    judged = [dict(condition) for condition in scores.conditions if condition["metric"] == RECOGNISED]
    places = [
        scores.where(**{name: condition[name] for name in ("dataset", "attack", "state")}) for condition in judged
    ]
    studies = [Study.of(scores.subset(indices)) for indices in places]
    return [study for study in studies if study is not None]


def _with_control(query: Query, scores: Blocks, studies: Iterable[Study]) -> list[Study]:
    """Return the studies, each with `uncontrolled`: why its attack rebuilds no more than the mean image does.

    The distance of the mean image is known only if the step ``guess`` was run.
    """
    guesses: dict[str, float] = {}
    if "guess" in query.steps:
        rows = query(f"SELECT dataset || ' ' || name AS image, score FROM guess WHERE metric = '{PSNR}'")
        guesses = dict(zip(map(str, rows["image"]), map(float, rows["score"]), strict=True))
    return [
        replace(study, uncontrolled=uncontrolled(scores.subset(_places(scores, study)), guesses)) for study in studies
    ]


def _places(scores: Blocks, study: Study) -> list[int]:
    """Return the indices of the conditions of a study in `scores`."""
    return [
        c
        for c, condition in enumerate(scores.conditions)
        if (condition["dataset"], condition["attack"], condition.get("state", ""))
        == (study.dataset, study.attack, study.state)
    ]


def _settings(scores: Blocks, cases: Mapping[str, Case]) -> list[Blocks]:
    """Return the scores of each attack and state.

    Models as initialised come first, then the main threat model, then settings that most models met.
    """
    keys = sorted({(condition["state"], condition["attack"]) for condition in scores.conditions})
    settings = [scores.subset(scores.where(state=state, attack=attack)) for state, attack in keys]

    def order_of(setting: Blocks) -> tuple[bool, bool, int]:
        condition = setting.conditions[0]
        return condition["state"] == TRAINED, cases.get(condition["attack"], MAIN) != MAIN, -len(setting.entries)

    return sorted(settings, key=order_of)


def _as_stored(query: Query, scores: Blocks) -> Blocks:
    """Return the same scores with images in the order of their data set.

    The rankings draw their resamples in this order. It is read from the rows of one task of each data set; images
    without a row there come last.
    """
    first = "SELECT min(task) FROM leakage_tasks GROUP BY dataset"
    images = query(f"SELECT dataset || ' ' || name AS image FROM leakage WHERE task IN ({first})")["image"]
    positions = {image: i for i, image in enumerate(images)}
    orders = [
        np.argsort([positions.get(image, len(positions)) for image in units], kind="stable") for units in scores.units
    ]

    def ordered(blocks: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return the blocks, of which the last axis is images, in the new order."""
        return tuple(block[..., order] for block, order in zip(blocks, orders, strict=True))

    return Blocks(
        scores.entries,
        scores.conditions,
        ordered(scores.units),
        {name: ordered(blocks) for name, blocks in scores.values.items()},
        {name: ordered(facts) for name, facts in scores.about.items()},
    )


def _ranking(scores: Blocks, first: bool, case: Case) -> TrackReport:
    """Return the models of one attack and state by leakage, over images on which the attack converged for all."""
    attack, state = scores.conditions[0]["attack"], scores.conditions[0]["state"]
    converged, reasons = _converged(scores)
    metrics = sorted(
        {condition["metric"]: c for c, condition in enumerate(converged.conditions)}.items(),
        key=lambda m: _order(converged, *m),
    )
    several = " Data sets are pooled." if len({condition["dataset"] for condition in scores.conditions}) > 1 else ""
    ranked = ranking(
        converged,
        *(_column(converged, metric, c, reasons, "models" if first else "", case.shared) for metric, c in metrics),
        *_convergence(scores, case.shared),
        id="models" if first else f"models-{slug(attack.partition('/')[2] + (state and f'-{state}'))}",
        title=f"Protected models by leakage, {attack.partition('/')[2]}{state and f', {state}'}",
        caption="Study table (SemSim, section 3): means over private images under one attack. A row is a classifier "
        "with a defense of the gradient or of the images. The further a reconstruction by "
        f"{attack} stays from the private image, the better. Threat model: {case.threat}; shared is the {case.shared}. "
        "A model is not ranked if the attack converged for less "
        "than half of the images: a failed attack says nothing about the defense. All others are compared on the same "
        "n private images, those on which the attack converged for every model. Metrics of whole sets take all "
        f"reconstructions. Intervals resample what the images were taken from.{several}",
        entry="protected model",
        note=NOTES.get(state, ""),
    )
    return ranked


def _order(scores: Blocks, metric: str, condition: int) -> tuple[bool, bool, bool, str]:
    """Return the sort key of a metric: PSNR, other metrics of single images, metrics of whole sets, recognition."""
    return metric == RECOGNISED, bool(scores.about["whole"][condition][0]), metric != PSNR, metric


def _converged(scores: Blocks) -> tuple[Blocks, dict[str, str]]:
    """Return the scores with a further measure, `common`, and entry -> why the entry is not ranked.

    `common` is the score of a ranked entry on an image on which the attack converged for all ranked entries, and NaN
    elsewhere.
    """
    reasons, count = {}, _inversions(scores)
    for entry, done in zip(scores.entries, count, strict=True):
        if len(done) and done.mean() < ENOUGH:
            reasons[entry] = f"not ranked: the attack converged for {int(done.sum())} of {len(done)} images"
    left_out = np.array([entry in reasons for entry in scores.entries])
    common = tuple(
        np.where(((converged == 0) & ~left_out[:, None]).any(axis=0) | left_out[:, None], np.nan, block)
        for block, converged in zip(scores.values["score"], scores.values["converged"], strict=True)
    )
    return replace(scores, values={**scores.values, "common": common}), reasons


def _single(scores: Blocks) -> list[int]:
    """Return the conditions whose numbers are of single images."""
    return [c for c in range(len(scores.conditions)) if not scores.about["whole"][c][0]]


def _inversions(scores: Blocks) -> list[np.ndarray]:
    """Return for each entry whether the attack converged on each private image, 1 or 0."""
    return [scores.once("converged", entry, _single(scores)) for entry in scores.entries]


def _convergence(scores: Blocks, shared: str) -> list[Column]:
    """Return the columns of convergence and matching loss; `shared`: what participants share, in words."""
    texts = {
        "converged": "Share of the private images on which the attack converged: the reconstruction explains the "
        f"shared gradient as well as the images behind it do, up to {SHARE:.0%} of a grey image's distance, and is "
        "nearer to them than to grey.",
        "loss": "Matching loss: one minus the cosine of the shared gradient and that of the reconstruction, over what "
        "pruning left; mean over the private images.",
    }
    columns, chosen = [], _single(scores)

    def mean(entry: str, measure: str) -> Value:
        numbers, sources = scores.once_by("source", measure, entry, chosen)
        return mean_value(numbers, repeated(sources))

    for measure, text in texts.items():
        decimals, label = (2, measure) if measure == "converged" else (4, "matching loss")
        value = partial(mean, measure=measure)
        columns.append(Column(measure, label, text, decimals=decimals, value=value, **of_source(scores, shared)))
    return columns


def _column(scores: Blocks, metric: str, condition: int, reasons: Mapping[str, str], table: str, shared: str) -> Column:
    """Return the column of a metric.

    Args:
        scores: with the measure `common`, see `_converged`.
        metric: its id, or `RECOGNISED`.
        condition: the index of one of its conditions.
        reasons: entry -> why it is not ranked.
        table: the id of the table, if it has a chart of pairwise wins for each metric; else "".
        shared: what participants share, in words.
    """
    where, recognised = {"metric": metric}, metric == RECOGNISED
    text = f"Mean {metric} between reconstruction and private image."
    if recognised:
        who = sorted({scores.about["who"][c][0] for c in scores.where(metric=metric)})
        text = f"Share of reconstructions that are recognised; {', '.join(who)}."
    label = metric if recognised else metric.partition("/")[2]
    better: Literal["higher", "lower"] = "lower" if scores.about["closeness"][condition][0] > 0 else "higher"
    text += limit_of([metric])
    wins = None
    if table and not recognised and not scores.about["whole"][condition][0]:
        title = f"Which protected model leaks less, by {label}"
        about = "reconstructions less close to the private images"
        wins = Wins(f"{table}-{slug(label)}", title, about, unit="private image")
    chosen = scores.where(**where)

    def cell(entry: str) -> Value:
        if entry in reasons:
            return missing(reasons[entry])
        numbers, sources = scores.once_by("source", "common", entry, chosen)
        if not len(numbers) and len(scores.once("score", entry, chosen)):
            return missing(NO_COMMON)
        return mean_value(numbers, repeated(sources))

    fields = of_source(scores, shared)
    return Column(metric, label, text, better, of="common", where=where, wins=wins, value=cell, **fields)


def _cost(query: Query) -> list[Table]:
    """Return the cost of each defense: test accuracy with it and without it, over the same held-out images."""
    if "train" not in query.steps:
        return []
    source = "source" if "source" in query("SELECT * FROM train LIMIT 0") else "name"
    right = query.blocks(
        f'SELECT dataset, model, defense, name, {source} AS source, CAST("right" AS DOUBLE) AS accuracy FROM train',
        entry="defense",
        by=["dataset", "model"],
        measures=["accuracy"],
        about=["source"],
    )
    cost = Column("cost", "cost", f"Accuracy without a defense minus accuracy with it. {COMMON}", "lower")
    accuracy = right.values["accuracy"]
    common = tuple(np.where(np.isnan(block).all(axis=1).any(), np.nan, block) for block in accuracy)
    lost = tuple(np.full_like(block, np.nan) for block in accuracy)
    if BASELINE in right.entries:
        plain = right.entries.index(BASELINE)
        lost = tuple(block[plain] - block for block in common)
    else:
        cost = replace(cost, value=lambda defense: missing("no undefended model was trained"))
    right = replace(right, values={"accuracy": accuracy, "common": common, "cost": lost})
    report = ranking(
        right,
        Column("accuracy", "test accuracy", COMMON, "higher", of="common", **of_source(right)),
        replace(cost, **of_source(right)),
        *(replace(_accuracy(**condition), **of_source(right)) for condition in right.conditions),
        id="cost",
        title="What a defense costs",
        caption="Accuracy on held-out images of classifiers that were trained under the defense.",
        entry="defense",
    )
    return [*report.tables]


def _accuracy(dataset: str, model: str) -> Column:
    both, where = f"{dataset} {model}", {"dataset": dataset, "model": model}
    label = model.partition("/")[2]
    return Column(both, label, f"Test accuracy, {both}.", "higher", of="accuracy", where=where)


def _charts(main: Table) -> list[Chart]:
    """Return a chart of each metric against recognition, where there are judgements."""
    metrics = [column for column in main.columns if column.key not in (RECOGNISED, "converged", "loss")]
    if RECOGNISED not in {column.key for column in main.columns}:
        return []
    return [
        Chart(
            id=f"recognition-{metric.label}",
            title=f"{metric.label} against recognition",
            kind="scatter",
            table=main.id,
            x=metric.key,
            y=RECOGNISED,
            caption=f"Each point is a protected model: its leakage by {metric.label}, and the share that is recognised."
            f"{limit_of([metric.key])}",
        )
        for metric in metrics
    ]


CAPTION = (
    "A private image, and what an attack rebuilt of it from the gradient that was shared, with its PSNR: the higher, "
    "the more is given away. Each image has the attack that rebuilds it best."
)


def _examples(query: Query) -> list[Example]:
    """Return the first private images, each with the reconstruction that shows most of it by PSNR."""
    if "gallery" not in query.steps:
        return []
    rows = query(
        "SELECT dataset, position, name, g.task AS private, r.task AS rebuilt, attack, "
        "model || ' + ' || defense AS entry, score "
        f"FROM gallery g JOIN reconstruct_tasks r USING (dataset) JOIN leakage USING ({CONDITION}, name) "
        f"WHERE metric = '{PSNR}' QUALIFY row_number() OVER (PARTITION BY dataset, name, entry "
        "ORDER BY score DESC, attack, rebuilt) = 1 ORDER BY ALL"
    )
    examples = []
    for i in range(len(rows["entry"])):
        private, rebuilt, position = rows["private"][i], rows["rebuilt"][i], int(rows["position"][i])
        score = f"{min(rows['score'][i], RESOLVED):.1f} dB"
        panels = (
            Panel(label="private", task=private, array="images", position=position),
            Panel(label="rebuilt", task=rebuilt, array="images", position=position, score=score),
        )
        facets = {"dataset": rows["dataset"][i], "attack": rows["attack"][i]}
        entry, title = rows["entry"][i], rows["name"][i]
        examples.append(Example(entry=entry, title=title, facets=facets, panels=panels, caption=CAPTION))
    return examples
