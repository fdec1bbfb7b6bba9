"""The distances of the finished tasks, and the forced choices that they decide."""

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
Facts = dict[str, np.ndarray]
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Positions of alternatives 0 and 1, a name, the share of judges that found 1 nearer, and the number of judges."""


def distances(query: Query) -> Blocks:
    """Return d(x, reference) of every metric on every image, by data set."""
    sql = "SELECT * FROM distance"
    return query.blocks(sql, entry="metric", by=["dataset"], measures=["distance"], about=FACTS)


def attacked_distances(query: Query) -> Blocks:
    """Return d(x, reference) without an attack and `after` one, by data set, attack, radius and what it follows.

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
    """Return the facts about the images of a data set."""
    return {name: images.about[name][c] for name in FACTS}


def forced_choices(images: Blocks) -> Blocks:
    """Return each metric's credit for each forced choice, by data set and family ("distortion").

    Judged choices are in the data; on a ladder, neighbouring severities of a distortion form a choice, in which the
    milder alternative 0 is always nearer. ``about`` has the `photograph` of a choice, the `judge` share that found 1
    nearer, and the number of `judges`: 0 where nobody was asked, NaN where the data do not say.

    Where `images` have a measure `after` an attack, the alternative that judges find nearer is the attacked one, and
    choices in which it was not attacked are left out.
    """
    collected = []
    for pairs in (_judged, _neighbours):
        for c, condition in enumerate(images.conditions):
            image_facts = facts(images, c)
            first, second, units, judge, judges = pairs(image_facts)
            block = images.values["distance"][c]
            moved = images.values["after"][c] if "after" in images.values else block
            zero = np.where(judge > 0.5, block[:, first], moved[:, first])
            one = np.where(judge > 0.5, moved[:, second], block[:, second])
            names = np.array([f"{condition['dataset']} {unit}" for unit in units], dtype=object)
            met = ~np.isnan(np.where(judge > 0.5, moved[:, second], moved[:, first])).all(axis=0)
            mask = met if "after" in images.values else np.ones(len(names), bool)
            about = {"family": image_facts["family"][first], "photograph": image_facts["photograph"][first]}
            about |= {"judge": judge, "judges": judges}
            right = credit(zero, one, judge)[:, mask]
            collected.append((condition, names[mask], right, {name: values[mask] for name, values in about.items()}))
    collected = [entry for entry in collected if len(entry[1])]
    together = Blocks(
        images.entries,
        tuple(facets for facets, *_ in collected),
        tuple(names for _, names, *_ in collected),
        {"all": tuple(right for _, _, right, _ in collected)},
        {name: tuple(about[name] for *_, about in collected) for name in ("family", "photograph", "judge", "judges")},
    )
    return together.split("family", "distortion")


def _judged(image_facts: Facts) -> Pairs:
    mine = np.flatnonzero(image_facts["group"].astype(str) != "")
    group = image_facts["group"][mine].astype(str)
    order = np.lexsort((image_facts["choice"][mine], group))
    mine, group = mine[order], group[order]
    both = group[1:] == group[:-1]
    first, second = mine[:-1][both], mine[1:][both]
    judges = np.where(image_facts["proxy"][first].astype(str) == "", image_facts["judges"][first], 0)
    return first, second, group[:-1][both], image_facts["judge"][first], judges


def _neighbours(image_facts: Facts) -> Pairs:
    """Join every image with the next severity of the same distortion of the same reference."""
    mine = np.flatnonzero(on_ladder(image_facts))
    first, second, ladder = steps(*(image_facts[name][mine] for name in ("reference", "family", "severity")))
    units = np.array(
        [f"{p} {s}" for p, s in zip(ladder, image_facts["severity"][mine[second]], strict=True)], dtype=str
    )
    nobody = np.zeros(len(first))
    return mine[first], mine[second], units, nobody, nobody


def steps(reference: np.ndarray, family: np.ndarray, severity: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the positions of neighbouring severities, and the distortion and reference to which they belong."""
    ladders = np.array([f"{r} {f}" for r, f in zip(reference, family, strict=True)], dtype=str)
    order = np.lexsort((severity, ladders))
    ladders, severity = ladders[order], severity[order]
    next_to = (ladders[1:] == ladders[:-1]) & (severity[1:] == severity[:-1] + 1)
    return order[:-1][next_to], order[1:][next_to], ladders[1:][next_to]


def on_ladder(image_facts: Facts) -> np.ndarray:
    """Return for which images only the order of severities is known: nobody gave an opinion or chose."""
    nobody = np.isnan(image_facts["mos"]) | (image_facts["proxy"].astype(str) != "")
    return (image_facts["severity"] > 0) & nobody & (image_facts["group"].astype(str) == "")
