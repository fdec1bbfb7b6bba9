"""Reads the distances of the finished tasks, and turns them into forced choices between two images.

A metric decides a forced choice: of two distorted images of one reference, alternatives 0 and 1, it picks the nearer.
"""

import numpy as np

from imharness.leaderboard import Blocks
from imharness.tracks import Query
from imharness_perceptual.verdicts import credit

FACTS = [
    "name",
    "reference",
    "photograph",
    "family",
    "severity",
    "group",
    "choice",
    "judge",
    "judges",
    "same",
    "mos",
    "proxy",
]
"""The columns of the step `distance` that describe an image, whatever the metric."""
Facts = dict[str, np.ndarray]
"""Name of FACTS -> that fact of each image of a data set ``(images,)``."""
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Of each forced choice: the positions of alternatives 0 and 1 among the images, the choice's name, the share of judges
who found 1 nearer, and the number of judges."""


def distances(query: Query) -> Blocks:
    """Return d(x, reference) of every metric on every image, by data set."""
    sql = "SELECT * FROM distance"
    return query.blocks(sql, entry="metric", by=["dataset"], measures=["distance"], about=FACTS)


def attacked_distances(query: Query) -> Blocks:
    """Return d(x, reference) without an attack and `after` one, by data set, attack, radius and `along`.

    `along` is what the attack follows: the metric's own gradient, queries, or the gradient of another metric.

    `after` is NaN for images that were not attacked.
    """
    fact_columns = ", ".join(f'd."{name}"' for name in FACTS)
    sql = (
        f"SELECT hit.metric, hit.dataset, hit.attack, hit.radius, hit.along, {fact_columns}, "
        "COALESCE(a.before, d.distance) AS distance, a.after "
        "FROM (SELECT DISTINCT metric, dataset, attack, radius, along FROM attack) AS hit "
        "JOIN distance AS d USING (metric, dataset) "
        "LEFT JOIN attack AS a ON a.metric = hit.metric AND a.dataset = hit.dataset AND a.attack = hit.attack "
        "AND a.radius = hit.radius AND a.along = hit.along AND a.name = d.name"
    )
    by, measures = ["dataset", "attack", "radius", "along"], ["distance", "after"]
    return query.blocks(sql, entry="metric", by=by, measures=measures, about=FACTS)


def handed_in_distances(query: Query) -> Blocks:
    """Return d(x, reference) without an attack, and `after` of handed-in images, by data set and piece of evidence."""
    fact_columns = ", ".join(f'd."{name}"' for name in FACTS)
    sql = (
        f"SELECT hit.metric, hit.dataset, hit.evidence, {fact_columns}, d.distance, e.score AS after "
        "FROM (SELECT DISTINCT metric, dataset, evidence FROM evidence) AS hit "
        "JOIN distance AS d USING (metric, dataset) "
        "LEFT JOIN evidence AS e ON e.metric = hit.metric AND e.dataset = hit.dataset AND e.evidence = hit.evidence "
        "AND e.name = d.name"
    )
    measures = ["distance", "after"]
    return query.blocks(sql, entry="metric", by=["dataset", "evidence"], measures=measures, about=FACTS)


def facts(images: Blocks, c: int) -> Facts:
    """Return the facts about the images of condition `c`, which is a data set."""
    return {name: images.about[name][c] for name in FACTS}


def forced_choices(images: Blocks) -> Blocks:
    """Return each metric's credit for each forced choice (measure "all"), by data set and family ("distortion").

    Judged choices are in the data. On a ladder, neighbouring severities of a distortion form a choice, in which the
    milder alternative 0 is always nearer. ``about`` has the `photograph` of a choice, the share of judges who found
    alternative 1 nearer (`judge`), and how many judges were asked (`judges`): 0 where nobody was, NaN where the data do
    not say.

    Where `images` have a measure `after` an attack, the alternative that judges find nearer is the attacked one, and
    choices in which it was not attacked are left out.
    """
    conditions, units, credit_blocks = [], [], []
    abouts: dict[str, list[np.ndarray]] = {"family": [], "photograph": [], "judge": [], "judges": []}
    for pairs_of in (_judged, _neighbours):
        for c, condition in enumerate(images.conditions):
            image_facts = facts(images, c)
            first, second, names, judge, judges = pairs_of(image_facts)
            untouched = images.values["distance"][c]
            attacked = images.values["after"][c] if "after" in images.values else untouched
            second_is_nearer = judge > 0.5
            zero = np.where(second_is_nearer, untouched[:, first], attacked[:, first])
            one = np.where(second_is_nearer, attacked[:, second], untouched[:, second])
            mask = np.ones(len(names), bool)
            if "after" in images.values:
                nearer = np.where(second_is_nearer, attacked[:, second], attacked[:, first])
                mask = ~np.isnan(nearer).all(axis=0)
            if not mask.any():
                continue
            conditions.append(condition)
            units.append(np.array([f"{condition['dataset']} {name}" for name in names], dtype=object)[mask])
            credit_blocks.append(credit(zero, one, judge)[:, mask])
            about = {"family": image_facts["family"][first], "photograph": image_facts["photograph"][first]}
            about |= {"judge": judge, "judges": judges}
            for fact, values in about.items():
                abouts[fact].append(values[mask])
    together = Blocks(
        images.entries,
        tuple(conditions),
        tuple(units),
        {"all": tuple(credit_blocks)},
        {fact: tuple(arrays) for fact, arrays in abouts.items()},
    )
    return together.split("family", "distortion")


def _judged(image_facts: Facts) -> Pairs:
    """Join the two images of each `group`, alternatives 0 and 1 of a choice that people, or a proxy, decided."""
    positions = np.flatnonzero(image_facts["group"].astype(str) != "")
    group = image_facts["group"][positions].astype(str)
    order = np.lexsort((image_facts["choice"][positions], group))  # by group, then alternative 0 before 1
    positions, group = positions[order], group[order]
    both = group[1:] == group[:-1]
    first, second = positions[:-1][both], positions[1:][both]
    judges = np.where(image_facts["proxy"][first].astype(str) == "", image_facts["judges"][first], 0)
    return first, second, group[:-1][both], image_facts["judge"][first], judges


def _neighbours(image_facts: Facts) -> Pairs:
    """Join every image with the next severity of the same distortion of the same reference."""
    positions = np.flatnonzero(on_ladder(image_facts))
    first, second, ladders = steps(*(image_facts[name][positions] for name in ("reference", "family", "severity")))
    severities = image_facts["severity"][positions[second]]
    names = np.array([f"{ladder} {severity}" for ladder, severity in zip(ladders, severities, strict=True)], dtype=str)
    nobody = np.zeros(len(first))
    return positions[first], positions[second], names, nobody, nobody


def steps(reference: np.ndarray, family: np.ndarray, severity: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return three arrays over pairs of neighbouring severities: positions of milder and stronger images, and ladders.

    A ladder is one distortion of one reference at all its severities; its name is "REFERENCE FAMILY".
    """
    ladders = np.array([f"{r} {f}" for r, f in zip(reference, family, strict=True)], dtype=str)
    order = np.lexsort((severity, ladders))
    ladders, severity = ladders[order], severity[order]
    next_to = (ladders[1:] == ladders[:-1]) & (severity[1:] == severity[:-1] + 1)
    return order[:-1][next_to], order[1:][next_to], ladders[1:][next_to]


def on_ladder(image_facts: Facts) -> np.ndarray:
    """Return a mask of the images of which only the order of severities is known: nobody gave an opinion or chose."""
    nobody = np.isnan(image_facts["mos"]) | (image_facts["proxy"].astype(str) != "")
    return (image_facts["severity"] > 0) & nobody & (image_facts["group"].astype(str) == "")
