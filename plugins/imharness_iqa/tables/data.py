"""The results of finished tasks, with the measures of section 3.5 of Guardians of Image Quality.

With the range of a metric, upper - lower: D = 100 |f(x) - f(D(x'))| / range, and R = log10( max(upper - f(x), f(x) -
lower) / range / (|f(x) - f(D(x'))| / range + eps) ). D^D and R^D have f(D(x)) in the place of f(x).

upper and lower are the bounds of the metric (appendix A.3.2: its scores of DIV2K, of their JPEGs and of noise), in D
and in R. Equation 5 of the paper has the maximum and the minimum of the scores in the data set for R. The paper does
not print them, and its published code has no R. With the bounds, R of an image does not depend on other images. eps is
that of the ratios in its code; it keeps R finite where a score does not change.

Images that were made of one photograph are not independent of each other: intervals and tests are by photograph.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imharness.errors import UsageError
from imharness.leaderboard import Blocks, ColumnSpec, Lazy
from imharness.tracks import Query
from imharness_iqa.opinions import said_of_opinions
from imharness_iqa.signs import said_of_worse
from imharness_iqa.tables.attackers import with_common
from imharness_iqa.tables.choice import BOTH_HALVES, choose, said_of
from imharness_iqa.tables.formulas import FORMULAS, Columns
from imharness_iqa.tables.part import Part, Sources

BASELINE = "harness/none"
IMPORTED_BASELINES = ("none (external)", "harness/none (external)")
"""The undefended case as somebody else measured it."""
PAPER = "Guardians of Image Quality"
KINDS = ("fixed", "adaptive")
"""The kinds of attackers: those that do not know the defense, and those that do."""
EXTERNAL = "external"
"""The type of imported attacks, of which nothing else is known."""
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
    **dict.fromkeys(("reversed", "identical", "ties", "coverage"), SHARE),
    **dict.fromkeys(("ssim", "srocc"), (-1.0, 1.0)),
}
MEASURES = {
    key: image_column(key, label, better, decimals, text, LIMITS.get(key))
    for key, label, better, decimals, text in (
        ("d", "D %", "lower", 2, "100 |f(x) - f(D(x'))| / range: how far attack and defense together move the score."),
        ("r", "R", "higher", 3, "log10 of the largest possible change of the score over the change that happened."),
        ("dd", "D^D %", "lower", 2, "100 |f(D(x)) - f(D(x'))| / range: how far the attack moves the defended score."),
        (
            "reversed",
            "pairs reversed %",
            "lower",
            1,
            "How often an attack changes which of two photographs the metric prefers. Share of the images of other "
            "photographs whose order with an image, by f(D(x)), an attack on that image changes. No rescaling of the "
            "scores changes it.",
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
            "100 (f(D(x')) - f(D(x))) / range, positive towards better quality, which most attacks "
            "ask for, and negative if the score moved the other way. D^D is its absolute value.",
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
    """Return the column of a measure for results `of` a kind, such as fixed attacks; its key is ``<of>_<name>``."""
    spec = MEASURES[name]
    changed = {"key": key or f"{of}_{name}", "label": f"{spec.label}, {of}", "description": text or spec.description}
    return spec.model_copy(update=changed)


@dataclass(frozen=True)
class Study:
    """The results of the finished tasks, and the best variant of each defense."""

    attacked: Part
    """f(D(x')) and every measure, by data set, metric, strength, type of attack, attack, labels and attacker."""
    clean: Part
    """f(D(x)) of every defense, by data set and metric."""
    sources: Sources
    """The photograph and the data set of each image."""
    chosen: Sequence[str]
    """Labels of purifications, sorted, one variant of each; see `choose`."""
    reported: Part
    """The attacked images on which no variant was chosen."""
    reported_clean: Part
    """The clean images on which no variant was chosen."""
    graded: Part
    """f(D(x)) of the clean images on which it is tested whether a defense keeps their order: those of every severity
    where a data set has them, else `reported_clean`."""
    half: str
    """A sentence for captions that names the photographs on which variants were chosen; "" if nothing was chosen."""
    groups: Mapping[str, str]
    """Label of a purification -> its group, such as compression."""
    times: Mapping[str, float]
    """Label of a purification -> ms for each image."""
    trained: frozenset[str]
    """Labels of training defenses, which exist for some metrics only and do not change images."""
    note: str
    """A note below tables: which metrics are not the published ones, and what stands in for quality labels."""


def load(query: Query, fewest: int = BOTH_HALVES) -> Study:
    """Return the results of the finished tasks, both computed and imported; for `fewest` see `choose`."""
    evaluated = query.steps >= COMPUTED
    external = _external(query)
    sources = read_sources(query)
    scores = query.blocks(
        " UNION ALL BY NAME ".join(
            [_CLEAN] * evaluated + [f"{_EXTERNAL_CLEAN} FROM ({e}) GROUP BY ALL" for e in external]
        ),
        entry="defense",
        by=["dataset", "metric"],
        unit="unit",
        about=["mos", "sign"],
    )
    blocks = query.blocks(
        " UNION ALL BY NAME ".join([_computed(query)] * evaluated + [f"{_EXTERNAL} FROM ({e})" for e in external]),
        entry="defense",
        by=_FACETS,
        unit="unit",
        measures=["score", "psnr", "ssim", "mse", "linf", "elsewhere"],
        about=["source", "mos", "lower", "upper", "sign"],
    )
    attacked = Part.whole(_measured(with_common(blocks, (BASELINE, *IMPORTED_BASELINES)), scores), sources)
    clean = Part.whole(scores, sources)
    graded = _graded(query, evaluated, external, sources) or clean
    trained = (
        frozenset(query("SELECT DISTINCT defense FROM defended WHERE trained")["defense"]) if evaluated else frozenset()
    )
    defenses = query(_DEFENSES) if evaluated else {"defense": [], "ms": [], "entry": [], "kind": []}
    entries, groups, times = (
        dict(zip(defenses["defense"], defenses[name], strict=True)) for name in ("entry", "kind", "ms")
    )
    adaptive = attacked.where(attacker="adaptive")
    attacked_adaptively = {adaptive.blocks.entries[row] for _, row in adaptive.lines("d")}
    chosen, reserved = choose(attacked.where(attacker="fixed"), entries, trained, attacked_adaptively, fewest)
    others = (set(attacked.photographs) | set(clean.photographs)) - reserved
    reported, reported_clean, graded = (
        subset.on(others) if reserved else subset for subset in (attacked, clean, graded)
    )
    return Study(
        attacked,
        clean,
        sources,
        chosen,
        reported,
        reported_clean,
        graded,
        said_of(reserved),
        groups,
        times,
        trained,
        _note(query) if evaluated else "",
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
       {{elsewhere}} AS elsewhere, e.score, e.psnr, e.ssim, e.mse, e.linf,
       c.score AS source, c.mos, c.lower, c.upper, c.sign,
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
       CAST('nan' AS DOUBLE) AS elsewhere,
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
_GRADED = f"SELECT dataset, metric, defense, {UNIT} AS unit, score, mos, sign FROM graded"


def _graded(query: Query, evaluated: bool, external: Sequence[str], sources: Sources) -> Part | None:
    """Return the defended scores of clean images, of every severity where a data set has more than are tested."""
    if not evaluated or "graded" not in query.steps:
        return None
    others = f"SELECT * FROM ({_CLEAN}) WHERE dataset NOT IN (SELECT attacked FROM graded)"
    tables = [_GRADED, others, *(f"{_EXTERNAL_CLEAN} FROM ({e}) GROUP BY ALL" for e in external)]
    blocks = query.blocks(
        " UNION ALL BY NAME ".join(tables),
        entry="defense",
        by=["dataset", "metric"],
        unit="unit",
        about=["mos", "sign"],
    )
    return Part.whole(blocks, {**sources, **sources_in(query, ["SELECT * FROM graded"])})


def _computed(query: Query) -> str:
    """Return the query of computed scores; rows from before version 4 of the step do not say what happens elsewhere."""
    available = "evaluate" in query.steps and "elsewhere" in query("SELECT * FROM evaluate LIMIT 0")
    return _COMPUTED.format(elsewhere="e.elsewhere" if available else "CAST('nan' AS DOUBLE)")


def read_sources(query: Query) -> Sources:
    """Return photograph and data set of each image; raises `UsageError` if clean scores are too old to say them."""
    if "clean" in query.steps and "photograph" not in query("SELECT * FROM clean LIMIT 0"):
        raise UsageError("The clean scores do not say which photograph an image is made of: `harness run` them again.")
    return sources_in(query, ["SELECT * FROM clean"] * ("clean" in query.steps) + _external(query))


def sources_in(query: Query, tables: Sequence[str]) -> Sources:
    """Return the photograph and the data set of each image, from tables with columns dataset, name and photograph."""
    queries = [f"SELECT DISTINCT dataset, name, photograph FROM ({table})" for table in tables]
    rows = query(
        f"SELECT DISTINCT {UNIT} AS unit, {PHOTOGRAPH} AS photograph, {_SET} AS set "
        f"FROM ({' UNION ALL BY NAME '.join(queries)})"
    )
    return {unit: (photograph, name) for unit, photograph, name in zip(*rows.values(), strict=True)}


def _external(query: Query) -> list[str]:
    """Return a list with a SELECT of the imported rows, if there are any; old rows lack sign and photograph."""
    if "external" not in query.steps:
        return []
    columns = query("SELECT * FROM external LIMIT 0")
    if "score" not in columns:  # what people say of defended images is no score of a metric
        return []
    sign = "coalesce(sign, 1)" if "sign" in columns else "1"
    photograph = "coalesce(photograph, name)" if "photograph" in columns else "name"
    selected = ", ".join(column for column in columns if column not in ("sign", "photograph"))
    return [f"SELECT {selected}, {sign} AS sign, {photograph} AS photograph FROM external WHERE score IS NOT NULL"]


def computed(source_blocks: Blocks, formula: Callable[[Columns], Columns]) -> Blocks:
    """Return blocks whose measures a formula computes from the values and facts of each condition, by name."""
    columns = {**source_blocks.about, **source_blocks.values}
    results = [
        formula({name: blocks[c] for name, blocks in columns.items()}) for c in range(len(source_blocks.conditions))
    ]
    return replace(
        source_blocks,
        values={name: tuple(result[name] for result in results) for name in (results[0] if results else ())},
    )


def _measured(blocks: Blocks, clean: Blocks) -> Blocks:
    """Return blocks with every measure, each computed when it is read. `clean`: scores without an attack."""
    defended = _defended(blocks, clean)

    def lazily(make: Callable[[Columns], np.ndarray]) -> Lazy:
        columns = {**blocks.about, **blocks.values, "defended": defended}
        return Lazy(len(blocks.conditions), lambda c: make({name: arrays[c] for name, arrays in columns.items()}))

    derived = {name: lazily(make) for name, make in FORMULAS.items()}
    return replace(blocks, values={**blocks.values, "defended": defended, **derived})


def _defended(blocks: Blocks, clean: Blocks) -> list[np.ndarray]:
    """Return f(D(x)) of every unit of each condition ``(entries, units)``, NaN where there is none.

    Conditions of one data set, one metric and the same array of units share one array.
    """
    positions = {
        (clean_condition["dataset"], clean_condition["metric"]): c for c, clean_condition in enumerate(clean.conditions)
    }
    rows = [i for i, entry in enumerate(blocks.entries) if entry in clean.entries]
    clean_rows = [clean.entries.index(blocks.entries[i]) for i in rows]
    arrays, kind = dict[tuple[str, str, int], np.ndarray](), np.result_type(np.float32, *clean.values["score"])
    for condition, units in zip(blocks.conditions, blocks.units, strict=True):
        key = condition["dataset"], condition["metric"], id(units)
        c = positions.get(key[:2])
        if key not in arrays:
            arrays[key] = np.full((len(blocks.entries), len(units)), np.nan, kind)
            if c is not None and rows:
                names, clean_names = units.astype(str), clean.units[c].astype(str)
                columns = np.flatnonzero(np.isin(names, clean_names))
                clean_columns = np.searchsorted(clean_names, names[columns])
                clean_scores = clean.values["score"][c][np.ix_(clean_rows, clean_columns)]
                arrays[key][np.ix_(rows, columns)] = clean_scores
    return [
        arrays[attacked_condition["dataset"], attacked_condition["metric"], id(units)]
        for attacked_condition, units in zip(blocks.conditions, blocks.units, strict=True)
    ]


def _note(query: Query) -> str:
    """Say which metrics are not the published ones, and what stands in for human quality labels."""
    kinds = query(
        "SELECT labelled, string_agg(DISTINCT metric, ', ' ORDER BY metric) AS metrics FROM clean "
        "WHERE labelled <> '' GROUP BY ALL ORDER BY ALL"
    )
    proxies = query("SELECT DISTINCT proxy FROM clean WHERE proxy <> '' ORDER BY ALL")["proxy"]
    notes = [f"{metrics}: {label}" for metrics, label in zip(kinds["metrics"], kinds["labelled"], strict=True)]
    clean = query("SELECT dataset, metric, score, mos, sign FROM clean ORDER BY ALL")
    for dataset, metric in sorted({*zip(clean["dataset"], clean["metric"], strict=True)}):
        rows = np.flatnonzero((np.asarray(clean["dataset"]) == dataset) & (np.asarray(clean["metric"]) == metric))
        score, mos, sign = (np.asarray(clean[name], dtype=float)[rows] for name in ("score", "mos", "sign"))
        notes += filter(None, [said_of_opinions(metric, dataset, sign * score, mos)])
    notes += _said_of_recorded(query)
    return ". ".join([*notes, *(f"Quality labels are a proxy: {proxy}" for proxy in proxies)])


def _said_of_recorded(query: Query) -> list[str]:
    """Return a sentence for each metric by which most images that somebody else attacked are worse than before."""
    if not {"clean", "evaluate"} <= query.steps:
        return []
    rows = query(
        "SELECT DISTINCT e.metric, e.method, e.strength, e.dataset, e.name, c.sign * (e.score - c.score) AS gain "
        f"FROM evaluate e JOIN clean c USING (dataset, metric, name) WHERE e.defense = '{BASELINE}' "
        "AND e.method LIKE 'harness/recorded%' ORDER BY ALL"
    )
    metrics, gains = np.asarray(rows["metric"]).astype(str), np.asarray(rows["gain"], dtype=float)
    question = "are the attacked images and their originals swapped?"
    sentences = [said_of_worse(metric, gains[metrics == metric], question) for metric in sorted(set(metrics))]
    return [sentence for sentence in sentences if sentence]
