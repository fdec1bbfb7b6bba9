"""Full-reference metrics under attack: their own group of tables, one for each threat (`imharness_iqa.references`).

These numbers are in no other table of the track: a score against a reference answers another question than the score of
an image alone.
"""

from imharness.leaderboard import ColumnSpec, Row, Table, Value, missing
from imharness.tracks import Query
from imharness_iqa.references import CLOSER, FARTHER
from imharness_iqa.tables.attackers import with_common
from imharness_iqa.tables.data import BASELINE, KINDS, SHARE, UNIT, image_column, sources_in
from imharness_iqa.tables.part import Part

_ROWS = f"""
SELECT dataset, metric, threat, strength, method AS attack, defense, {UNIT} AS unit, score, mos, sign,
       CASE WHEN adaptive THEN 'adaptive' ELSE 'fixed' END AS attacker, defended, ssim,
       100 * abs(score - source) / (upper - lower) AS d,
       100 * abs(score - defended) / (upper - lower) AS dd,
       100 * CASE WHEN threat = '{CLOSER}' THEN sign ELSE -sign END * (score - defended) / (upper - lower) AS gain,
       100 * sign * (source - defended) / (upper - lower) AS cost
FROM evaluate_compared WHERE NOT (is_reference AND threat = '{CLOSER}')
"""
_CERTIFIED = f"""
SELECT dataset, metric, threat, defense, {UNIT} AS unit, radius, delta / range AS delta,
       100 * CAST(abstained AS DOUBLE) AS abstained, score
FROM certify_compared WHERE NOT attacked
"""
ABOUT = {
    CLOSER: "The attack changes a distorted image so that the metric finds it nearer to its undistorted reference than "
    "it is. Images that are their own reference are left out: no score can be better than theirs.",
    FARTHER: "The data set has no undistorted images, so that each image is its own reference, and has the best score "
    "there is. The attack changes it so that the metric finds it far from itself.",
}
IDS = {CLOSER: "compared-closer", FARTHER: "compared-farther"}
SHOWN = ("gain", "d", "dd")


def tables(query: Query) -> list[Table]:
    """Return, for each threat, the table of defenses, and the same by metric where there are several metrics."""
    if "evaluate_compared" not in query.steps or "is_reference" not in query("SELECT * FROM evaluate_compared LIMIT 0"):
        return []
    blocks = query.blocks(
        _ROWS,
        entry="defense",
        by=["dataset", "metric", "threat", "strength", "attack", "attacker"],
        unit="unit",
        measures=["score", "defended", "ssim", "d", "dd", "gain", "cost"],
        about=["mos", "sign"],
    )
    if not blocks.conditions:
        return []
    whole = Part.whole(with_common(blocks, [BASELINE]), sources_in(query, ["SELECT * FROM evaluate_compared"]))
    results = []
    for threat in whole.values("threat"):
        subset, note = whole.where(threat=threat), _note(query, threat)
        results.append(_defenses(subset, threat, note))
        if len(subset.values("metric")) > 1:
            results.append(_by_metric(subset, threat, note))
    return results + _certified(query)


def _specs(threat: str) -> dict[str, tuple[str, str, int, str]]:
    """Return measure -> label, which is better, decimals and description, as `image_column` takes them."""
    return {
        "gain": (
            "gain %",
            "lower",
            2,
            "100 (f(r, D(x')) - f(r, D(x))) / range in the direction that the attack asks for: towards the best score "
            "if x' is to pass for closer to its reference, else away from it.",
        ),
        "d": ("D %", "lower", 2, "100 |f(r, x) - f(r, D(x'))| / range, with the reference r of x."),
        "dd": ("D^D %", "lower", 2, "100 |f(r, D(x)) - f(r, D(x'))| / range."),
    }


def _columns(subset: Part, threat: str) -> list[ColumnSpec]:
    specs = [
        image_column(f"{kind}_{key}", f"{label}, {kind}", better, decimals, text)
        for key, (label, better, decimals, text) in _specs(threat).items()
        for kind in KINDS
    ]
    specs.append(
        image_column(
            "cost",
            "cost %",
            "lower",
            2,
            "100 (f(r, x) - f(r, D(x))) / range: what the defense alone costs, x unattacked.",
        )
    )
    if threat == CLOSER:
        specs += [
            image_column(
                f"{key}srocc",
                f"SROCC, {label}",
                "higher",
                3,
                f"Spearman correlation of {text} with the quality labels.",
                (-1.0, 1.0),
            )
            for key, label, text in (("clean_", "clean", "f(r, D(x))"), ("", "attacked", "f(r, D(x')), fixed attacks"))
        ]
    specs.append(image_column("ssim", "SSIM", "higher", 3, "Of D(x') to x, fixed attacks.", (-1.0, 1.0)))
    specs.append(image_column("coverage", "coverage %", "", 0, "Share of the conditions that have a result.", SHARE))
    return specs


def _defenses(subset: Part, threat: str, note: str) -> Table:
    columns, rows = _columns(subset, threat), []
    for label in subset.blocks.entries:
        entry_subset = subset.of(label)
        by_attacker = {kind: entry_subset.where(attacker=kind) for kind in KINDS}
        if not entry_subset.lines():
            continue
        values = {f"{kind}_{name}": results.mean(name) for kind, results in by_attacker.items() for name in SHOWN}
        fixed, condition_count = by_attacker["fixed"], len(subset.where(attacker="fixed").conditions)
        values |= {"cost": fixed.mean("cost"), "ssim": fixed.mean("ssim")}
        if threat == CLOSER:
            values |= {"clean_srocc": fixed.correlation(measure="defended"), "srocc": fixed.correlation()}
        covered = len(fixed.lines())
        values["coverage"] = (
            Value(value=100 * covered / condition_count, n=covered) if condition_count else missing("no fixed attack")
        )
        rows.append(Row(label=label, values=values))
    metrics = ", ".join(subset.values("metric"))
    return Table(
        id=IDS[threat],
        title=f"Full-reference metrics: attacked images pass for {threat}",
        caption=f"{ABOUT[threat]} Metrics: {metrics}. The defense changes the image alone, never the reference; a "
        "result of another size is resized to the reference. Each image counts once, with its mean over conditions. "
        "These numbers are in no other table.",
        entry="defense",
        columns=tuple(columns),
        rows=tuple(rows),
        note=note,
    )


def _by_metric(subset: Part, threat: str, note: str) -> Table:
    metrics = subset.values("metric")
    specs = _specs(threat)
    columns = [
        image_column(f"{metric}_{kind}_{key}", f"{specs[key][0]}, {metric}, {kind}", *specs[key][1:])
        for metric in metrics
        for key in ("gain", "d")
        for kind in KINDS
    ]
    rows = []
    for label in subset.blocks.entries:
        entry_subset = subset.of(label)
        values = {
            f"{metric}_{kind}_{key}": entry_subset.where(metric=metric, attacker=kind).mean(key)
            for metric in metrics
            for key in ("gain", "d")
            for kind in KINDS
        }
        if entry_subset.lines():
            rows.append(Row(label=label, values=values))
    return Table(
        id=f"{IDS[threat]}-by-metric",
        title=f"Full-reference metrics one by one: attacked images pass for {threat}",
        caption=f"{ABOUT[threat]} Ranges of metrics differ: compare defenses in a column, not metrics in a row.",
        entry="defense",
        columns=tuple(columns),
        rows=tuple(rows),
        note=note,
    )


def _certified(query: Query) -> list[Table]:
    """Return what certified defenses promise for scores against a fixed reference, of clean images."""
    if "certify_compared" not in query.steps:
        return []
    blocks = query.blocks(
        _CERTIFIED,
        entry="defense",
        by=["dataset", "metric", "threat"],
        unit="unit",
        measures=["score", "radius", "delta", "abstained"],
    )
    whole = Part.whole(blocks, sources_in(query, ["SELECT * FROM certify_compared"]))
    columns = (
        image_column("radius", "radius", "higher", 4, "Mean Euclidean distance within which the class stays."),
        image_column("delta", "relative delta", "lower", 4, "Width of the certified interval, divided by the range."),
        image_column("abstained", "abstained %", "lower", 1, "Share of images for which nothing is promised.", SHARE),
    )
    rows = [
        Row(label=label, values={spec.key: whole.of(label).mean(spec.key) for spec in columns})
        for label in blocks.entries
    ]
    return [
        Table(
            id="compared-certified",
            title="Full-reference metrics: what certified defenses promise",
            caption="For every image within the radius of x and the same reference. Images that no attack changed.",
            entry="defense",
            columns=columns,
            rows=tuple(rows),
        )
    ]


def _note(query: Query, threat: str) -> str:
    proxies = query(
        f"SELECT DISTINCT proxy FROM evaluate_compared WHERE proxy <> '' AND threat = '{threat}' ORDER BY ALL"
    )
    return " ".join(f"Quality labels are a proxy: {proxy}." for proxy in proxies["proxy"])
