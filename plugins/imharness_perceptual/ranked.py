"""Ranks distances by their agreement with people, without and under attack.

For every forced choice the worst outcome counts: on the untouched images, or with the alternative that people find
nearer pushed away within a ball that is the same for all metrics. Agreement is a share of the agreement of people
among themselves, and families of distortions have the same weight. The utility is the agreement on untouched images: a
metric that agrees much less there than the best one cannot win.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from imharness.errors import UsageError
from imharness.leaderboard import (
    ALPHA,
    FEWEST,
    Blocks,
    Chart,
    Column,
    Contest,
    Value,
    Wins,
    Words,
    clusters_greater,
    contest,
    contributions,
    controls_of,
    flags_of,
    own_among,
    share_of,
    with_evidence,
)
from imharness.tracks import Query, TrackReport
from imharness_perceptual.choices import attacked_distances, forced_choices
from imharness_perceptual.evidence import evidence_of
from imharness_perceptual.families import mean_of_families, parts_of
from imharness_perceptual.steps import OWN, QUERIES
from imharness_perceptual.verdicts import another_person, ceiling

ID = "ranking"
PLAIN = "harness/l2"
"""The metric that all are compared with: the plain distance of pixels."""
NOBODY, UNAWARE, AWARE = "none", "unaware", "aware"
LENT = " along the gradient of "
"""What the name of an attack says before the distance whose gradient it follows, if that is not the attacked one."""
BALL = re.compile(r"\b(alpha|radius|eps)=[^,\]]*,?")
CHANCE = 0.5
"""How often two coins agree."""
MARGIN = 0.1
"""How much further another attack has to move a metric to count, as a share of the movement."""


def ranked_metrics(query: Query, choices: Blocks, share: float) -> TrackReport:
    """Return the contest of metrics over their forced choices, as shares of the agreement of people."""
    reach = _reach(choices)
    untouched = _as_share(choices, reach)
    agreed = {metric: _agreed(untouched, metric) for metric in untouched.entries}
    best = max(own_among(agreed), key=lambda metric: (agreed[metric].number_or(-np.inf), metric))
    met = _as_share(_attacked(query), reach) if _is_attacked(query) else None
    scores = untouched_and_attacked(untouched, met) if met else _named(untouched, NOBODY, UNAWARE)
    human = any((judges != 0).any() for judges in choices.about["judges"])
    people = "people agree among themselves" if human else "there is to agree with"
    unit = {"cluster": "photograph", "unit": "forced choice"}
    protection = Column(
        "share",
        "agreement",
        "How often the metric picks the one of two distorted images that is nearer to the original. Agreement on "
        f"forced choices as a share of what {people}, mean of the families.",
        "higher",
        wins=Wins("protection-wins", "Which metric agrees more under attack", "more agreement", unit="forced choice"),
        **unit,
    )
    utility = Column(
        "utility",
        "agreement untouched",
        f"The same without an attack, over all choices, as a share of what {people}.",
        "higher",
        value=lambda metric: agreed[metric],
        **unit,
    )
    balls = sorted({condition["attack"] for condition in scores.conditions} - {NOBODY})
    rules = Contest(
        scores,
        protection,
        utility,
        best,
        share=share,
        unaware=UNAWARE,
        controls=controls_of(query, "metric"),
        flags=flags_of(query, scores.entries, _flags(query)),
        proxies=_proxies(query),
        balanced="distortion",
        alike=lambda condition: (condition["dataset"], condition["distortion"], condition["attack"].partition(LENT)[0]),
        gates=(
            share_of(
                utility.label,
                best,
                share,
                lambda metric: _beside(untouched, metric, best),
                among=len(untouched.entries),
            ),
        ),
        baseline=PLAIN,
        words=Words(
            "agrees best under attack" if balls else "agrees best",
            lambda share: f"{share:.2f}",
            f"of {'what people agree on' if human else 'the order of severities'}",
            "beats plain pixel distance by more than {bound}; that has {plain}",
            "for plain pixel distance",
            "for L2",
        ),
    )
    contest_report = contest(
        with_evidence(rules, list(evidence_of(query, lambda handed: _as_share(handed, reach)))),
        id=ID,
        title="Agreement on forced choices under attack",
        entry="metric",
        caption="Of two distorted images, which is nearer to the reference? A row is a metric; its agreement is the "
        f"share of judges with whom it agrees, as a share of what {people}: the agreement of two different judges "
        "where several were asked, and 1 where the order of severities decides. For each choice the worst outcome "
        "counts: untouched, or with the alternative that people find nearer pushed away by an attack on this metric, "
        "within the same ball for all: along the metric's gradient, along that of another distance, and by queries "
        "alone. The attack “none” means no attack; it counts for choices that no attack makes "
        "worse. Attackers along the gradient of another distance do not know the metric; those along its own, or with "
        "queries to it, do. Families of distortions have the same weight. The gate is the untouched agreement of the "
        "metric of the harness that agrees best. Pixel-wise distances and random weights are controls.",
        note=" ".join(
            filter(
                None,
                (
                    "" if balls else "No attack was run, so the agreement and its worst case are the same.",
                    _said_of_more(agreed),
                ),
            )
        ),
    )
    front = Chart(
        id="accuracy-robustness",
        title="Agreement untouched and under attack",
        kind="scatter",
        table=ID,
        x="utility",
        y="worst",
        front=True,
        caption="The agreement of each metric without an attack, and what is left of it under the worst attack.",
    )
    return contest_report + TrackReport(charts=[front])


def _agreed(untouched: Blocks, metric: str) -> Value:
    families = sorted({condition["distortion"] for condition in untouched.conditions})
    return mean_of_families(parts_of(untouched, metric, families, "share"))


def _beside(untouched: Blocks, metric: str, best: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what each photograph adds to the agreement of a metric and of the best one, mean over families."""
    rows = [untouched.entries.index(label) for label in (metric, best)]
    numbers = np.concatenate([block[rows] for block in untouched.values["share"]], axis=1)
    if np.isnan(numbers).any():
        return None
    families = np.concatenate(
        [
            np.full(len(u), condition["distortion"])
            for u, condition in zip(untouched.units, untouched.conditions, strict=True)
        ]
    )
    _, family_index, sizes = np.unique(families, return_inverse=True, return_counts=True)
    photographs = np.concatenate([untouched.clusters("photograph", c) for c in range(len(untouched.conditions))])
    entry_values, plain = contributions(
        numbers, photographs.astype(str), len(family_index) / len(sizes) / sizes[family_index]
    )
    return entry_values, plain


def _reach(choices: Blocks) -> dict[str, float]:
    """Return family -> the mean agreement of two different judges, or of one with all where too few were asked."""
    ceilings = {}
    for family in sorted({condition["distortion"] for condition in choices.conditions}):
        judge, judges = (
            np.concatenate([choices.about[name][c] for c in choices.where(distortion=family)])
            for name in ("judge", "judges")
        )
        two = another_person(judge, judges)
        ceilings[family] = float(np.where(np.isnan(two), ceiling(judge), two).mean())
        if ceilings[family] <= CHANCE:
            raise UsageError(
                f"two people agree on {ceilings[family]:.3f} of the choices of {family}, no more often than two "
                "coins, so "
                "that no metric's agreement is a share of theirs; ask more people, or leave these choices out."
            )
    return ceilings


def _said_of_more(agreed: Mapping[str, Value]) -> str:
    """Return a sentence on metrics that agree with people more often than people do, or "" without any."""
    more = sorted(metric for metric, value in agreed.items() if value.number_or(0) > 1)
    if not more:
        return ""
    return (
        f"Above 1, which is no error: {', '.join(more)}. A metric that chooses as most people do agrees with a person "
        "more often than another person does."
    )


def _as_share(choices: Blocks, reach: Mapping[str, float]) -> Blocks:
    blocks = zip(choices.conditions, choices.values["all"], strict=True)
    return replace(
        choices, values={"share": tuple(block / reach[condition["distortion"]] for condition, block in blocks)}
    )


def _named(choices: Blocks, attack: str, attacker: str) -> Blocks:
    facets = {"attack": attack, "attacker": attacker}
    facet_names = ("dataset", "distortion")
    conditions = tuple(
        {**{name: condition[name] for name in facet_names}, **facets} for condition in choices.conditions
    )
    return replace(choices, conditions=conditions)


def _is_attacked(query: Query) -> bool:
    return "attack" in query.steps and "before" in query("SELECT * FROM attack LIMIT 0")


def _attacked(query: Query) -> Blocks:
    return forced_choices(attacked_distances(query))


def untouched_and_attacked(untouched: Blocks, met: Blocks) -> Blocks:
    """Return the choices that were attacked, without an attack and with each; those of metrics that met none have NaN.

    Without attacked choices, all of them untouched.
    """
    hit = {str(name) for units in met.units for name in units}
    if not hit:
        return _named(untouched, NOBODY, UNAWARE)
    masks = [np.isin(units.astype(str), list(hit)) for units in untouched.units]
    metric_rows = {metric: row for row, metric in enumerate(met.entries)}
    rows = np.array([metric_rows.get(metric, -1) for metric in untouched.entries])

    def aligned(block: np.ndarray) -> np.ndarray:
        return np.where(rows[:, None] >= 0, block[rows], np.nan)

    plain, attacked = _named(untouched, NOBODY, UNAWARE), [_ball(condition) for condition in met.conditions]
    chosen = [c for c, mask in enumerate(masks) if mask.any()]
    return Blocks(
        untouched.entries,
        (
            *(plain.conditions[c] for c in chosen),
            *(
                {
                    "dataset": condition["dataset"],
                    "distortion": condition["distortion"],
                    "attack": ball,
                    "attacker": AWARE if condition["along"] in (OWN, QUERIES) else UNAWARE,
                }
                for condition, ball in zip(met.conditions, attacked, strict=True)
            ),
        ),
        (*(untouched.units[c][masks[c]] for c in chosen), *met.units),
        {
            "share": (
                *(untouched.values["share"][c][:, masks[c]] for c in chosen),
                *map(aligned, met.values["share"]),
            )
        },
        {name: (*(untouched.about[name][c][masks[c]] for c in chosen), *met.about[name]) for name in untouched.about},
    )


def _ball(condition: Mapping[str, str]) -> str:
    """Return an attack's label with its ball and whose gradient it follows, in words."""
    plain, along = BALL.sub("", condition["attack"]).replace(",]", "]").replace("[]", ""), condition["along"]
    lent = "" if along in (OWN, QUERIES) else f"{LENT}{along}"
    return f"{plain} within {condition['radius']}/255{lent}"


def _flags(query: Query) -> dict[str, tuple[str, ...]]:
    """Return the metrics whose gradient misleads: attacks that follow it change no image, or less than others do.

    A distance in steps has no slope to go by. Attacked images are rounded to 8 bits, which changes a pixel by half a
    level. An attack by queries, or along the gradient of another distance, must not move a metric further than one
    along its own: by `MARGIN` of the movement on average over photographs, and significantly so by the signed-rank test
    at `ALPHA`, which needs at least `FEWEST` of them.
    """
    if not _is_attacked(query) or "linf" not in query("SELECT * FROM attack LIMIT 0"):
        return {}
    gradient_attacks = f"SELECT * FROM attack WHERE along = '{OWN}'"
    unmoved = f"SELECT metric FROM ({gradient_attacks}) GROUP BY metric HAVING max(linf) < 0.6 / 255 ORDER BY metric"
    flags = dict.fromkeys(query(unmoved)["metric"].tolist(), ("no attack by its gradient changed any image",))
    finite = "isfinite(before) AND isfinite(after)"
    rows = query(
        "WITH own AS (SELECT metric, dataset, radius, name, max(CAST(after AS DOUBLE) - before) AS least "
        f"FROM ({gradient_attacks}) WHERE {finite} GROUP BY ALL) "
        "SELECT metric, along, dataset || ' ' || attack.photograph AS photograph, avg(after - before - least) AS more, "
        "avg(abs(after - before) + abs(least)) / 2 AS size "
        f"FROM attack JOIN own USING (metric, dataset, radius, name) WHERE along <> '{OWN}' AND {finite} "
        "GROUP BY ALL ORDER BY ALL"
    )
    for metric, along in dict.fromkeys(zip(rows["metric"], rows["along"], strict=True)):
        here = (rows["metric"] == metric) & (rows["along"] == along)
        more, size = rows["more"][here], rows["size"][here]
        if len(more) >= FEWEST and more.mean() > MARGIN * size.mean() and clusters_greater(more)[0] < ALPHA:
            by = "by queries alone" if along == QUERIES else f"along the gradient of {along}"
            flags[metric] = (*flags.get(metric, ()), f"an attack {by} moves it further than one along its own gradient")
    return flags


def _proxies(query: Query) -> tuple[str, ...]:
    columns = query("SELECT DISTINCT proxy FROM distance WHERE proxy <> '' ORDER BY proxy")
    return tuple(str(text) for text in columns["proxy"])
