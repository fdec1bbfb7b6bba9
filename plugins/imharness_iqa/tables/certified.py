"""Tables 3, 9 and 21: certified defenses, what they promise and what it costs."""

import numpy as np

from imharness.tracks import ColumnSpec, Query, Row, Table, Value, mean_value, missing
from imharness_iqa.tables.data import MEASURES, Columns, correlation, mean_of, scored, where

_ROWS = """
SELECT t.dataset, t.metric, t.defense, t.name, t.score, t.radius, t.delta, t.abstained, t.attacked, t.entry, t.classes,
       {names} c.score AS source, c.score AS defended, c.mos, c.lower, c.upper,
       CAST('nan' AS DOUBLE) AS mse
FROM certify t JOIN clean c USING (dataset, metric, name) ORDER BY ALL
"""
COLUMNS = (
    ColumnSpec(key="d", label="D, attacked", better="lower", decimals=2, description=MEASURES["d"].text),
    ColumnSpec(key="r", label="R, attacked", better="higher", decimals=3, description=MEASURES["r"].text),
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
    """Return the table of certified defenses."""
    if not {"certify", "smooth", "clean"} <= query.steps:
        return []
    attacked = bool(query("SELECT max(attacked) AS any FROM certify_tasks")["any"][0])
    rows = query(_ROWS.format(names="t.method, t.strength," if attacked else "'' AS method, '' AS strength,"))
    rows = scored({k: _text(v) if k in ("method", "strength") else v for k, v in rows.items()})
    seconds = query("SELECT defense, avg(seconds) AS seconds FROM smooth_tasks GROUP BY defense")
    times = dict(zip(seconds["defense"], seconds["seconds"], strict=True))
    usual = where(rows, rows["defense"] == rows["entry"])
    found = [_row(label, where(usual, usual["defense"] == label), times) for label in np.unique(usual["defense"])]
    return [
        Table(
            id="certified",
            title="Tables 3 and 21: certified defenses",
            caption="Fixed attacks. Smoothing by class (rs, drs, ddrs, dp) promises that the class of the score stays "
            "within a radius, median smoothing (ms, dms) that the score stays within an interval. Abstentions are "
            "counted and left out.",
            entry="defense",
            columns=COLUMNS,
            rows=tuple(found),
            note=note,
        ),
        *_by_classes(rows, note),
    ]


def _by_classes(rows: Columns, note: str) -> list[Table]:
    """Return table 9: what the number of classes does to the discretised score and to the radius."""
    clean = where(rows, ~rows["attacked"].astype(bool))
    found = []
    for entry in np.unique(clean["entry"]):
        own = where(clean, clean["entry"] == entry)
        counts = np.unique(own["classes"]).tolist()
        if len(counts) > 1:
            found += [_classes_row(entry, int(n), where(own, own["classes"] == n)) for n in counts]
            whole = where(own, own["classes"] == counts[0])
            whole["score"] = whole["source"]
            values = {"srocc": correlation(whole, resampled=False)}
            reason = missing("the score itself is not smoothed")
            found.append(
                Row(label=f"{entry}, no classes", values={**values, "srocc_smoothed": reason, "radius": reason})
            )
    if not found:
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
            rows=tuple(found),
            note=note,
        )
    ]


def _classes_row(entry: str, classes: int, rows: Columns) -> Row:
    kept = where(rows, ~rows["abstained"].astype(bool))
    place = (rows["source"] - rows["lower"]) / (rows["upper"] - rows["lower"]) * classes
    plain = {**rows, "score": np.clip(np.floor(place.astype(float)) + 1, 0, classes + 1)}
    values = {
        "srocc": correlation(plain, resampled=False),
        "srocc_smoothed": correlation(kept, resampled=False),
        "radius": mean_value(rows["radius"].astype(float)),
    }
    return Row(label=f"{entry}, {classes}", values=values)


def _text(values: np.ndarray) -> np.ndarray:
    return np.array([value or "" for value in values], dtype=str)


def _row(label: str, rows: Columns, times: dict[str, float]) -> Row:
    abstained = rows["abstained"].astype(bool)
    kept = where(rows, ~abstained)
    clean, attacked = (where(kept, kept["attacked"].astype(bool) == flag) for flag in (False, True))
    span = kept["upper"].astype(float) - kept["lower"].astype(float)
    values: dict[str, Value] = {
        "d": mean_of(attacked, "d"),
        "r": mean_of(attacked, "r"),
        "srocc_clean": correlation(clean, resampled=False),
        "srocc": correlation(attacked, resampled=False),
        "radius": mean_value(kept["radius"].astype(float)),
        "delta": mean_value(kept["delta"].astype(float) / span),
        "abstained": Value(value=100 * float(abstained.mean()), n=len(abstained)),
        "seconds": Value(value=float(times[label])) if label in times else missing("shares the pass of another one"),
    }
    return Row(label=str(label), values=values)
