"""Finished cells as blocks, with the scores of section 3.5 of Guardians of Image Quality, and what cells are made of.

With the range of a metric, upper - lower: D = 100 |f(x) - f(D(x'))| / range, and R = log10( max(upper - f(x), f(x) -
lower) / range / (|f(x) - f(D(x'))| / range + eps) ). D^D and R^D have f(D(x)) in the place of f(x).

upper and lower are the bounds of the metric (appendix A.3.2: its scores of DIV2K, of their JPEGs and of noise), in D
and in R. Equation 5 takes for R the maximum and the minimum of the scores in the data set instead, which the paper does
not print; its published code has no R. With the bounds, R of an image does not depend on the other images. eps is that
of the ratios in its code, and keeps R finite where attack and defense leave a score as it was.

Images that were made of one photograph are not independent of each other: intervals and tests are by photograph.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imharness.errors import UsageError
from imharness.tables import Blocks, ColumnSpec, Lazy
from imharness.tracks import Query
from imharness_iqa.tables.attackers import with_common
from imharness_iqa.tables.choice import BOTH_HALVES, choose, said_of
from imharness_iqa.tables.part import Part, Sources

Columns = Mapping[str, np.ndarray]
BASELINE = "harness/none"
IMPORTED_BASELINES = ("none (external)", "harness/none (external)")
"""The undefended case as somebody else measured it."""
PAPER = "Guardians of Image Quality"
EPS = 1e-6
KINDS = ("fixed", "adaptive")
EXTERNAL = "external"
"""The type of imported attacks, of which nothing else is known."""
IDENTICAL = 1e-16
"""Images with a mean squared error up to this count as identical; `harness/psnr` is at most 160 dB."""
COMPUTED = {"evaluate", "clean", "defended", "attack", "purify"}
"""The steps whose results the tables combine."""
SROCC = "Spearman correlation of f(D(x')) with the quality labels, mean over conditions."


SHARE = (0.0, 100.0)
"""What a share in % cannot leave."""


def image_column(
    key: str, label: str, better: str, decimals: int, text: str, limits: tuple[float, float] | None = None
) -> ColumnSpec:
    """Return a column of means over images, whose clusters are photographs; `better`: higher, lower or empty."""
    return ColumnSpec(
        key=key,
        label=label,
        better=better,
        decimals=decimals,
        description=text,
        unit="image",
        cluster_unit="photograph",
        limits=limits,
    )


LIMITS = {
    **dict.fromkeys(("turned", "identical", "ties", "coverage"), SHARE),
    **dict.fromkeys(("ssim", "srocc"), (-1.0, 1.0)),
}
MEASURES = {
    key: image_column(key, label, better, decimals, text, LIMITS.get(key))
    for key, label, better, decimals, text in (
        ("d", "D %", "lower", 2, "100 |f(x) - f(D(x'))| / range: how far attack and defense together move the score."),
        ("r", "R", "higher", 3, "log10 of the largest possible change of the score over the change that happened."),
        ("dd", "D^D %", "lower", 2, "100 |f(D(x)) - f(D(x'))| / range: how far the attack moves the defended score."),
        (
            "turned",
            "pairs turned %",
            "lower",
            1,
            "Share of the images of other photographs whose order with an image, "
            "by f(D(x)), an attack on that image changes. No rescaling of the scores changes it.",
        ),
        (
            "shift",
            "shift, spreads",
            "lower",
            2,
            "|f(D(x)) - f(D(x'))| over the interquartile range of f(D(x)) of clean images.",
        ),
        (
            "gain",
            "gain %",
            "lower",
            2,
            "100 (f(D(x')) - f(D(x))) / range, positive towards better quality, which attacks ask "
            "for, and negative if the score moved the other way. D^D is its absolute value.",
        ),
        ("rd", "R^D", "higher", 3, "R with the score of the defended clean image in place of the clean one."),
        (
            "psnr",
            "PSNR",
            "higher",
            2,
            "Of the defended attacked image to the original, dB; identical images are left out.",
        ),
        ("ssim", "SSIM", "higher", 3, "Of the defended attacked image to the original, uniform 7x7 window."),
        ("mse", "MSE x1e3", "lower", 3, "Of the defended attacked image to the original."),
        ("linf", "L-inf", "lower", 3, "Of the defended attacked image to the original."),
        (
            "identical",
            "identical %",
            "",
            1,
            "Share of defended attacked images that equal the original; they have no PSNR.",
        ),
        ("ties", "ties %", "", 1, "Share of images whose score did not move at all."),
        ("r_without_ties", "R, no ties", "higher", 3, "R over the images whose score moved."),
        ("srocc", "SROCC", "higher", 3, SROCC),
        ("coverage", "coverage %", "", 0, "Share of the conditions that have a result."),
    )
}
"""The measures of defended attacked images."""


def column(name: str, of: str, key: str = "", text: str = "") -> ColumnSpec:
    """Return the column of a measure for one part of the study, such as a kind of attack; key ``<of>_<name>``."""
    spec = MEASURES[name]
    changed = {"key": key or f"{of}_{name}", "label": f"{spec.label}, {of}", "description": text or spec.description}
    return spec.model_copy(update=changed)


@dataclass(frozen=True)
class Study:
    """The results of the finished cells, and the best variant of each defense."""

    attacked: Part
    """f(D(x')) and every measure, by data set, metric, strength, type of attack, attack, labels and attacker."""
    clean: Part
    """f(D(x)) of every defense, by data set and metric."""
    sources: Sources
    chosen: Sequence[str]
    """Purifications, sorted, with one variant each; see `choose`."""
    reported: Part
    """The attacked images on which no variant was chosen."""
    reported_clean: Part
    half: str
    """Says which images those are; empty if nothing was chosen."""
    groups: Mapping[str, str]
    times: Mapping[str, float]
    trained: frozenset[str]
    """Training defenses, which exist for some metrics only and do not change images."""
    note: str


def load(query: Query, fewest: int = BOTH_HALVES) -> Study:
    """Return the results of the finished cells, both computed and imported; for `fewest` see `choose`."""
    own = query.steps >= COMPUTED
    external = _external(query)
    sources = read_sources(query)
    scores = query.blocks(
        " UNION ALL BY NAME ".join([_CLEAN] * own + [f"{_EXTERNAL_CLEAN} FROM ({e}) GROUP BY ALL" for e in external]),
        entry="defense",
        by=["dataset", "metric"],
        unit="unit",
        about=["mos", "sign"],
    )
    found = query.blocks(
        " UNION ALL BY NAME ".join([_COMPUTED] * own + [f"{_EXTERNAL} FROM ({e})" for e in external]),
        entry="defense",
        by=_FACETS,
        unit="unit",
        measures=["score", "psnr", "ssim", "mse", "linf"],
        about=["source", "mos", "lower", "upper", "sign"],
    )
    attacked = Part.whole(_measured(with_common(found, BASELINE), scores), sources)
    clean = Part.whole(scores, sources)
    trained = frozenset(query("SELECT DISTINCT defense FROM defended WHERE trained")["defense"]) if own else frozenset()
    defenses = query(_DEFENSES) if own else {"defense": [], "ms": [], "entry": [], "kind": []}
    entries, groups, times = (
        dict(zip(defenses["defense"], defenses[name], strict=True)) for name in ("entry", "kind", "ms")
    )
    through = attacked.where(attacker="adaptive")
    aware = {through.blocks.entries[row] for _, row in through.lines("d")}
    chosen, held = choose(attacked.where(attacker="fixed"), entries, trained, aware, fewest)
    rest = set(attacked.photographs) | set(clean.photographs)
    reported, reported_clean = (part.on(rest - held) if held else part for part in (attacked, clean))
    return Study(
        attacked,
        clean,
        sources,
        chosen,
        reported,
        reported_clean,
        said_of(held),
        groups,
        times,
        trained,
        _note(query) if own else "",
    )


_SET = "replace(replace(regexp_replace(dataset, '(per_cluster|draw)=[0-9]+,?', '', 'g'), ',]', ']'), '[]', '')"
"""The name of a data set without the fields that draw a subset: an image in two subsets is one image."""
_FAMILY = "CASE WHEN dataset LIKE '%/folder%' THEN dataset ELSE regexp_replace(dataset, '\\[.*\\]$', '') END"
"""The source of the photographs, whatever was drawn or made of them; two folders are two data sets."""
UNIT = f"{_SET} || ' · ' || name"
PHOTOGRAPH = f"{_FAMILY} || ' · ' || photograph"
_FACETS = ("dataset", "metric", "strength", "type", "attack", "labels", "attacker")
_ATTACKER = "CASE WHEN adaptive THEN 'adaptive' ELSE 'fixed' END AS attacker"
_COMPUTED = f"""
SELECT e.dataset, e.metric, e.strength, e.method AS attack, {_ATTACKER}, e.defense, c.unit, c.labels,
       e.score, e.psnr, e.ssim, e.mse, e.linf, c.score AS source, c.mos, c.lower, c.upper, c.sign,
       CASE WHEN a.access = 'black_box' THEN 'black-box' WHEN a.norm = 'unrestricted' THEN 'white-box, unrestricted'
            ELSE 'white-box, bounded' END AS type
FROM evaluate e
JOIN (SELECT *, {UNIT} AS unit, CASE WHEN proxy = '' THEN 'of people' ELSE 'proxy' END AS labels FROM clean) c
     USING (dataset, metric, name)
SEMI JOIN (SELECT DISTINCT dataset, metric, defense FROM defended) USING (dataset, metric, defense)
JOIN (SELECT method, any_value(access) AS access, any_value(norm) AS norm FROM attack GROUP BY method) a USING (method)
"""
_EXTERNAL = f"""
SELECT dataset, metric, strength, method AS attack, {_ATTACKER}, defense, {UNIT} AS unit, score, source, lower, upper,
       sign, min(mos) OVER (PARTITION BY dataset, name) AS mos, CAST('nan' AS DOUBLE) AS psnr,
       CAST('nan' AS DOUBLE) AS ssim, CAST('nan' AS DOUBLE) AS mse, CAST('nan' AS DOUBLE) AS linf,
       '{EXTERNAL}' AS labels, '{EXTERNAL}' AS type
"""
_CLEAN = f"""
SELECT d.dataset, d.metric, d.defense, c.unit, d.score, c.mos, c.sign
FROM defended d JOIN (SELECT *, {UNIT} AS unit FROM clean) c USING (dataset, metric, name)
"""
_EXTERNAL_CLEAN = f"""
SELECT dataset, metric, defense, {UNIT} AS unit, any_value(defended) AS score, min(mos) AS mos, any_value(sign) AS sign
"""
_DEFENSES = """
SELECT t.defense, t.ms, any_value(p.entry) AS entry, any_value(p."group") AS kind
FROM (SELECT defense, avg(ms) AS ms FROM purify_tasks GROUP BY defense) t JOIN purify p USING (defense) GROUP BY ALL
"""


def read_sources(query: Query) -> Sources:
    """Return what each image is made of; raises `UsageError` if clean scores are too old to say so."""
    if "clean" in query.steps and "photograph" not in query("SELECT * FROM clean LIMIT 0"):
        raise UsageError("The clean scores do not say which photograph an image is made of: `harness run` them again.")
    return sources_in(query, ["SELECT * FROM clean"] * ("clean" in query.steps) + _external(query))


def sources_in(query: Query, tables: Sequence[str]) -> Sources:
    """Return what each image is made of, from tables with the columns dataset, name and photograph."""
    asked = [f"SELECT DISTINCT dataset, name, photograph FROM ({table})" for table in tables]
    found = query(
        f"SELECT DISTINCT {UNIT} AS unit, {PHOTOGRAPH} AS photograph, {_SET} AS set "
        f"FROM ({' UNION ALL BY NAME '.join(asked)})"
    )
    return {unit: (photograph, name) for unit, photograph, name in zip(*found.values(), strict=True)}


def _external(query: Query) -> list[str]:
    """Return a SELECT of imported rows, if there are any; old rows have neither direction nor photograph."""
    if "external" not in query.steps:
        return []
    known = query("SELECT * FROM external LIMIT 0")
    if "score" not in known:  # what people say of defended images is no score of a metric
        return []
    sign = "coalesce(sign, 1)" if "sign" in known else "1"
    photograph = "coalesce(photograph, name)" if "photograph" in known else "name"
    kept = ", ".join(column for column in known if column not in ("sign", "photograph"))
    return [f"SELECT {kept}, {sign} AS sign, {photograph} AS photograph FROM external WHERE score IS NOT NULL"]


def computed(found: Blocks, formula: Callable[[Columns], Columns]) -> Blocks:
    """Return blocks whose measures a formula computes from the values and facts of each condition, by name."""
    known = {**found.about, **found.values}
    made = [formula({name: blocks[c] for name, blocks in known.items()}) for c in range(len(found.conditions))]
    return replace(found, values={name: tuple(own[name] for own in made) for name in (made[0] if made else ())})


def _measured(found: Blocks, clean: Blocks) -> Blocks:
    """Return blocks with every measure, each computed when it is read. `clean`: scores without an attack."""
    defended = _defended(found, clean)

    def lazily(make: Callable[[Columns], np.ndarray]) -> Lazy:
        known = {**found.about, **found.values, "defended": defended}
        return Lazy(len(found.conditions), lambda c: make({name: own[c] for name, own in known.items()}))

    made = {name: lazily(make) for name, make in _MADE.items()}
    return replace(found, values={**found.values, "defended": defended, **made})


def _defended(found: Blocks, clean: Blocks) -> list[np.ndarray]:
    """Return f(D(x)) of every unit of each condition ``(entries, units)``; equal conditions share one array."""
    place = {(own["dataset"], own["metric"]): c for c, own in enumerate(clean.conditions)}
    kept, rows = (
        zip(*[(i, clean.entries.index(e)) for i, e in enumerate(found.entries) if e in clean.entries], strict=True)
        if set(found.entries) & set(clean.entries)
        else ((), ())
    )
    made, kind = dict[tuple[str, str, int], np.ndarray](), np.result_type(np.float32, *clean.values["score"])
    for own, units in zip(found.conditions, found.units, strict=True):
        key = own["dataset"], own["metric"], id(units)
        c = place.get(key[:2])
        if key not in made:
            made[key] = np.full((len(found.entries), len(units)), np.nan, kind)
            if c is not None and kept:
                names = units.astype(str)
                at = np.flatnonzero(np.isin(names, clean.units[c].astype(str)))
                there = np.searchsorted(clean.units[c].astype(str), names[at])
                made[key][np.ix_(kept, at)] = clean.values["score"][c][np.ix_(rows, there)]
    return [
        made[own["dataset"], own["metric"], id(units)] for own, units in zip(found.conditions, found.units, strict=True)
    ]


def _moved(own: Columns, reference: str = "source") -> tuple[np.ndarray, np.ndarray]:
    return moved(own["score"], own[reference], own["lower"], own["upper"])


def _change(own: Columns, reference: str = "source") -> np.ndarray:
    return 100 * _share(own["score"], own[reference].astype(float), own["upper"] - own["lower"])


def _ties(d: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(d), np.nan, 100.0 * (d == 0))


def _but_ties(d: np.ndarray, r: np.ndarray) -> np.ndarray:
    return np.where(d == 0, np.nan, r)


_MADE: Mapping[str, Callable[[Columns], np.ndarray]] = {
    "mse": lambda own: 1e3 * own["mse"],
    "psnr": lambda own: np.where(own["mse"] <= IDENTICAL, np.nan, own["psnr"]),
    "identical": lambda own: np.where(np.isnan(own["mse"]), np.nan, 100.0 * (own["mse"] <= IDENTICAL)),
    "d": _change,
    "r": lambda own: _moved(own)[1],
    "dd": lambda own: _change(own, "defended"),
    "gain": lambda own: 100 * own["sign"] * (own["score"] - own["defended"]) / (own["upper"] - own["lower"]),
    "rd": lambda own: _moved(own, "defended")[1],
    "ties": lambda own: _ties(_change(own)),
    "r_without_ties": lambda own: _but_ties(*_moved(own)),
}
"""The measures that are not stored, with the columns that they are computed from."""


def moved(
    score: np.ndarray, reference: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return D and R of scores ``(entries, units)`` against reference scores; bounds ``(units,)``."""
    reference, span = reference.astype(float), upper - lower
    change = _share(score, reference, span)
    room = np.maximum(upper - reference, reference - lower) / span
    return 100 * change, np.log10(np.maximum(room, EPS) / (change + EPS))


def _share(score: np.ndarray, reference: np.ndarray, span: np.ndarray) -> np.ndarray:
    """Return the distance of a score from the reference, as a share of the range."""
    return np.asarray(np.abs(reference - score) / span)


def _note(query: Query) -> str:
    """Say which metrics are not the published ones, and what stands in for human quality labels."""
    kinds = query(
        "SELECT labelled, string_agg(DISTINCT metric, ', ' ORDER BY metric) AS metrics FROM clean "
        "WHERE labelled <> '' GROUP BY ALL ORDER BY ALL"
    )
    proxies = query("SELECT DISTINCT proxy FROM clean WHERE proxy <> '' ORDER BY ALL")["proxy"]
    parts = [f"{metrics}: {label}" for metrics, label in zip(kinds["metrics"], kinds["labelled"], strict=True)]
    return ". ".join([*parts, *(f"Quality labels are a proxy: {proxy}" for proxy in proxies)])
