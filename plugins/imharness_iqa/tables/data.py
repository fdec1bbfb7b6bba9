"""Finished cells -> one row per image, with the scores of section 4.2 of Guardians of Image Quality.

With the range of a metric, upper - lower: D = 100 |f(x) - f(D(x'))| / range, and R = log10( max(upper - f(x), f(x) -
lower) / range / (|f(x) - f(D(x'))| / range + eps) ). D^D and R^D have f(D(x)) in the place of f(x).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from imharness.stats import NotTestable, interval, pearson_rows, spearman_rows
from imharness.tracks import Query, Value, cube, mean_value, missing, value_of

BASELINE = "harness/none"
EPS = 1e-6
KINDS = {False: "fixed", True: "adaptive"}
NO_GRADIENT = "no attack through this defense"
Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Measure:
    """A per-image number: its label, which direction is better, decimals, and what it says."""

    label: str
    better: str
    decimals: int
    text: str


MEASURES = {
    "d": Measure("D", "lower", 2, "100 |f(x) - f(D(x'))| / range: how far attack and defense together move the score."),
    "r": Measure("R", "higher", 3, "log10 of the largest possible change of the score over the change that happened."),
    "dd": Measure("D^D", "lower", 2, "100 |f(D(x)) - f(D(x'))| / range: how far the attack moves the defended score."),
    "rd": Measure("R^D", "higher", 3, "R with the score of the defended clean image in the place of the clean one."),
    "psnr": Measure("PSNR", "higher", 2, "Of the defended attacked image to the original, dB."),
    "ssim": Measure("SSIM", "higher", 3, "Of the defended attacked image to the original, uniform 7x7 window."),
    "mse": Measure("MSE x1e3", "lower", 3, "Of the defended attacked image to the original."),
    "linf": Measure("L-inf", "lower", 3, "Of the defended attacked image to the original."),
    "ties": Measure("ties %", "", 1, "Images whose score did not move at all."),
    "r_without_ties": Measure("R, no ties", "higher", 3, "R over the images whose score moved."),
}


@dataclass(frozen=True)
class Study:
    """The rows of all cells, and those of the best variant of each defense."""

    rows: Columns
    clean: Columns
    """f(D(x)) of every defense."""
    best: Mapping[str, str]
    """Defense without the field of its parameter study -> its label with the lowest D against fixed attacks."""
    groups: Mapping[str, str]
    times: Mapping[str, float]
    trained: frozenset[str]
    """Training defenses: they exist for some metrics only, and leave images as they are."""
    note: str

    def chosen(self) -> list[str]:
        """Return the best variants of the purifications, sorted."""
        return sorted(set(self.best.values()) - self.trained)

    def conditions(self, adaptive: bool) -> int:
        """Return how many combinations of data, metric, attack and strength there are."""
        return len(np.unique(self.rows["condition"][self.rows["adaptive"] == adaptive]))


def where(rows: Columns, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rows of a mask."""
    return {name: values[mask] for name, values in rows.items()}


def load(query: Query) -> Study:
    """Return what the finished cells hold; rows that were imported stand beside those that were computed."""
    computed = {"evaluate", "clean", "defended", "attack", "purify"} <= query.steps
    external = "external" in query.steps
    rows = with_baseline(scored(query(_joined_sql([_ROWS] * computed + [_EXTERNAL] * external))))
    clean = query(_joined_sql([_CLEAN] * computed + [_EXTERNAL_CLEAN] * external))
    clean["condition"] = _joined(clean, ("dataset", "metric"))
    defenses = query(_DEFENSES) if computed else {"defense": [], "ms": [], "entry": [], "kind": []}
    entries, groups, times = (
        dict(zip(defenses["defense"], defenses[name], strict=True)) for name in ("entry", "kind", "ms")
    )
    trained = frozenset(query("SELECT DISTINCT defense FROM defended WHERE trained")["defense"]) if computed else ()
    note = _note(query) if computed else ""
    return Study(rows, clean, best_configurations(rows, entries), groups, times, frozenset(trained), note)


def _joined_sql(parts: Sequence[str]) -> str:
    return f"SELECT * FROM ({' UNION ALL BY NAME '.join(parts)}) ORDER BY ALL"


_ROWS = """
SELECT e.dataset, e.metric, e.defense, e.method, e.strength, e.adaptive, e.name, e.score, e.psnr, e.ssim, e.mse, e.linf,
       c.score AS source, c.mos, c.lower, c.upper, d.score AS defended, a.access, a.norm,
       CASE WHEN c.proxy = '' THEN 'of people' ELSE 'proxy' END AS labels
FROM evaluate e
JOIN clean c USING (dataset, metric, name)
JOIN defended d USING (dataset, metric, defense, name)
JOIN (SELECT method, any_value(access) AS access, any_value(norm) AS norm FROM attack GROUP BY method) a USING (method)
"""
_EXTERNAL = """
SELECT dataset, metric, defense, method, strength, adaptive, name, score, source, mos, lower, upper, defended,
       CAST('nan' AS DOUBLE) AS psnr, CAST('nan' AS DOUBLE) AS ssim, CAST('nan' AS DOUBLE) AS mse,
       CAST('nan' AS DOUBLE) AS linf, 'external' AS access, '' AS norm,
       'external' AS labels
FROM external
"""
_CLEAN = """
SELECT d.dataset, d.metric, d.defense, d.name, d.score, c.mos
FROM defended d JOIN clean c USING (dataset, metric, name)
"""
_EXTERNAL_CLEAN = """
SELECT dataset, metric, defense, name, any_value(defended) AS score, any_value(mos) AS mos FROM external GROUP BY ALL
"""
_DEFENSES = """
SELECT t.defense, t.ms, any_value(p.entry) AS entry, any_value(p."group") AS kind
FROM (SELECT defense, avg(ms) AS ms FROM purify_tasks GROUP BY defense) t JOIN purify p USING (defense) GROUP BY ALL
"""


def _joined(rows: Columns, names: Sequence[str]) -> np.ndarray:
    parts = zip(*(rows[name] for name in names), strict=True)
    return np.array([" · ".join(part) for part in parts], dtype=object).astype(str)


def scored(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the scores per image, the condition and the unit."""
    lower, upper, source = (rows[name].astype(float) for name in ("lower", "upper", "source"))
    span = upper - lower
    found = dict(rows)
    for suffix, reference in (("", source), ("d", rows["defended"].astype(float))):
        change = np.abs(reference - rows["score"]) / span
        room = np.maximum(upper - reference, reference - lower) / span
        found["d" + suffix], found["r" + suffix] = 100 * change, np.log10(np.maximum(room, EPS) / (change + EPS))
    tied = found["d"] == 0
    found |= {"mse": 1e3 * rows["mse"], "ties": 100.0 * tied, "r_without_ties": np.where(tied, np.nan, found["r"])}
    found["condition"] = _joined(rows, ("dataset", "metric", "method", "strength"))
    found["unit"] = _joined(rows, ("dataset", "name"))
    return found


def with_baseline(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Repeat the rows without defense as adaptive ones, for the conditions that have adaptive attacks."""
    attacked = np.unique(rows["condition"][rows["adaptive"].astype(bool)])
    mask = (rows["defense"] == BASELINE) & np.isin(rows["condition"], attacked) & ~rows["adaptive"].astype(bool)
    again = where(rows, mask) | {"adaptive": np.ones(int(mask.sum()), dtype=bool)}
    return {name: np.concatenate([values, again[name]]) for name, values in rows.items()}


def best_configurations(rows: Columns, entries: Mapping[str, str]) -> dict[str, str]:
    """Return entry -> the label with the lowest mean D of those that `entries` gives it, adaptive attacks left out."""
    fixed = where(rows, ~rows["adaptive"].astype(bool))
    found: dict[str, tuple[float, str]] = {}
    for label in np.unique(fixed["defense"]):
        mean = float(np.mean(fixed["d"][fixed["defense"] == label]))
        entry = entries.get(str(label), str(label))
        found[entry] = min(found.get(entry, (np.inf, "")), (mean, str(label)))
    return {entry: label for entry, (_, label) in found.items()}


def _note(query: Query) -> str:
    """Say which metrics carry a label, and what stands in for human quality labels."""
    kinds = query("SELECT labelled, string_agg(DISTINCT metric, ', ' ORDER BY metric) AS metrics FROM clean "
                  "WHERE labelled <> '' GROUP BY ALL ORDER BY ALL")  # fmt: skip
    proxies = query("SELECT DISTINCT proxy FROM clean WHERE proxy <> '' ORDER BY ALL")["proxy"]
    parts = [f"{metrics}: {label}" for metrics, label in zip(kinds["metrics"], kinds["labelled"], strict=True)]
    return ". ".join([*parts, *(f"Quality labels are a proxy: {proxy}" for proxy in proxies)])


def mean_of(rows: Columns, name: str) -> Value:
    """Return the mean of a measure: each image counts once, with its mean over conditions."""
    if len(rows["name"]) == 0:
        return missing("no result")
    numbers = rows[name].astype(float)
    kept = np.isfinite(numbers)
    if not kept.any():
        return missing("no finite value")
    _, place = np.unique(rows["unit"][kept], return_inverse=True)
    return mean_value(np.bincount(place, numbers[kept]) / np.bincount(place))


def correlation(rows: Columns, method: str = "spearman", *, resampled: bool = True) -> Value:
    """Return the correlation of scores with opinion scores, mean over conditions.

    Conditions with one score for all images are left out. Data sets are resampled by themselves; their intervals are
    joined as those of independent numbers.
    """
    judged = where(rows, np.isfinite(rows["mos"].astype(float)))
    if len(judged["name"]) == 0:
        return missing("nobody judged these images" if len(rows["name"]) else "no result")
    parts = []
    for dataset in np.unique(judged["dataset"]):
        own = where(judged, judged["dataset"] == dataset)
        try:
            parts.append((len(np.unique(own["condition"])), _within(own, method, resampled)))
        except NotTestable as error:
            reason = error
    if not parts:
        return missing(reason)
    weights = np.array([count for count, _ in parts]) / sum(count for count, _ in parts)
    value = float(np.dot(weights, [v.value for _, v in parts]))
    total = sum(v.n or 0 for _, v in parts)
    if not resampled:
        return Value(value=value, n=total)
    below, above = (
        float(np.linalg.norm(weights * [abs(v.value - getattr(v, side)) for _, v in parts])) for side in ("low", "high")
    )
    return Value(value=value, n=total, low=value - below, high=value + above)


def _within(rows: Columns, method: str, resampled: bool) -> Value:
    _, names, scores = cube(rows["condition"], rows["name"], np.full(len(rows["name"]), "score"), rows["score"])
    place = dict(zip(rows["name"].astype(str), rows["mos"].astype(float), strict=True))
    labels, scores = np.array([place[name] for name in names]), scores[:, :, 0]
    measure = spearman_rows if method == "spearman" else pearson_rows

    def mean_rho(estimates: np.ndarray) -> np.ndarray:
        defined = ~np.isnan(estimates)
        with np.errstate(invalid="ignore"):
            return np.where(defined, estimates, 0).sum(axis=-1) / defined.sum(axis=-1)

    if not resampled:
        value = float(mean_rho(measure(scores, labels)))
        if np.isnan(value):
            raise NotTestable("one score for all images, in every condition")
        return Value(value=value, n=len(labels))
    found = interval(
        lambda positions: mean_rho(np.stack([measure(own[positions], labels[positions]) for own in scores], axis=1)),
        len(labels),
    )
    return value_of(found)
