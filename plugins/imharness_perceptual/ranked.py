"""Ranks distances by their agreement with people, without and under attack.

For every forced choice, the worst of several outcomes counts: the one on untouched images, and those in which an attack
pushes the alternative that people find nearer away from the reference, within a ball that is the same for all metrics.
Agreement is a share of the agreement of people among themselves, and families of distortions have the same weight. The
utility is the agreement on untouched images: a metric that agrees much less there than the best one cannot win.
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
from imharness_perceptual.families import mean_of_families, numbers_by_family
from imharness_perceptual.reversed_judgements import said_of_choices
from imharness_perceptual.steps import OWN, QUERIES
from imharness_perceptual.verdicts import another_person, ceiling

ID = "ranking"
PLAIN = "harness/l2"
"""The metric that all are compared with: the plain distance of pixels."""
NOBODY, UNAWARE, AWARE = "none", "unaware", "aware"
"""The attack "none", and whether an attacker knows the metric: the values of the facets `attack` and `attacker`."""
ALONG_ANOTHER = " along the gradient of "
"""In the name of an attack, the words before another distance whose gradient it follows."""
BALL = re.compile(r"\b(alpha|radius|eps)=[^,\]]*,?")
"""The parameters of an attack that give its ball; they are cut from its name, which has the radius in words."""
CHANCE = 0.5
"""The agreement of two judges who choose at random."""
MARGIN = 0.1
"""The gradient of a metric counts as misleading if another attack moves the metric further than the attacks along this
gradient do, by more than this share of the movement."""


def ranked_metrics(query: Query, choices: Blocks, share: float) -> TrackReport:
    """Return the contest of metrics over their forced choices, as shares of the agreement of people."""
    human_agreement = _human_agreement(choices)
    untouched = _as_shares(choices, human_agreement)
    agreed = {metric: _agreed(untouched, metric) for metric in untouched.entries}
    best = max(own_among(agreed), key=lambda metric: (agreed[metric].number_or(-np.inf), metric))
    attacked = _as_shares(_attacked(query), human_agreement) if _is_attacked(query) else None
    scores = untouched_and_attacked(untouched, attacked) if attacked else _with_attack(untouched, NOBODY, UNAWARE)
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
        alike=_same_attack,
        gates=(
            share_of(
                utility.label,
                best,
                share,
                lambda metric: _contributions(untouched, metric, best),
                among=len(untouched.entries),
            ),
        ),
        baseline=PLAIN,
        words=Words(
            lead="agrees best under attack" if balls else "agrees best",
            amount=lambda share: f"{share:.2f}",
            of=f"of {'what people agree on' if human else 'the order of severities'}",
            limit="beats plain pixel distance by more than {bound}; that has {plain}",
            without="for plain pixel distance",
            briefly="for L2",
        ),
    )
    contest_report = contest(
        with_evidence(rules, list(evidence_of(query, lambda handed: _as_shares(handed, human_agreement)))),
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
                    _note_above_one(agreed),
                    *said_of_choices(choices),
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


def _same_attack(condition: Mapping[str, str]) -> tuple[str, str, str]:
    """Return which attack a condition has, whosever gradient the attack follows."""
    return condition["dataset"], condition["distortion"], condition["attack"].partition(ALONG_ANOTHER)[0]


def _agreed(untouched: Blocks, metric: str) -> Value:
    """Return the agreement of a metric on untouched images, mean of the families, as a share of that of people."""
    families = sorted({condition["distortion"] for condition in untouched.conditions})
    return mean_of_families(numbers_by_family(untouched, metric, families, "share"))


def _contributions(untouched: Blocks, metric: str, best: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what each photograph adds to the agreement of a metric and of the best one, each ``(photographs,)``.

    Agreement is the mean over families. The result is None if one of the two metrics lacks a number.
    """
    rows = [untouched.entries.index(label) for label in (metric, best)]
    numbers = np.concatenate([block[rows] for block in untouched.values["share"]], axis=1)
    if np.isnan(numbers).any():
        return None
    families = np.concatenate(
        [
            np.full(len(units), condition["distortion"])
            for units, condition in zip(untouched.units, untouched.conditions, strict=True)
        ]
    )
    _, family_index, sizes = np.unique(families, return_inverse=True, return_counts=True)
    photographs = np.concatenate([untouched.clusters("photograph", c) for c in range(len(untouched.conditions))])
    weights = len(family_index) / len(sizes) / sizes[family_index]  # of each choice, so that families weigh the same
    of_metric, of_best = contributions(numbers, photographs.astype(str), weights)
    return of_metric, of_best


def _human_agreement(choices: Blocks) -> dict[str, float]:
    """Return family -> the mean agreement of people on its choices, in (0.5, 1].

    It is that of two different judges, or of one judge with all where too few were asked. Raises `UsageError` for a
    family on which people agree no more often than by chance.
    """
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


def _note_above_one(agreed: Mapping[str, Value]) -> str:
    """Return a sentence on metrics that agree with people more often than people do, or "" without any."""
    more = sorted(metric for metric, value in agreed.items() if value.number_or(0) > 1)
    if not more:
        return ""
    return (
        f"Above 1, which is no error: {', '.join(more)}. A metric that chooses as most people do agrees with a person "
        "more often than another person does."
    )


def _as_shares(choices: Blocks, human_agreement: Mapping[str, float]) -> Blocks:
    """Return the credit for choices ("all") divided by the agreement of people on the family ("share")."""
    shares = tuple(
        block / human_agreement[condition["distortion"]]
        for condition, block in zip(choices.conditions, choices.values["all"], strict=True)
    )
    return replace(choices, values={"share": shares})


def _with_attack(choices: Blocks, attack: str, attacker: str) -> Blocks:
    """Return the choices, each condition of which names the attack and the attacker, too."""
    conditions = tuple(
        {
            "dataset": condition["dataset"],
            "distortion": condition["distortion"],
            "attack": attack,
            "attacker": attacker,
        }
        for condition in choices.conditions
    )
    return replace(choices, conditions=conditions)


def _is_attacked(query: Query) -> bool:
    return "attack" in query.steps and "before" in query("SELECT * FROM attack LIMIT 0")


def _attacked(query: Query) -> Blocks:
    return forced_choices(attacked_distances(query))


def untouched_and_attacked(untouched: Blocks, attacked: Blocks) -> Blocks:
    """Return the choices that some attack changed: as one condition without an attack, and one for each attack.

    A metric that was not attacked has NaN in the conditions of attacks. If no choice was attacked, the result is all
    choices without an attack.
    """
    attacked_choices = {str(name) for units in attacked.units for name in units}
    plain = _with_attack(untouched, NOBODY, UNAWARE)
    if not attacked_choices:
        return plain
    # 1. The choices without an attack, of which only those remain that were attacked in some condition.
    masks = [np.isin(units.astype(str), list(attacked_choices)) for units in untouched.units]
    chosen = [c for c, mask in enumerate(masks) if mask.any()]
    plain_conditions = [plain.conditions[c] for c in chosen]
    plain_units = [untouched.units[c][masks[c]] for c in chosen]
    plain_shares = [untouched.values["share"][c][:, masks[c]] for c in chosen]
    # 2. The attacked choices; `attacked` may lack metrics of `untouched`.
    attack_conditions = [
        {
            "dataset": condition["dataset"],
            "distortion": condition["distortion"],
            "attack": _attack_name(condition),
            "attacker": AWARE if condition["along"] in (OWN, QUERIES) else UNAWARE,
        }
        for condition in attacked.conditions
    ]
    metric_rows = {metric: row for row, metric in enumerate(attacked.entries)}
    rows = np.array([metric_rows.get(metric, -1) for metric in untouched.entries])
    attack_shares = [np.where(rows[:, None] >= 0, block[rows], np.nan) for block in attacked.values["share"]]
    # 3. Both in one.
    return Blocks(
        untouched.entries,
        (*plain_conditions, *attack_conditions),
        (*plain_units, *attacked.units),
        {"share": (*plain_shares, *attack_shares)},
        {
            fact: (*(untouched.about[fact][c][masks[c]] for c in chosen), *attacked.about[fact])
            for fact in untouched.about
        },
    )


def _attack_name(condition: Mapping[str, str]) -> str:
    """Return an attack's label with its radius and whose gradient it follows: "pgd within 8/255 along ... of x"."""
    label = BALL.sub("", condition["attack"]).replace(",]", "]").replace("[]", "")
    along = condition["along"]
    suffix = "" if along in (OWN, QUERIES) else f"{ALONG_ANOTHER}{along}"
    return f"{label} within {condition['radius']}/255{suffix}"


def _flags(query: Query) -> dict[str, tuple[str, ...]]:
    """Return metric -> why its gradient misleads attacks, so that its number is an upper bound.

    There are two reasons. First, no attack along the gradient changes any image by more than 0.6 levels of 255; a
    distance that is a step function, for instance, has the gradient 0. (Attacked images are rounded to 8 bits, so a
    change below half a level is lost.) Second, an attack by queries, or along the gradient of another distance, moves
    the metric further than the attacks along its own gradient: on average over photographs by `MARGIN` of the movement,
    and significantly by the signed-rank test at `ALPHA`, which needs at least `FEWEST` photographs.
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
    """Return what stands in for the judgement of people, as the data sets of the results say."""
    columns = query("SELECT DISTINCT proxy FROM distance WHERE proxy <> '' ORDER BY proxy")
    return tuple(str(text) for text in columns["proxy"])
