"""Ranks protected models by leakage: for each image, the strongest attack that converged counts.

An entry is a model with a defense. Its leakage is how close a reconstruction comes, by PSNR, and whether the private
image is recognised; its utility is test accuracy. A model is attacked as trained and as initialised, because gradients
are shared from the first round of training on. An attack that did not converge says nothing about a defense, so for
each private image the strongest attack that did converge counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from imharness.leaderboard import (
    Blocks,
    Chart,
    Column,
    ColumnSpec,
    Contest,
    Row,
    SecondaryMeasure,
    Table,
    Value,
    Wins,
    Words,
    common,
    contest,
    contributions,
    controls_of,
    flags_of,
    mean_value,
    missing,
    own_among,
    ranked,
    share_of,
)
from imharness.tracks import Query, TrackReport
from imharness_reconstruction.models.saved_classifier import ARCHITECTURES
from imharness_reconstruction.models.untrained import Untrained
from imharness_reconstruction.positive_control import with_positive_control
from imharness_reconstruction.recognition import RECOGNISED, instead_of_people, instead_of_photographs, judges_of
from imharness_reconstruction.resolution import PSNR, limit_of
from imharness_reconstruction.scores import BASELINE, FLOOR, UNAWARE, scores_of
from imharness_reconstruction.threats import Case, by_threat, cases_of, of_the_rest
from imharness_reconstruction.units import of_source, repeated

ENOUGH = 0.5
"""The smallest share of the images for which some attack must converge for a model to be ranked."""
ID = "ranking"
SECONDARY = (RECOGNISED, "harness/semsim", PSNR)
"""The metrics by which a winner has to be better as well, whichever metric ranks. They are fixed here, so that nobody
chooses them on a leaderboard."""
SURVIVING = re.compile(r"\[surviving=[^,\]]*\]|surviving=[^,\]]*,|,surviving=[^,\]]*")
"""The setting of an attack that says whether it knows the defense; without it, two labels are the same attack."""


def measure(metrics: Sequence[str]) -> str:
    """Return the metric of single images that ranks: PSNR if it was measured, else the first of the harness's metrics.

    The metric is fixed, and not the one that agrees best with people: on the ranked reconstructions, such a choice
    would follow chance. Other packages' metrics rank only if no metric of the harness was measured.
    """
    candidates = own_among(metrics)
    return PSNR if PSNR in candidates else min(candidates)


def words_of(metric: str, better: str) -> Words:
    """Return how headlines speak of what attacks rebuild by a metric; `better`: "lower" or "higher" scores."""
    limit = "takes more than {bound} off" if better == "lower" else "adds more than {bound} to"
    limit += " the {plain} {of} {without}"
    if metric == PSNR:
        return Words(lead="leaks least", amount=lambda x: f"{x:.1f} dB", of="PSNR rebuilt", limit=limit)
    return Words(lead="leaks least", amount=lambda x: f"{x:.2f}", of=_short(metric), limit=limit)


def _secondary(rules: Contest) -> SecondaryMeasure:
    """Return the measure of a contest as a secondary one of another contest."""
    protection = rules.protection
    assert protection.wins is not None
    wins = replace(
        protection.wins,
        id=f"{protection.wins.id}-{protection.label}",
        title=f"{protection.wins.title}, by {protection.label}",
    )
    return SecondaryMeasure(rules.scores.subset(rules.settings), replace(protection, wins=wins))


def ranked_models(query: Query, share: float) -> TrackReport:
    """Return a ranking for each case, that is each threat model and kind of update, the main one first.

    The main ranking has a chart and a table of every metric on the same reconstructions. If there are several rankings,
    a table compares what attacks rebuild in each case.
    """
    kinds = query("SELECT DISTINCT metric, closeness FROM leakage ORDER BY metric")
    closeness = dict(zip(kinds["metric"], kinds["closeness"], strict=True))
    right = _right(query)
    accuracy = _accuracies(right)
    main, *others = cases_of(query)
    combined, rules = _ranked(query, share, closeness, right, accuracy, main)
    front = Chart(
        id="protection-utility",
        title="Leakage against test accuracy",
        kind="scatter",
        table=ID,
        x="utility",
        y="worst",
        front=True,
        caption="Test accuracy of each model, and how close the strongest attack comes.",
    )
    every_metric = {**closeness, **({RECOGNISED: 1} if judges_of(query) else {})}
    by_metric = _by_metric(query, rules, every_metric, accuracy)
    combined += TrackReport([by_metric], charts=[front] if accuracy else [])
    rules_by_case = {main: rules}
    for case in others:
        if not accuracy or {*scores_of(query, measure(list(closeness)), case).entries} & {*accuracy}:
            case_report, rules_by_case[case] = _ranked(query, share, closeness, right, accuracy, case)
            combined += case_report
    return combined + (TrackReport([by_threat(query, rules_by_case)]) if len(rules_by_case) > 1 else TrackReport())


def _ranked(
    query: Query,
    share: float,
    closeness: Mapping[str, int],
    right: Blocks | None,
    accuracy: Mapping[str, Value],
    case: Case,
) -> tuple[TrackReport, Contest]:
    """Return the ranking of one case, and its contest.

    `closeness`: metric -> 1 if more means closer, else -1. `right`: which held-out images each model classifies right.
    """
    main, chosen = case == cases_of(query)[0], measure(list(closeness))
    ending = "" if main else "-" + re.sub("[^a-z0-9]+", "-", case.title.lower()).strip("-")
    who = judges_of(query)
    closeness = {**closeness, **({RECOGNISED: 1} if who else {})}
    rules = _rules(query, chosen, closeness[chosen], accuracy, share, case, right, ending)
    label = rules.protection.label
    rules = replace(
        rules,
        proxies=(*instead_of_people(who, _short(chosen)), *instead_of_photographs(query)),
        secondary_measures=[
            _secondary(_rules(query, metric, closeness[metric], accuracy, share, case, ending=ending))
            for metric in SECONDARY
            if metric in closeness and metric != chosen
        ],
    )
    rules = with_positive_control(rules)
    contest_report = contest(
        rules,
        id=ID + ending,
        title="Protected models by what the strongest attack rebuilds" + ("" if main else f", {case.title}"),
        caption=f"Threat model: {case.threat}; shared is the {case.shared}.{of_the_rest(query, case)} "
        "A row is a model with a defense. For each private image the closest reconstruction counts, over the "
        "attacks that converged and over the model as trained and as initialised; the less close, the better. "
        f"Closeness is {label}. A winner is better by {_also(rules)} too; these are the same on every leaderboard. "
        "The gate is the test accuracy of the best undefended model, whatever its architecture. Attackers who know the "
        "defense match only the non-zero coordinates if most are 0, as after pruning. The columns by "
        "attacker are means over the attacks and states that each model met, which "
        "may differ. The mean image is a guess without any gradient: where no attack on an undefended model beats it, "
        "no defense is judged. "
        "Means are over the n images on which an attack converged. A rank counts the models that are ahead, each by "
        "the mean difference over the images of both; no test decides it. So a model can be placed behind another one "
        "whose mean, over other images, is worse."
        f"{limit_of([chosen])}",
        entry="protected model",
        note=_absent(query, rules) if main else "",
    )
    (ranking,) = contest_report.rankings
    if FLOOR in ranking.places:
        met_nothing = ranking.places[FLOOR].model_copy(update={"broken_by": {}})
        ranking = ranking.model_copy(update={"places": {**ranking.places, FLOOR: met_nothing}})
    return replace(contest_report, rankings=[ranking]), rules


def _short(metric: str) -> str:
    """Return a metric's name for readers."""
    return f"share {RECOGNISED}" if metric == RECOGNISED else metric.rpartition("/")[2]


def _also(rules: Contest) -> str:
    """Return the secondary measures in words."""
    return " and ".join(secondary.protection.label for secondary in rules.secondary_measures) or "no secondary measure"


def _rules(
    query: Query,
    metric: str,
    closeness: int,
    accuracy: Mapping[str, Value],
    share: float,
    case: Case,
    right: Blocks | None = None,
    ending: str = "",
) -> Contest:
    """Return the contest of protected models by one metric in one case."""
    scores, unknown = _common_settings(scores_of(query, metric, case), accuracy)
    plain = [entry for entry in scores.entries if entry.endswith(f" + {BASELINE}")]
    best = max(
        own_among(plain),
        key=lambda e: (accuracy.get(e, Value()).number_or(-np.inf), e),
        default=f"a model with {BASELINE}",
    )
    better = "lower" if closeness > 0 else "higher"
    unit = "private image"
    protection = Column(
        "score",
        _short(metric),
        "How many private images are recognised from what the attack rebuilds, as a share."
        if metric == RECOGNISED
        else f"How close the attack comes to the private image, by the {_short(metric)} between the two.",
        better,
        3,
        wins=Wins(
            f"protection-wins{ending}",
            "Which protected model leaks less" + (f", {case.title}" if ending else ""),
            "reconstructions less close",
            unit=unit,
        ),
        **of_source(scores, case.shared),
    )
    utility = Column(
        "utility",
        "test accuracy",
        "Share of held-out images that the protected model classifies right.",
        "higher",
        unit="held-out image",
        value=lambda entry: accuracy.get(entry, missing("not trained in this run")),
        **(of_source(right) if right is not None else {}),
    )
    return Contest(
        scores,
        protection,
        utility,
        best,
        words_of(metric, better),
        over=("attack", "attacker", "state"),
        unaware=UNAWARE,
        share=share,
        controls=_never_crowned(query, scores.entries, accuracy),
        flags=flags_of(query, scores.entries),
        references=frozenset({FLOOR}),
        gates=(
            share_of(
                utility.label,
                best,
                share,
                lambda entry: _accuracy_contributions(right, entry, best),
                among=len(plain),
                answers=True,
            ),
        )
        if right is not None
        else (),
        alike=lambda condition: (
            *(condition[name] for name in ("dataset", "state")),
            SURVIVING.sub("", condition["attack"]),
        ),
        unknown=unknown,
        met="failed",
    )


def _common_settings(scores: Blocks, accuracy: Mapping[str, Value]) -> tuple[Blocks, dict[str, str]]:
    """Return the scores in the settings that count, with the models that were attacked there, and why others lack one.

    The settings that count are those that most models met (see `common`); if there is none, the one that the largest
    share of models met. If models were trained, they decide which settings count, and of the models that were not
    trained only undefended ones remain. The second result is entry -> why it has no number.
    """
    # 1. The models that remain, and those that decide.
    plain = f" + {BASELINE}"
    remains = np.array([entry in accuracy or entry == FLOOR or entry.endswith(plain) for entry in scores.entries])
    decides = np.array([entry in accuracy for entry in scores.entries])
    if not decides.any():
        remains, decides = np.ones(len(remains), bool), np.array([entry != FLOOR for entry in scores.entries])
    # 2. The settings that count: `met` says of each whether a deciding model met it, ``(settings, models)``.
    met = np.array([~np.isnan(block[decides]).all(axis=1) for block in scores.values["failed"]])
    names = [entry for entry, deciding in zip(scores.entries, decides, strict=True) if deciding]
    settings = np.flatnonzero(common(names, met)).tolist()
    settings = settings or [int(met[:, np.isin(names, own_among(names))].mean(axis=1).argmax())]
    remaining = {
        name: tuple(np.where(remains[:, None], block, np.nan) for block in blocks)
        for name, blocks in scores.values.items()
    }
    scores = replace(scores, values=remaining).subset(settings)
    # 3. Models on too few of whose images an attack converged have no number.
    unknown = {}
    for row, entry in enumerate(scores.entries):
        converged, _ = _converged(scores, row)
        if converged.mean() < ENOUGH:
            unknown[entry] = f"attacks converged for {int(converged.sum())} of {len(converged)} images only"
    is_unknown = np.array([entry in unknown for entry in scores.entries])[:, None]
    masked = tuple(np.where(is_unknown, np.nan, block) for block in scores.values["score"])
    return replace(scores, values={**scores.values, "score": masked}), unknown


def _converged(scores: Blocks, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for each attacked private image of an entry 1 if any attack converged, else 0, and the image's source."""
    failed = np.concatenate([block[row] for block in scores.values["failed"]])
    units, sources = np.concatenate(scores.units).astype(str), np.concatenate(scores.about["source"])
    attacked = ~np.isnan(failed)
    names, first, unit_index = np.unique(units[attacked], return_index=True, return_inverse=True)
    converged = np.zeros(len(names))
    np.maximum.at(converged, unit_index, 1 - failed[attacked])
    return converged, sources[attacked][first]


def _accuracy_contributions(right: Blocks, entry: str, plain: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what each photograph adds to the test accuracy of a model and of an undefended one, ``(photographs,)``.

    Both are on the images of the undefended model; None if the model lacks one of them.
    """
    if not {entry, plain} <= set(right.entries):
        return None
    rows = [right.entries.index(entry), right.entries.index(plain)]
    numbers = np.concatenate([block[rows] for block in right.values["accuracy"]], axis=1)
    defined = ~np.isnan(numbers[1])
    sources = np.concatenate([right.clusters("source", c) for c in range(len(right.conditions))]).astype(str)
    if not defined.any() or np.isnan(numbers[0, defined]).any():
        return None
    of_entry, of_plain = contributions(numbers[:, defined], sources[defined])
    return of_entry, of_plain


def _right(query: Query) -> Blocks | None:
    """Return 1 for each held-out image that a protected model classifies right, else 0; None where none was trained."""
    if "train" not in query.steps:
        return None
    source = "source" if "source" in query("SELECT * FROM train LIMIT 0") else "name"
    return query.blocks(
        f"SELECT dataset, dataset || ' ' || name AS image, dataset || ' ' || {source} AS source, "
        "model || ' + ' || defense AS entry, CAST(\"right\" AS DOUBLE) AS accuracy FROM train",
        entry="entry",
        by=["dataset"],
        unit="image",
        measures=["accuracy"],
        about=["source"],
    )


def _accuracies(right: Blocks | None) -> dict[str, Value]:
    """Return the test accuracy of every protected model that was trained."""
    if right is None:
        return {}
    accuracies = {entry: right.once_by("source", "accuracy", entry) for entry in right.entries}
    return {entry: mean_value(numbers, repeated(sources)) for entry, (numbers, sources) in accuracies.items()}


def _never_crowned(query: Query, entries: Sequence[str], accuracy: Mapping[str, Value]) -> dict[str, str]:
    """Return the entries that can never win, each with the reason."""
    reasons = {FLOOR: "no gradient"} if FLOOR in entries else {}
    marked = controls_of(query)
    for entry in entries:
        model, _, defense = entry.partition(" + ")
        if entry != FLOOR and entry not in accuracy and accuracy:
            reasons[entry] = "an untrained network"
        elif defense == BASELINE:
            reasons[entry] = "no defense"
        elif defense in marked or model in marked:
            reasons[entry] = marked.get(defense) or marked[model]
    return reasons


def _absent(query: Query, rules: Contest) -> str:
    """Return a sentence that names the protected models that are only in the study tables; "" if there are none."""
    models = set(query("SELECT DISTINCT model FROM leakage")["model"])
    ranked_models = {entry.partition(" + ")[0] for entry in rules.scores.entries}
    trained = {Untrained(architecture=name).label: network.label for name, network in ARCHITECTURES.items()}
    absent = sorted(model for model in models if model not in ranked_models and trained.get(model) not in ranked_models)
    return f"Only in the study tables, because they met other attacks: {', '.join(absent)}." if absent else ""


def _by_metric(query: Query, rules: Contest, closeness: Mapping[str, int], accuracy: Mapping[str, Value]) -> Table:
    """Return the table of the same reconstructions by every metric, with the share on which an attack converged."""
    columns, values = [], {entry: dict[str, Value]() for entry in rules.scores.entries}
    for metric in sorted(closeness, key=lambda m: (m != PSNR, m)):
        metric_rules = _rules(query, metric, closeness[metric], accuracy, rules.share, cases_of(query)[0])
        columns.append(replace(metric_rules.protection, key=metric).spec)
        worst = metric_rules.worst
        measured = dict(zip(metric_rules.scores.entries, worst, strict=True))
        for entry, row in values.items():
            reason = metric_rules.unknown.get(entry, "" if entry in measured else "not measured")
            row[metric] = missing(reason) if reason else metric_rules.mean(metric_rules.sign * measured[entry])
    columns.append(
        ColumnSpec(
            key="converged",
            label="converged",
            decimals=2,
            unit="private image",
            cluster_unit=of_source(rules.scores).get("cluster_unit", ""),
            description="Share of the private images for which at least one attack converged.",
        )
    )
    for index, (entry, row) in enumerate(values.items()):
        converged, sources = _converged(rules.scores, index)
        row["converged"] = missing("no gradient") if entry == FLOOR else mean_value(converged, repeated(sources))
    rows = [Row(label=entry, values=row) for entry, row in values.items()]
    return Table(
        id="worst-by-metric",
        title="What the strongest attack rebuilds, by metric",
        caption="The same private images and attacks as in the ranking. Each metric has its own strongest attack for "
        f"each image.{limit_of(list(closeness))}",
        entry="protected model",
        columns=tuple(columns),
        rows=tuple(ranked(rows, columns[0])),
        ranked_by=columns[0].key,
    )
