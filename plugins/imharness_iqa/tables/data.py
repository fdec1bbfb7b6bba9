"""Finished cells as blocks, with the scores of section 4.2 of Guardians of Image Quality, and what cells are made of.

With the range of a metric, upper - lower: D = 100 |f(x) - f(D(x'))| / range, and R = log10( max(upper - f(x), f(x) -
lower) / range / (|f(x) - f(D(x'))| / range + eps) ). D^D and R^D have f(D(x)) in the place of f(x).

Images that were made of one photograph are not independent of each other: intervals and tests are by photograph.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imharness.tracks import Blocks, ColumnSpec, Query, UsageError, Value, mean_value, missing
from imharness_iqa.tables.choice import choose, said_of
from imharness_iqa.tables.correlation import FEWEST, Judged, joined

Columns = Mapping[str, np.ndarray]
Sources = Mapping[str, tuple[str, str]]
"""Name of a unit -> the photograph that it is made of, and the data set, whichever subset of it."""
BASELINE = "harness/none"
PAPER = "Guardians of Image Quality"
EPS = 1e-6
KINDS = ("fixed", "adaptive")
COMMON = "common"
"""Beside the kinds of attack: the fixed ones of a defense under the conditions in which it was attacked adaptively."""
IDENTICAL = 1e-16
"""Mean squared error at and below which images count as identical: there `harness/psnr` ends, at 160 dB."""
COMPUTED = {"evaluate", "clean", "defended", "attack", "purify"}
"""Steps whose results are scored together."""
SROCC = "Spearman correlation of f(D(x')) with the quality labels, mean over conditions."


MEASURES = {
    key: ColumnSpec(
        key=key, label=label, better=better, decimals=decimals, description=text, unit="image",
        cluster_unit="photograph",
    )
    for key, label, better, decimals, text in (
        ("d", "D %", "lower", 2, "100 |f(x) - f(D(x'))| / range: how far attack and defense together move the score."),
        ("r", "R", "higher", 3, "log10 of the largest possible change of the score over the change that happened."),
        ("dd", "D^D %", "lower", 2, "100 |f(D(x)) - f(D(x'))| / range: how far the attack moves the defended score."),
        ("rd", "R^D", "higher", 3, "R with the score of the defended clean image in the place of the clean one."),
        ("psnr", "PSNR", "higher", 2, "Of the defended attacked image to the original, dB; without identical ones."),
        ("ssim", "SSIM", "higher", 3, "Of the defended attacked image to the original, uniform 7x7 window."),
        ("mse", "MSE x1e3", "lower", 3, "Of the defended attacked image to the original."),
        ("linf", "L-inf", "lower", 3, "Of the defended attacked image to the original."),
        ("identical", "identical %", "", 1, "Defended attacked images that equal the original: they have no PSNR."),
        ("ties", "ties %", "", 1, "Images whose score did not move at all."),
        ("r_without_ties", "R, no ties", "higher", 3, "R over the images whose score moved."),
        ("srocc", "SROCC", "higher", 3, SROCC),
        ("coverage", "coverage %", "", 0, "Share of the conditions that have a result."),
    )
}  # fmt: skip
"""What a cell can say of defended attacked images."""


def column(name: str, of: str, key: str = "", text: str = "") -> ColumnSpec:
    """Return the column of a measure for one part of the study, such as a kind of attack; key ``<of>_<name>``."""
    spec = MEASURES[name]
    changed = {"key": key or f"{of}_{name}", "label": f"{spec.label}, {of}", "description": text or spec.description}
    return spec.model_copy(update=changed)


@dataclass(frozen=True)
class Part:
    """Some defenses under some conditions: what a cell is made of.

    `rows`, `conditions`: positions in the blocks, which have the measure ``score`` and the facts ``mos`` and ``sign``,
    +1 where a higher score is better and -1 where a lower one is. ``places[c]``: the position of each unit of a
    condition among all units, sorted by name. `photographs`, `sets`: what each of all units is made of, and the data
    set it comes from, whichever subset of it.
    """

    blocks: Blocks
    rows: Sequence[int]
    conditions: Sequence[int]
    places: Sequence[np.ndarray]
    photographs: np.ndarray
    sets: np.ndarray

    @classmethod
    def whole(cls, blocks: Blocks, sources: Sources) -> "Part":
        """Return all there is."""
        names = sorted({name for units in blocks.units for name in units})
        place = {name: i for i, name in enumerate(names)}
        places = [np.array([place[name] for name in units], dtype=int) for units in blocks.units]
        photographs, sets = (np.array([sources[name][i] for name in names], dtype=object) for i in (0, 1))
        return cls(blocks, range(len(blocks.entries)), range(len(blocks.conditions)), places, photographs, sets)

    def of(self, *defenses: str) -> "Part":
        """Return the part of some defenses; those that have no results are left out."""
        return replace(self, rows=[row for row in self.rows if self.blocks.entries[row] in defenses])

    def where(self, **facets: str | Collection[str]) -> "Part":
        """Return the part under the conditions with these facets, or with one of several values."""
        wanted = {name: {value} if isinstance(value, str) else set(value) for name, value in facets.items()}
        own = self.blocks.conditions
        kept = [c for c in self.conditions if all(own[c][name] in values for name, values in wanted.items())]
        return replace(self, conditions=kept)

    def on(self, photographs: Collection[str]) -> "Part":
        """Return the part of the images that were made of some photographs."""
        wanted = np.isin(self.photographs.astype(str), list(photographs))
        kept = [wanted[places] for places in self.places]
        own = self.blocks
        blocks = Blocks(
            own.entries,
            own.conditions,
            tuple(units[mask] for units, mask in zip(own.units, kept, strict=True)),
            *(
                {name: tuple(b[..., mask] for b, mask in zip(found, kept, strict=True)) for name, found in part.items()}
                for part in (own.values, own.about)
            ),
        )
        return replace(self, blocks=blocks, places=[p[mask] for p, mask in zip(self.places, kept, strict=True)])

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
            {"photograph": tuple(self.photographs[self.places[c][mask]] for c, mask in chosen)},
        )

    def by_image(self, measure: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of each image over conditions and defenses, where it is finite, and its photograph."""
        total, count = np.zeros(len(self.photographs)), np.zeros(len(self.photographs))
        for c in self.conditions:
            numbers = self.blocks.values[measure][c][self.rows].astype(float)
            kept = np.isfinite(numbers)
            total[self.places[c]] += np.where(kept, numbers, 0).sum(axis=0)
            count[self.places[c]] += kept.sum(axis=0)
        return total[count > 0] / count[count > 0], self.photographs[count > 0]

    def mean(self, measure: str) -> Value:
        """Return the mean of a measure: each image counts once, with its mean over conditions and defenses."""
        found = self.lines() or self.lines(measure)
        return mean_value(*self.by_image(measure)) if found else missing("no result")

    def correlation(self, method: str = "spearman", *, measure: str = "score", resampled: bool = False) -> Value:
        """Return the correlation of scores with opinion scores, mean over conditions; each defense is one of its own.

        A score of which less is better enters with the other sign. In each condition the images that have a score
        count; conditions with fewer than three of them, or with one score for all, are left out. Data sets are
        resampled by themselves, by photograph; their intervals are joined as those of independent numbers.
        """
        parts = [found for judged in self._judged(measure) if (found := judged.correlation(method, resampled))]
        if parts:
            return joined(parts)
        if not self.lines(measure):
            return missing("no result")
        judged = any(np.isfinite(self.blocks.about["mos"][c]).any() for c, _ in self.lines(measure))
        return missing(
            f"one score for all images, or fewer than {FEWEST} of them, in every condition"
            if judged
            else "nobody judged these images"
        )

    def left(self, measure: str = "score") -> tuple[Value, Value]:
        """Return the number of conditions that `correlation` is made of, and the mean number of their images."""
        counts = np.concatenate([np.zeros(0), *(judged.counts() for judged in self._judged(measure))])
        if not len(counts):
            return missing("no result"), missing("no result")
        return Value(value=float(len(counts))), Value(value=float(counts.mean()))

    def _judged(self, measure: str) -> "list[Judged]":
        """Return the scores of judged images, data set by data set."""
        mos, sign, values = self.blocks.about["mos"], self.blocks.about["sign"], self.blocks.values[measure]
        datasets: dict[str, list[tuple[int, int, np.ndarray]]] = {}
        for c, row in self.lines(measure):
            kept = np.flatnonzero(np.isfinite(mos[c]) & np.isfinite(values[c][row]))
            if len(kept):
                datasets.setdefault(self.sets[self.places[c][0]], []).append((c, row, kept))
        found = []
        for lines in datasets.values():
            places = [self.places[c][kept] for c, _, kept in lines]
            units = np.unique(np.concatenate(places))
            scores, labels = np.full((len(lines), len(units)), np.nan), np.zeros(len(units))
            for own, (c, row, kept), place in zip(scores, lines, places, strict=True):
                at = np.searchsorted(units, place)
                own[at], labels[at] = sign[c][kept] * values[c][row][kept], mos[c][kept]
            found.append(Judged(scores, labels, self.photographs[units]))
        return found


@dataclass(frozen=True)
class Study:
    """What the finished cells hold, and the best variant of each defense."""

    attacked: Part
    """f(D(x')) and every measure, by data set, metric, strength, type of attack, attack, labels and attacker."""
    clean: Part
    """f(D(x)) of every defense, by data set and metric."""
    sources: Sources
    chosen: Sequence[str]
    """Purifications, sorted, each with one variant: see `choose`."""
    reported: Part
    """The attacked images by which no variant was chosen."""
    reported_clean: Part
    half: str
    """Says which images those are; empty where nothing was chosen."""
    groups: Mapping[str, str]
    times: Mapping[str, float]
    trained: frozenset[str]
    """Training defenses: they exist for some metrics only, and leave images as they are."""
    note: str


def load(query: Query) -> Study:
    """Return what the finished cells hold; rows that were imported stand beside those that were computed."""
    own = query.steps >= COMPUTED
    external = _external(query)
    sources = read_sources(query)
    rows = " UNION ALL BY NAME ".join([_COMPUTED] * own + [f"{_EXTERNAL} FROM ({e})" for e in external])
    found = query.blocks(
        _WITH_BASELINE.format(rows=rows, baseline=BASELINE), entry="defense", by=_FACETS, unit="unit",
        measures=["score", "source", "defended", "psnr", "ssim", "mse", "linf"],
        about=["mos", "lower", "upper", "sign"],
    )  # fmt: skip
    attacked = Part.whole(computed(found, _measures), sources)
    scores = query.blocks(
        " UNION ALL BY NAME ".join([_CLEAN] * own + [f"{_EXTERNAL_CLEAN} FROM ({e}) GROUP BY ALL" for e in external]),
        entry="defense", by=["dataset", "metric"], unit="unit", about=["mos", "sign"],
    )  # fmt: skip
    clean = Part.whole(scores, sources)
    trained = frozenset(query("SELECT DISTINCT defense FROM defended WHERE trained")["defense"]) if own else frozenset()
    defenses = query(_DEFENSES) if own else {"defense": [], "ms": [], "entry": [], "kind": []}
    entries, groups, times = (
        dict(zip(defenses["defense"], defenses[name], strict=True)) for name in ("entry", "kind", "ms")
    )
    chosen, held = choose(attacked.where(attacker="fixed"), entries, trained)
    rest = set(attacked.photographs) | set(clean.photographs)
    reported, reported_clean = (part.on(rest - held) if held else part for part in (attacked, clean))
    return Study(
        attacked, clean, sources, chosen, reported, reported_clean, said_of(held), groups, times, trained,
        _note(query) if own else "",
    )  # fmt: skip


_SET = "replace(replace(regexp_replace(dataset, '(per_cluster|draw)=[0-9]+,?', '', 'g'), ',]', ']'), '[]', '')"
"""A data set without the fields that draw a subset: an image of two subsets is one image."""
_FAMILY = "CASE WHEN dataset LIKE '%/folder%' THEN dataset ELSE regexp_replace(dataset, '\\[.*\\]$', '') END"
"""Whose photographs they are, whatever was drawn or made of them; two folders are two data sets."""
UNIT = f"{_SET} || ' · ' || name"
_FACETS = ("dataset", "metric", "strength", "type", "attack", "labels", "attacker")
_COMPUTED = f"""
SELECT e.dataset, e.metric, e.strength, e.method AS attack, e.adaptive, e.defense, {UNIT} AS unit, e.score, e.psnr,
       e.ssim, e.mse, e.linf, c.score AS source, d.score AS defended, c.mos, c.lower, c.upper, c.sign,
       CASE WHEN c.proxy = '' THEN 'of people' ELSE 'proxy' END AS labels,
       CASE WHEN a.access = 'black_box' THEN 'black-box' WHEN a.norm = 'unrestricted' THEN 'white-box, unrestricted'
            ELSE 'white-box, bounded' END AS type
FROM evaluate e
JOIN clean c USING (dataset, metric, name)
JOIN defended d USING (dataset, metric, defense, name)
JOIN (SELECT method, any_value(access) AS access, any_value(norm) AS norm FROM attack GROUP BY method) a USING (method)
"""
_EXTERNAL = f"""
SELECT dataset, metric, strength, method AS attack, adaptive, defense, {UNIT} AS unit, score, source, defended, lower,
       upper, sign, min(mos) OVER (PARTITION BY dataset, name) AS mos, CAST('nan' AS DOUBLE) AS psnr,
       CAST('nan' AS DOUBLE) AS ssim, CAST('nan' AS DOUBLE) AS mse, CAST('nan' AS DOUBLE) AS linf,
       'external' AS labels, 'external' AS type
"""
_WITH_BASELINE = """
WITH found AS MATERIALIZED ({rows})
SELECT *, CASE WHEN adaptive THEN 'adaptive' ELSE 'fixed' END AS attacker FROM found
UNION ALL
SELECT *, unnest(['adaptive', 'common']) AS attacker FROM found
SEMI JOIN (SELECT dataset, metric, attack, strength FROM found WHERE adaptive) USING (dataset, metric, attack, strength)
WHERE NOT adaptive AND defense = '{baseline}'
UNION ALL
SELECT *, 'common' AS attacker FROM found
SEMI JOIN (SELECT dataset, metric, attack, strength, defense FROM found WHERE adaptive)
    USING (dataset, metric, attack, strength, defense)
WHERE NOT adaptive AND defense <> '{baseline}'
"""
_CLEAN = f"""
SELECT d.dataset, d.metric, d.defense, {UNIT} AS unit, d.score, c.mos, c.sign
FROM defended d JOIN clean c USING (dataset, metric, name)
"""
_EXTERNAL_CLEAN = f"""
SELECT dataset, metric, defense, {UNIT} AS unit, any_value(defended) AS score, min(mos) AS mos, any_value(sign) AS sign
"""
_DEFENSES = """
SELECT t.defense, t.ms, any_value(p.entry) AS entry, any_value(p."group") AS kind
FROM (SELECT defense, avg(ms) AS ms FROM purify_tasks GROUP BY defense) t JOIN purify p USING (defense) GROUP BY ALL
"""


def read_sources(query: Query) -> Sources:
    """Return what each image is made of; raises `UsageError` where clean scores are older than this question."""
    if "clean" in query.steps and "photograph" not in query("SELECT * FROM clean LIMIT 0"):
        raise UsageError("The clean scores do not say which photograph an image is made of: `harness run` them again.")
    asked = [f"SELECT DISTINCT dataset, name, photograph FROM ({table})"
             for table in ["clean"] * ("clean" in query.steps) + _external(query)]  # fmt: skip
    found = query(f"SELECT DISTINCT {UNIT} AS unit, {_FAMILY} || ' · ' || photograph AS photograph, {_SET} AS set "
                  f"FROM ({' UNION ALL BY NAME '.join(asked)})")  # fmt: skip
    return {unit: (photograph, name) for unit, photograph, name in zip(*found.values(), strict=True)}


def _external(query: Query) -> list[str]:
    """Return a SELECT of imported rows, if there are any; rows of before know neither direction nor photograph."""
    if "external" not in query.steps:
        return []
    known = query("SELECT * FROM external LIMIT 0")
    sign = "coalesce(sign, 1)" if "sign" in known else "1"
    photograph = "coalesce(photograph, name)" if "photograph" in known else "name"
    kept = ", ".join(column for column in known if column not in ("sign", "photograph"))
    return [f"SELECT {kept}, {sign} AS sign, {photograph} AS photograph FROM external"]


def computed(found: Blocks, formula: Callable[[Columns], Columns]) -> Blocks:
    """Return blocks whose measures a formula makes, condition by condition, of the values and facts by name."""
    known = {**found.about, **found.values}
    made = [formula({name: blocks[c] for name, blocks in known.items()}) for c in range(len(found.conditions))]
    return replace(found, values={name: tuple(own[name] for own in made) for name in (made[0] if made else ())})


def _measures(own: Columns) -> Columns:
    d, r = moved(own["score"], own["source"], own["lower"], own["upper"])
    dd, rd = moved(own["score"], own["defended"], own["lower"], own["upper"])
    same = own["mse"] <= IDENTICAL
    found = {name: own[name] for name in ("score", "ssim", "linf")}
    found |= {"mse": 1e3 * own["mse"], "psnr": np.where(same, np.nan, own["psnr"])}
    found["identical"] = np.where(np.isnan(own["mse"]), np.nan, 100.0 * same)
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


def _note(query: Query) -> str:
    """Say which metrics carry a label, and what stands in for human quality labels."""
    kinds = query("SELECT labelled, string_agg(DISTINCT metric, ', ' ORDER BY metric) AS metrics FROM clean "
                  "WHERE labelled <> '' GROUP BY ALL ORDER BY ALL")  # fmt: skip
    proxies = query("SELECT DISTINCT proxy FROM clean WHERE proxy <> '' ORDER BY ALL")["proxy"]
    parts = [f"{metrics}: {label}" for metrics, label in zip(kinds["metrics"], kinds["labelled"], strict=True)]
    return ". ".join([*parts, *(f"Quality labels are a proxy: {proxy}" for proxy in proxies)])
