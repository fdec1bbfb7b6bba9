"""Certified ranking: how many pairs of images keep their order, however both are changed within a radius.

If an image is changed within the radius, its smoothed score stays in an interval. With smoothing by class, the interval
is one number, as the class stays; with median smoothing, it lies between two order statistics; if nothing is promised,
it is unbounded. Two images keep their order if their intervals do not meet.
"""

from collections.abc import Mapping

import numpy as np

from imharness.leaderboard import Row, Table, Value, mean_value, missing, ranked
from imharness.tracks import Query
from imharness_iqa.tables.data import PAPER, SHARE, UNIT, computed, image_column, read_sources
from imharness_iqa.tables.formulas import Columns
from imharness_iqa.tables.part import Part

RADII = (0.0, 0.05, 0.1, 0.2)
"""Euclidean radii for images in [0, 1]; 0.05 is that of median smoothing in the published runs."""
RANKED = 0.05
"""The radius by which defenses are ranked."""
RANKED_SHARE = f"r{RADII.index(RANKED)}"
"""The measure of `shares` at this radius: measure ``rK`` is the share at ``RADII[K]``."""
_ROWS = f"""
SELECT dataset, metric, defense, {UNIT} AS unit, t.score, t.low, t.high, t.reach,
       CAST(t.abstained AS DOUBLE) AS abstained
FROM certify t JOIN clean c USING (dataset, metric, name) WHERE NOT t.attacked
"""
_INSIDE = f"""
SELECT dataset, metric, defense, i.method AS attack, i.strength, {UNIT} AS unit, i.score, i.distance, t.low, t.high,
       t.score AS smoothed, CAST(i.abstained AS DOUBLE) AS abstained, c.lower, c.upper
FROM inside i JOIN clean c USING (dataset, metric, name)
JOIN (SELECT * FROM certify WHERE NOT attacked) t USING (dataset, metric, defense, name)
"""


def kept(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return for each image the share ``(n,)`` of its pairs that keep their order, NaN where there is no other image.

    `low`, `high` ``(n,)``: the ends of each image's interval, infinite if nothing is promised.
    """
    # how many intervals lie wholly below that of an image, and how many wholly above it
    n = len(low)
    below = np.searchsorted(np.sort(high), low, side="left")
    above = n - np.searchsorted(np.sort(low), high, side="right")
    return (below + above) / (n - 1) if n > 1 else np.full(n, np.nan)


def tables(query: Query, note: str) -> list[Table]:
    """Return the certified ranking, and the table of attacks inside the certified radius, which test its promises."""
    if not {"certify", "clean"} <= query.steps or "reach" not in query("SELECT * FROM certify LIMIT 0"):
        return []
    blocks = query.blocks(
        _ROWS,
        entry="defense",
        by=["dataset", "metric"],
        unit="unit",
        measures=["score", "low", "high", "reach", "abstained"],
    )
    subset = Part.whole(computed(blocks, shares), read_sources(query))
    # At radius 0, nothing is changed, so two different smoothed scores are in order. But median smoothing has intervals
    # for one radius alone (`reach`), which count at every smaller radius, too: its pairs at 0 are those kept within it.
    columns = [
        image_column(
            f"r{k}",
            _label(radius),
            "higher",
            1,
            "Pairs of images whose smoothed scores keep their order "
            f"however both are changed within Euclidean distance {radius:g}, images in [0, 1], %."
            if radius
            else "Pairs of images with different smoothed scores, neither of which abstains, %; with median smoothing, "
            "which has intervals for one radius alone, those that keep their order within that radius.",
            limits=SHARE,
        )
        for k, radius in enumerate(RADII)
    ]
    rows = [
        Row(label=label, values={f"r{k}": _mean(subset.of(label), f"r{k}") for k in range(len(RADII))})
        for label in blocks.entries
    ]
    order = columns[RADII.index(RANKED)]
    table = Table(
        id="certified-order",
        title="Certified ranking: pairs of images that keep their order",
        caption="Clean images. The share of all pairs of images that keep their order, whatever is changed in the two "
        "images within the radius, with the confidence of the certificates; each image counts once, with its mean over "
        "metrics. A pair with an abstention, or in one class, keeps no order. Intervals count a pair for both images.",
        entry="defense",
        columns=tuple(columns),
        rows=tuple(ranked(rows, order)),
        ranked_by=order.key,
        note=note,
    )
    return [table, *_inside(query, note)]


def _label(radius: float) -> str:
    return f"kept % at {radius:g}" if radius else "ordered %"


def shares(columns: Columns) -> Columns:
    """Return the share of each image's pairs that keep their order at each radius, %; NaN if not measured."""
    seen = np.isfinite(columns["abstained"])  # (defenses, images): whether the image was certified
    results: dict[str, np.ndarray] = {"score": columns["score"].astype(float)}
    for k, radius in enumerate(RADII):
        holds = seen & (columns["abstained"] == 0) & (columns["reach"] >= radius)
        low, high = np.where(holds, columns["low"], -np.inf), np.where(holds, columns["high"], np.inf)
        shares = np.full(seen.shape, np.nan)
        for line, mask in enumerate(seen):
            shares[line, mask] = 100 * kept(low[line, mask], high[line, mask])
        results[f"r{k}"] = shares
    return results


def _mean(subset: Part, name: str) -> Value:
    """Return the mean share over images, with an interval.

    A pair counts for both of its images. So an image's contribution deviates from the mean twice as far as its share
    does (Hoeffding, "A Class of Statistics with Asymptotically Normal Distribution", 1948).
    """
    if not subset.lines(name):
        return missing("no pair of images")
    shares, photographs = subset.by_image(name)
    return mean_value(2 * shares - shares.mean(), photographs)


INSIDE = (
    image_column(
        "broken",
        "promises broken %",
        "lower",
        2,
        "Images inside their radius whose class changed, or whose score left the interval.",
    ),
    image_column(
        "moved",
        "D inside %",
        "lower",
        3,
        "100 |s(x) - s(x')| / range, with the smoothed score s, x' within the certified radius of x.",
    ),
    image_column(
        "promised", "D promised %", "lower", 3, "The largest D that the certificate allows within the radius."
    ),
    image_column("distance", "distance", "higher", 4, "Mean Euclidean distance of x' from x, images in [0, 1]."),
    image_column(
        "left_out", "no promise %", "lower", 1, "Images without a certified radius, as the certificate abstains."
    ),
)


def _inside(query: Query, note: str) -> list[Table]:
    if "inside" not in query.steps:
        return []
    blocks = query.blocks(
        _INSIDE,
        entry="defense",
        by=["dataset", "metric", "attack", "strength"],
        unit="unit",
        measures=["score", "smoothed", "low", "high", "distance", "abstained"],
        about=["lower", "upper"],
    )
    subset = Part.whole(computed(blocks, _broken), read_sources(query))
    rows = [Row(label=label, values=_row(subset.of(label))) for label in blocks.entries]
    return [
        Table(
            id="certified-inside",
            title="Attacks inside the certified radius, beside the certificate",
            caption="Attacked images, pulled back towards the original until they lie within the certified radius of "
            "that image, or within the radius of median smoothing. A certificate that holds is broken on at most the "
            f"share of images that its confidence allows (0.1% in {PAPER}). Each image counts once, with its mean over "
            "conditions.",
            entry="defense",
            columns=INSIDE,
            rows=tuple(rows),
            note=note,
        )
    ]


def _row(subset: Part) -> Mapping[str, Value]:
    return {
        spec.key: subset.mean(spec.key) if subset.lines(spec.key) else missing("no image has a certified radius")
        for spec in INSIDE
    }


def _broken(columns: Columns) -> Columns:
    """Return the measures of `INSIDE` for each image, in %, and the score.

    A `distance` of NaN means that the image has no certified radius. Such an image counts in `left_out` alone; the
    other measures are NaN for it.
    """
    span, change = columns["upper"] - columns["lower"], np.abs(columns["score"] - columns["smoothed"])
    allowed = np.maximum(columns["high"] - columns["smoothed"], columns["smoothed"] - columns["low"])
    outside = ((columns["score"] < columns["low"]) | (columns["score"] > columns["high"])) & (columns["abstained"] == 0)
    measures = {"broken": 100.0 * outside, "moved": 100 * change / span, "promised": 100 * allowed / span}
    is_certified = np.isfinite(columns["distance"])
    masked = {name: np.where(is_certified, numbers, np.nan) for name, numbers in measures.items()}
    left_out = np.where(np.isnan(columns["score"]), np.nan, 100.0 * ~is_certified)
    return {"score": columns["score"], **masked, "distance": columns["distance"], "left_out": left_out}
