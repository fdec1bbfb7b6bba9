"""Finished cells as blocks, with the scores of section 4.2 of Guardians of Image Quality, and what cells are made of.

With the range of a metric, upper - lower: D = 100 |f(x) - f(D(x'))| / range, and R = log10( max(upper - f(x), f(x) -
lower) / range / (|f(x) - f(D(x'))| / range + eps) ). D^D and R^D have f(D(x)) in the place of f(x).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imharness.stats import NotTestable, interval, pearson_rows, spearman_rows
from imharness.tracks import Blocks, ColumnSpec, Query, Value, mean_value, missing, value_of

Columns = Mapping[str, np.ndarray]
BASELINE = "harness/none"
EPS = 1e-6
KINDS = ("fixed", "adaptive")
COMPUTED = {"evaluate", "clean", "defended", "attack", "purify"}
"""Steps whose results are scored together."""
SROCC = "Spearman correlation of f(D(x')) with the quality labels, mean over conditions."


MEASURES = {
    key: ColumnSpec(key=key, label=label, better=better, decimals=decimals, description=text)
    for key, label, better, decimals, text in (
        ("d", "D", "lower", 2, "100 |f(x) - f(D(x'))| / range: how far attack and defense together move the score."),
        ("r", "R", "higher", 3, "log10 of the largest possible change of the score over the change that happened."),
        ("dd", "D^D", "lower", 2, "100 |f(D(x)) - f(D(x'))| / range: how far the attack moves the defended score."),
        ("rd", "R^D", "higher", 3, "R with the score of the defended clean image in the place of the clean one."),
        ("psnr", "PSNR", "higher", 2, "Of the defended attacked image to the original, dB."),
        ("ssim", "SSIM", "higher", 3, "Of the defended attacked image to the original, uniform 7x7 window."),
        ("mse", "MSE x1e3", "lower", 3, "Of the defended attacked image to the original."),
        ("linf", "L-inf", "lower", 3, "Of the defended attacked image to the original."),
        ("ties", "ties %", "", 1, "Images whose score did not move at all."),
        ("r_without_ties", "R, no ties", "higher", 3, "R over the images whose score moved."),
        ("srocc", "SROCC", "higher", 3, SROCC),
        ("coverage", "coverage %", "", 0, "Share of the conditions that have a result."),
    )
}
"""What a cell can say of defended attacked images."""


def column(name: str, of: str, key: str = "", text: str = "") -> ColumnSpec:
    """Return the column of a measure for one part of the study, such as a kind of attack; key ``<of>_<name>``."""
    spec = MEASURES[name]
    changed = {"key": key or f"{of}_{name}", "label": f"{spec.label}, {of}", "description": text or spec.description}
    return spec.model_copy(update=changed)


@dataclass(frozen=True)
class Part:
    """Some defenses under some conditions: what a cell is made of.

    `rows`, `conditions`: positions in the blocks, which have the measure ``score`` and the fact ``mos``. ``places[c]``:
    the position of each unit of a condition among all `size` units, sorted by name.
    """

    blocks: Blocks
    rows: Sequence[int]
    conditions: Sequence[int]
    places: Sequence[np.ndarray]
    size: int

    @classmethod
    def whole(cls, blocks: Blocks) -> "Part":
        """Return all there is."""
        place = {name: i for i, name in enumerate(sorted({name for units in blocks.units for name in units}))}
        places = [np.array([place[name] for name in units], dtype=int) for units in blocks.units]
        return cls(blocks, range(len(blocks.entries)), range(len(blocks.conditions)), places, len(place))

    def of(self, *defenses: str) -> "Part":
        """Return the part of some defenses; those that have no results are left out."""
        return replace(self, rows=[row for row in self.rows if self.blocks.entries[row] in defenses])

    def where(self, **facets: str | Collection[str]) -> "Part":
        """Return the part under the conditions with these facets, or with one of several values."""
        wanted = {name: {value} if isinstance(value, str) else set(value) for name, value in facets.items()}
        own = self.blocks.conditions
        kept = [c for c in self.conditions if all(own[c][name] in values for name, values in wanted.items())]
        return replace(self, conditions=kept)

    def values(self, facet: str) -> list[str]:
        """Return the values of a facet under which there are results, sorted."""
        return sorted({self.blocks.conditions[c][facet] for c, _ in self.lines()})

    def lines(self, measure: str = "score") -> list[tuple[int, int]]:
        """Return (condition, row) of every defense under every condition that has a number."""
        blocks = self.blocks.values[measure]
        return [(c, row) for c in self.conditions for row in self.rows if not np.isnan(blocks[c][row]).all()]

    def blocks_of(self, *measures: str) -> Blocks:
        """Return this part of some measures as blocks, without the entries and conditions that have no result."""
        lines = self.lines()
        rows, conditions = ([row for row in self.rows if row in {r for _, r in lines}], sorted({c for c, _ in lines}))
        seen = [~np.isnan(self.blocks.values["score"][c][rows]).all(axis=0) for c in conditions]
        chosen = list(zip(conditions, seen, strict=True))
        return Blocks(
            tuple(self.blocks.entries[row] for row in rows),
            tuple(self.blocks.conditions[c] for c in conditions),
            tuple(self.blocks.units[c][mask] for c, mask in chosen),
            {name: tuple(self.blocks.values[name][c][rows][:, mask] for c, mask in chosen) for name in measures},
        )

    def mean(self, measure: str) -> Value:
        """Return the mean of a measure: each image counts once, with its mean over conditions and defenses."""
        if not self.lines():
            return missing("no result")
        total, count = np.zeros(self.size), np.zeros(self.size)
        for c in self.conditions:
            numbers = self.blocks.values[measure][c][self.rows].astype(float)
            kept = np.isfinite(numbers)
            total[self.places[c]] += np.where(kept, numbers, 0).sum(axis=0)
            count[self.places[c]] += kept.sum(axis=0)
        return mean_value(total[count > 0] / count[count > 0])

    def correlation(self, method: str = "spearman", *, measure: str = "score", resampled: bool = False) -> Value:
        """Return the correlation of scores with opinion scores, mean over conditions; each defense is one of its own.

        Conditions with one score for all images are left out. Data sets are resampled by themselves; their intervals
        are joined as those of independent numbers.
        """
        datasets: dict[str, list[tuple[int, int]]] = {}
        for c, row in self.lines(measure):
            if (np.isfinite(self.blocks.about["mos"][c]) & ~np.isnan(self.blocks.values[measure][c][row])).any():
                datasets.setdefault(self.blocks.conditions[c]["dataset"], []).append((c, row))
        if not datasets:
            return missing("nobody judged these images" if self.lines(measure) else "no result")
        parts = []
        for lines in datasets.values():
            try:
                parts.append((len(lines), _correlated(*self._judged(lines, measure), method, resampled)))
            except NotTestable as error:
                reason = error
        return _joined(parts) if parts else missing(reason)

    def _judged(self, lines: Sequence[tuple[int, int]], measure: str) -> tuple[np.ndarray, np.ndarray]:
        """Return scores ``(lines, units)``, NaN where there is none, and the opinion score of each unit."""
        mos, values = self.blocks.about["mos"], self.blocks.values[measure]
        kept = [np.flatnonzero(np.isfinite(mos[c]) & ~np.isnan(values[c][row])) for c, row in lines]
        places = [self.places[c][mine] for (c, _), mine in zip(lines, kept, strict=True)]
        units = np.unique(np.concatenate(places))
        scores, labels = np.full((len(lines), len(units)), np.nan), np.zeros(len(units))
        for i, (c, row) in enumerate(lines):
            at = np.searchsorted(units, places[i])
            scores[i, at], labels[at] = values[c][row][kept[i]], mos[c][kept[i]]
        return scores, labels


def _correlated(scores: np.ndarray, labels: np.ndarray, method: str, resampled: bool) -> Value:
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


def _joined(parts: Sequence[tuple[int, Value]]) -> Value:
    """Return the mean of the data sets' correlations, each with the number of its conditions as weight."""
    weights = np.array([count for count, _ in parts]) / sum(count for count, _ in parts)
    value = float(np.dot(weights, [v.value for _, v in parts]))
    total = sum(v.n or 0 for _, v in parts)
    if parts[0][1].low is None:
        return Value(value=value, n=total)
    below, above = (
        float(np.linalg.norm(weights * [abs(v.value - getattr(v, side)) for _, v in parts])) for side in ("low", "high")
    )
    return Value(value=value, n=total, low=value - below, high=value + above)


@dataclass(frozen=True)
class Study:
    """What the finished cells hold, and the best variant of each defense."""

    attacked: Part
    """f(D(x')) and every measure, by data set, metric, strength, type of attack, attack, labels and attacker."""
    clean: Part
    """f(D(x)) of every defense, by data set and metric."""
    chosen: Sequence[str]
    """Purifications, sorted: of each with a parameter study the variant with the lowest D against fixed attacks."""
    groups: Mapping[str, str]
    times: Mapping[str, float]
    trained: frozenset[str]
    """Training defenses: they exist for some metrics only, and leave images as they are."""
    note: str


def load(query: Query) -> Study:
    """Return what the finished cells hold; rows that were imported stand beside those that were computed."""
    own = query.steps >= COMPUTED
    external = "external" in query.steps
    rows = " UNION ALL BY NAME ".join([_COMPUTED] * own + [_EXTERNAL] * external)
    found = query.blocks(
        _WITH_BASELINE.format(rows=rows, baseline=BASELINE), entry="defense", by=_FACETS, unit="unit",
        measures=["score", "source", "defended", "psnr", "ssim", "mse", "linf"], about=["mos", "lower", "upper"],
    )  # fmt: skip
    attacked = computed(found, _measures)
    clean = query.blocks(
        " UNION ALL BY NAME ".join([_CLEAN] * own + [_EXTERNAL_CLEAN] * external),
        entry="defense", by=["dataset", "metric"], unit="unit", about=["mos"],
    )  # fmt: skip
    trained = frozenset(query("SELECT DISTINCT defense FROM defended WHERE trained")["defense"]) if own else ()
    defenses = query(_DEFENSES) if own else {"defense": [], "ms": [], "entry": [], "kind": []}
    entries, groups, times = (
        dict(zip(defenses["defense"], defenses[name], strict=True)) for name in ("entry", "kind", "ms")
    )
    return Study(
        Part.whole(attacked), Part.whole(clean), best(attacked, entries, trained), groups, times, frozenset(trained),
        _note(query) if own else "",
    )  # fmt: skip


_FACETS = ("dataset", "metric", "strength", "type", "attack", "labels", "attacker")
_COMPUTED = """
SELECT e.dataset, e.metric, e.strength, e.method AS attack, e.adaptive, e.defense, e.name, e.score, e.psnr, e.ssim,
       e.mse, e.linf, c.score AS source, d.score AS defended, c.mos, c.lower, c.upper,
       CASE WHEN c.proxy = '' THEN 'of people' ELSE 'proxy' END AS labels,
       CASE WHEN a.access = 'black_box' THEN 'black-box' WHEN a.norm = 'unrestricted' THEN 'white-box, unrestricted'
            ELSE 'white-box, bounded' END AS type
FROM evaluate e
JOIN clean c USING (dataset, metric, name)
JOIN defended d USING (dataset, metric, defense, name)
JOIN (SELECT method, any_value(access) AS access, any_value(norm) AS norm FROM attack GROUP BY method) a USING (method)
"""
_EXTERNAL = """
SELECT dataset, metric, strength, method AS attack, adaptive, defense, name, score, source, defended, lower, upper,
       min(mos) OVER (PARTITION BY dataset, name) AS mos, CAST('nan' AS DOUBLE) AS psnr, CAST('nan' AS DOUBLE) AS ssim,
       CAST('nan' AS DOUBLE) AS mse, CAST('nan' AS DOUBLE) AS linf, 'external' AS labels, 'external' AS type
FROM external
"""
_WITH_BASELINE = """
WITH found AS MATERIALIZED ({rows})
SELECT *, CASE WHEN adaptive THEN 'adaptive' ELSE 'fixed' END AS attacker, dataset || ' · ' || name AS unit FROM found
UNION ALL
SELECT *, 'adaptive' AS attacker, dataset || ' · ' || name AS unit FROM found
SEMI JOIN (SELECT dataset, metric, attack, strength FROM found WHERE adaptive) USING (dataset, metric, attack, strength)
WHERE NOT adaptive AND defense = '{baseline}'
"""
_CLEAN = """
SELECT d.dataset, d.metric, d.defense, d.dataset || ' · ' || d.name AS unit, d.score, c.mos
FROM defended d JOIN clean c USING (dataset, metric, name)
"""
_EXTERNAL_CLEAN = """
SELECT dataset, metric, defense, dataset || ' · ' || name AS unit, any_value(defended) AS score, min(mos) AS mos
FROM external GROUP BY ALL
"""
_DEFENSES = """
SELECT t.defense, t.ms, any_value(p.entry) AS entry, any_value(p."group") AS kind
FROM (SELECT defense, avg(ms) AS ms FROM purify_tasks GROUP BY defense) t JOIN purify p USING (defense) GROUP BY ALL
"""


def computed(found: Blocks, formula: Callable[[Columns], Columns]) -> Blocks:
    """Return blocks whose measures a formula makes, condition by condition, of the values and facts by name."""
    known = {**found.about, **found.values}
    made = [formula({name: blocks[c] for name, blocks in known.items()}) for c in range(len(found.conditions))]
    return replace(found, values={name: tuple(own[name] for own in made) for name in (made[0] if made else ())})


def _measures(own: Columns) -> Columns:
    d, r = moved(own["score"], own["source"], own["lower"], own["upper"])
    dd, rd = moved(own["score"], own["defended"], own["lower"], own["upper"])
    found = {**{name: own[name] for name in ("score", "psnr", "ssim", "linf")}, "mse": 1e3 * own["mse"]}
    ties = {"ties": np.where(np.isnan(d), np.nan, 100.0 * (d == 0)), "r_without_ties": np.where(d == 0, np.nan, r)}
    return {**found, "d": d, "r": r, "dd": dd, "rd": rd, **ties}


def moved(
    score: np.ndarray, reference: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return D and R of scores ``(entries, units)`` against reference scores; bounds ``(units,)``."""
    reference, span = reference.astype(float), upper - lower
    change = np.abs(reference - score) / span
    room = np.maximum(upper - reference, reference - lower) / span
    return 100 * change, np.log10(np.maximum(room, EPS) / (change + EPS))


def best(attacked: Blocks, entries: Mapping[str, str], trained: Collection[str] = ()) -> list[str]:
    """Return, of each purification, the variant with the lowest mean D against fixed attacks, sorted by label.

    `entries`: label -> the defense that it is a variant of; a label that is not there stands for itself.
    """
    fixed = attacked.where(attacker="fixed")
    found: dict[str, tuple[float, str]] = {}
    for label in attacked.entries:
        numbers = attacked.of("d", label, fixed)
        if label not in trained and len(numbers):
            entry = entries.get(label, label)
            found[entry] = min(found.get(entry, (np.inf, "")), (float(np.mean(numbers)), label))
    return sorted(label for _, label in found.values())


def _note(query: Query) -> str:
    """Say which metrics carry a label, and what stands in for human quality labels."""
    kinds = query("SELECT labelled, string_agg(DISTINCT metric, ', ' ORDER BY metric) AS metrics FROM clean "
                  "WHERE labelled <> '' GROUP BY ALL ORDER BY ALL")  # fmt: skip
    proxies = query("SELECT DISTINCT proxy FROM clean WHERE proxy <> '' ORDER BY ALL")["proxy"]
    parts = [f"{metrics}: {label}" for metrics, label in zip(kinds["metrics"], kinds["labelled"], strict=True)]
    return ". ".join([*parts, *(f"Quality labels are a proxy: {proxy}" for proxy in proxies)])
