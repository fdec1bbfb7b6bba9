"""Tables 3, 9 and 21: certified defenses, what they promise and what it costs."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from imharness.tracks import ColumnSpec, Query, Row, Table, Value, mean_value, missing
from imharness_iqa.tables.data import MEASURES, Columns, Part, computed, moved

_ROWS = """
SELECT t.task, t.dataset, t.metric, t.defense, t.dataset || ' · ' || t.name AS unit, t.score, t.radius, t.delta,
       CAST(t.abstained AS DOUBLE) AS abstained, CASE WHEN t.attacked THEN 'attacked' ELSE 'clean' END AS shown,
       c.score AS source, c.mos, c.lower, c.upper
FROM certify t JOIN clean c USING (dataset, metric, name)
"""
COLUMNS = (
    ColumnSpec(key="d", label="D, attacked", better="lower", decimals=2, description=MEASURES["d"].description),
    ColumnSpec(key="r", label="R, attacked", better="higher", decimals=3, description=MEASURES["r"].description),
    ColumnSpec(key="srocc_clean", label="SROCC, clean", better="higher", description="Of the smoothed clean score."),
    ColumnSpec(key="srocc", label="SROCC, attacked", better="higher", description="Of the smoothed attacked score."),
    ColumnSpec(
        key="radius", label="radius", better="higher", decimals=4,
        description="Mean Euclidean distance, images in [0, 1], within which the class stays; without abstentions.",
    ),
    ColumnSpec(key="abstained", label="abstained %", better="lower", decimals=1, description="Without a promise."),
    ColumnSpec(
        key="delta", label="relative delta", better="lower", decimals=4,
        description="Width of the interval that holds the score of every image within the radius, over the range.",
    ),
    ColumnSpec(key="seconds", label="s per image", better="lower", decimals=2, description="Of the noisy pass."),
)  # fmt: skip


def tables(query: Query, note: str) -> list[Table]:
    """Return the tables of certified defenses, and of the number of their classes."""
    if not {"certify", "smooth", "clean"} <= query.steps:
        return []
    found = query.blocks(
        _ROWS, entry="defense", by=["dataset", "metric", "shown", "task"], unit="unit",
        measures=["score", "radius", "delta", "abstained"], about=["source", "mos", "lower", "upper"],
    )  # fmt: skip
    if not found.conditions:
        return []
    variants = query("SELECT DISTINCT entry, classes, defense FROM certify ORDER BY ALL")
    seconds = query("SELECT defense, avg(seconds) AS seconds FROM smooth_tasks GROUP BY defense")
    times = dict(zip(seconds["defense"], seconds["seconds"], strict=True))
    usual = [label for label, entry in zip(variants["defense"], variants["entry"], strict=True) if label == entry]
    whole = Part.whole(computed(found, _without_abstentions))
    return [
        Table(
            id="certified",
            title="Tables 3 and 21: certified defenses",
            caption="Fixed attacks. Smoothing by class (rs, drs, ddrs, dp) promises that the class of the score stays "
            "within a radius, median smoothing (ms, dms) that the score stays within an interval. Abstentions are "
            "counted and left out.",
            entry="defense",
            columns=COLUMNS,
            rows=tuple(_row(label, whole.of(label), times) for label in usual),
            note=note,
        ),
        *_by_classes(whole.where(shown="clean"), variants, note),
    ]


def _without_abstentions(own: Columns) -> Columns:
    """Return the smoothed score, D, R and the promise where there is one; everything else beside them."""
    d, r = moved(own["score"], own["source"], own["lower"], own["upper"])
    delta = own["delta"] / (own["upper"] - own["lower"])
    promised = {"score": own["score"], "d": d, "r": r, "radius": own["radius"], "delta": delta}
    promised = {name: np.where(own["abstained"] == 0, numbers, np.nan) for name, numbers in promised.items()}
    source = np.where(np.isnan(own["abstained"]), np.nan, own["source"])
    return {**promised, "source": source, "abstained": own["abstained"], "any_radius": own["radius"]}


def _row(label: str, own: Part, times: Mapping[str, float]) -> Row:
    clean, attacked = own.where(shown="clean"), own.where(shown="attacked")
    abstained = own.blocks.of("abstained", label)
    values = {
        "d": attacked.mean("d"),
        "r": attacked.mean("r"),
        "srocc_clean": clean.correlation(),
        "srocc": attacked.correlation(),
        "radius": _mean(own, label, "radius"),
        "delta": _mean(own, label, "delta"),
        "abstained": Value(value=100 * float(abstained.mean()), n=len(abstained)),
        "seconds": Value(value=float(times[label])) if label in times else missing("shares the pass of another one"),
    }
    return Row(label=label, values=values)


def _mean(own: Part, label: str, measure: str) -> Value:
    """Return the mean over all images, clean and attacked ones; their order decides the interval."""
    blocks, row = own.blocks, own.blocks.entries.index(label)
    found = [
        (facets["dataset"], facets["metric"], unit, score, number)
        for c, facets in enumerate(blocks.conditions)
        for unit, score, number in zip(
            blocks.units[c], blocks.values["score"][c][row], blocks.values[measure][c][row], strict=True
        )
        if np.isfinite(number)
    ]
    return mean_value([number for *_, number in sorted(found)])


def _by_classes(clean: Part, variants: Mapping[str, np.ndarray], note: str) -> list[Table]:
    """Return table 9: what the number of classes does to the discretised score and to the radius."""
    rows = []
    for entry in np.unique(variants["entry"]):
        mine = variants["entry"] == entry
        counts = dict(zip(variants["defense"][mine], variants["classes"][mine].tolist(), strict=True))
        counts = {label: n for label, n in counts.items() if clean.of(label).lines("source")}
        if len(counts) > 1:
            rows += [_classes_row(f"{entry}, {n}", clean, label, n) for label, n in counts.items()]
            whole = clean.of(next(iter(counts))).correlation(measure="source")
            reason = missing("the score itself is not smoothed")
            values = {"srocc": whole, "srocc_smoothed": reason, "radius": reason}
            rows.append(Row(label=f"{entry}, no classes", values=values))
    if not rows:
        return []
    columns = (
        ColumnSpec(key="srocc", label="SROCC", better="higher", description="Of the class of the clean score."),
        ColumnSpec(key="srocc_smoothed", label="SROCC, smoothed", better="higher",
                   description="Of the most frequent class of noisy copies, abstentions left out."),
        ColumnSpec(key="radius", label="radius", better="higher", decimals=4,
                   description="Mean certified distance; an abstention counts as 0."),
    )  # fmt: skip
    return [
        Table(
            id="classes",
            title="Table 9: number of classes",
            caption="Clean images. More classes keep more of the order, and their borders are crossed more easily.",
            entry="classes",
            columns=columns,
            rows=tuple(rows),
            note=note,
        )
    ]


def _classes_row(title: str, clean: Part, label: str, classes: int) -> Row:
    def place(own: Columns) -> Columns:
        share = (own["source"] - own["lower"]) / (own["upper"] - own["lower"])
        return {"class": np.clip(np.floor(share * classes) + 1, 0, classes + 1)}

    own = clean.of(label)
    values = {
        "srocc": replace(own, blocks=computed(own.blocks, place)).correlation(measure="class"),
        "srocc_smoothed": own.correlation(),
        "radius": mean_value(own.blocks.of("any_radius", label, own.conditions)),
    }
    return Row(label=title, values=values)
