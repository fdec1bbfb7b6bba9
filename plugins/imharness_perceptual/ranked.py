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

from imharness.contests import (
    Contest,
    contest,
    controls_of,
    flags_of,
    own_among,
    share_of,
    with_evidence,
)
from imharness.stats import ALPHA, FEWEST, clusters_greater, contributions
from imharness.tables import Blocks, Chart, Column, Value, Wins
from imharness.tracks import Query, TrackReport
from imharness_perceptual.choices import attacked_distances, forced_choices
from imharness_perceptual.evidence import handed_in
from imharness_perceptual.families import mean_of_families, parts_of
from imharness_perceptual.steps import OWN, QUERIES
from imharness_perceptual.verdicts import another_person, ceiling

ID = "ranking"
NOBODY, UNAWARE, AWARE = "none", "unaware", "aware"
LENT = " along the gradient of "
"""What the name of an attack says before the distance whose gradient it follows, if that is not the attacked one."""
BALL = re.compile(r"\b(alpha|radius|eps)=[^,\]]*,?")
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
        f"Agreement on forced choices as a share of what {people}, mean of the families.",
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
    balls = sorted({own["attack"] for own in scores.conditions} - {NOBODY})
    hit = f"when attacked ({', '.join(balls)})" if balls else "(nobody attacked)"
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
        alike=lambda own: (own["dataset"], own["distortion"], own["attack"].partition(LENT)[0]),
        gates=(
            share_of(
                utility.label,
                best,
                share,
                lambda metric: _beside(untouched, metric, best),
                among=len(untouched.entries),
            ),
        ),
        claim=f"{{winner}} reaches {{protection}} of what {people} {hit}, and {{utility}} untouched; {best}, which "
        "agrees best untouched, reaches {without} and {plain}.",
    )
    found = contest(
        with_evidence(rules, list(handed_in(query, lambda handed: _as_share(handed, reach)))),
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
        note="" if balls else "No attack was run, so the agreement and its worst case are the same.",
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
    return found + TrackReport(charts=[front])


def _agreed(untouched: Blocks, metric: str) -> Value:
    families = sorted({own["distortion"] for own in untouched.conditions})
    return mean_of_families(parts_of(untouched, metric, families, "share"))


def _beside(untouched: Blocks, metric: str, best: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what each photograph adds to the agreement of a metric and of the best one, mean over families."""
    rows = [untouched.entries.index(label) for label in (metric, best)]
    numbers = np.concatenate([block[rows] for block in untouched.values["share"]], axis=1)
    if np.isnan(numbers).any():
        return None
    families = np.concatenate(
        [np.full(len(u), own["distortion"]) for u, own in zip(untouched.units, untouched.conditions, strict=True)]
    )
    _, place, sizes = np.unique(families, return_inverse=True, return_counts=True)
    photographs = np.concatenate([untouched.clusters("photograph", c) for c in range(len(untouched.conditions))])
    own, plain = contributions(numbers, photographs.astype(str), len(place) / len(sizes) / sizes[place])
    return own, plain


def _reach(choices: Blocks) -> dict[str, float]:
    """Return family -> the mean agreement of two different judges, or of one with all where too few were asked."""
    found = {}
    for family in sorted({own["distortion"] for own in choices.conditions}):
        judge, judges = (
            np.concatenate([choices.about[name][c] for c in choices.where(distortion=family)])
            for name in ("judge", "judges")
        )
        two = another_person(judge, judges)
        found[family] = float(np.where(np.isnan(two), ceiling(judge), two).mean())
    return found


def _as_share(choices: Blocks, reach: Mapping[str, float]) -> Blocks:
    blocks = zip(choices.conditions, choices.values["all"], strict=True)
    return replace(choices, values={"share": tuple(block / reach[own["distortion"]] for own, block in blocks)})


def _named(choices: Blocks, attack: str, attacker: str) -> Blocks:
    facets = {"attack": attack, "attacker": attacker}
    kept = ("dataset", "distortion")
    conditions = tuple({**{name: own[name] for name in kept}, **facets} for own in choices.conditions)
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
    kept = [np.isin(units.astype(str), list(hit)) for units in untouched.units]
    place = {metric: row for row, metric in enumerate(met.entries)}
    rows = np.array([place.get(metric, -1) for metric in untouched.entries])

    def aligned(block: np.ndarray) -> np.ndarray:
        return np.where(rows[:, None] >= 0, block[rows], np.nan)

    plain, attacked = _named(untouched, NOBODY, UNAWARE), [_ball(own) for own in met.conditions]
    chosen = [c for c, mask in enumerate(kept) if mask.any()]
    return Blocks(
        untouched.entries,
        (
            *(plain.conditions[c] for c in chosen),
            *(
                {
                    "dataset": own["dataset"],
                    "distortion": own["distortion"],
                    "attack": ball,
                    "attacker": AWARE if own["along"] in (OWN, QUERIES) else UNAWARE,
                }
                for own, ball in zip(met.conditions, attacked, strict=True)
            ),
        ),
        (*(untouched.units[c][kept[c]] for c in chosen), *met.units),
        {
            "share": (
                *(untouched.values["share"][c][:, kept[c]] for c in chosen),
                *map(aligned, met.values["share"]),
            )
        },
        {name: (*(untouched.about[name][c][kept[c]] for c in chosen), *met.about[name]) for name in untouched.about},
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
    own = f"SELECT * FROM attack WHERE along = '{OWN}'"
    unmoved = f"SELECT metric FROM ({own}) GROUP BY metric HAVING max(linf) < 0.6 / 255 ORDER BY metric"
    found = dict.fromkeys(query(unmoved)["metric"].tolist(), ("no attack by its gradient changed any image",))
    known = "isfinite(before) AND isfinite(after)"
    rows = query(
        "WITH own AS (SELECT metric, dataset, radius, name, max(CAST(after AS DOUBLE) - before) AS least "
        f"FROM ({own}) WHERE {known} GROUP BY ALL) "
        "SELECT metric, along, dataset || ' ' || attack.photograph AS photograph, avg(after - before - least) AS more, "
        "avg(abs(after - before) + abs(least)) / 2 AS size "
        f"FROM attack JOIN own USING (metric, dataset, radius, name) WHERE along <> '{OWN}' AND {known} "
        "GROUP BY ALL ORDER BY ALL"
    )
    for metric, along in dict.fromkeys(zip(rows["metric"], rows["along"], strict=True)):
        here = (rows["metric"] == metric) & (rows["along"] == along)
        more, size = rows["more"][here], rows["size"][here]
        if len(more) >= FEWEST and more.mean() > MARGIN * size.mean() and clusters_greater(more)[0] < ALPHA:
            by = "by queries alone" if along == QUERIES else f"along the gradient of {along}"
            found[metric] = (*found.get(metric, ()), f"an attack {by} moves it further than one along its own gradient")
    return found


def _proxies(query: Query) -> tuple[str, ...]:
    found = query("SELECT DISTINCT proxy FROM distance WHERE proxy <> '' ORDER BY proxy")
    return tuple(str(text) for text in found["proxy"])
