"""Tables 3, 9 and 21 of the paper: certified defenses, what they promise, and what that costs."""

from collections.abc import Mapping

import numpy as np

from imharness.leaderboard import Row, Table, Value, missing
from imharness.tracks import Query
from imharness_iqa.tables.data import PAPER, UNIT, computed, image_column, read_sources
from imharness_iqa.tables.formulas import Columns, moved
from imharness_iqa.tables.part import Part

_ROWS = f"""
SELECT t.task, dataset, metric, defense, {UNIT} AS unit, t.score, t.radius, t.delta,
       CAST(t.abstained AS DOUBLE) AS abstained, CASE WHEN t.attacked THEN 'attacked' ELSE 'clean' END AS shown,
       c.score AS source, c.mos, c.lower, c.upper, c.sign,
       CASE WHEN t.attacked AND NOT s.abstained THEN s.score END AS smoothed
FROM certify t
JOIN clean c USING (dataset, metric, name)
LEFT JOIN (SELECT dataset, metric, defense, name, score, abstained FROM certify WHERE NOT attacked) s
    USING (dataset, metric, defense, name)
"""


COLUMNS = (
    image_column("d", "D, attacked", "lower", 2, "100 |s(x) - s(x')| / range, with the smoothed score s."),
    image_column(
        "r", "R, attacked", "higher", 3, "log10 of the largest possible change of s over the one that happened."
    ),
    image_column("ties", "ties %", "", 1, "Pairs of a clean and an attacked image with equal smoothed scores."),
    image_column("r_without_ties", "R, no ties", "higher", 3, "R over the pairs with different smoothed scores."),
    image_column(
        "srocc_clean",
        "SROCC, clean",
        "higher",
        3,
        "Spearman correlation of the smoothed clean score with the quality labels.",
    ),
    image_column(
        "srocc",
        "SROCC, attacked",
        "higher",
        3,
        "Spearman correlation of the smoothed attacked score with the quality labels.",
    ),
    image_column(
        "conditions_clean",
        "conditions, clean",
        "",
        0,
        "Conditions with a correlation of the smoothed clean score: three images or more have one, not all the same.",
    ),
    image_column(
        "images_clean",
        "images, clean",
        "",
        1,
        "Images with a smoothed score in such a condition, mean over conditions.",
    ),
    image_column("conditions", "conditions, attacked", "", 0, "The same for the smoothed attacked score."),
    image_column("images", "images, attacked", "", 1, "The same for the smoothed attacked score."),
    image_column(
        "radius",
        "radius",
        "higher",
        4,
        "Mean Euclidean distance within which the class stays, for images in [0, 1]; abstentions are left out.",
    ),
    image_column("abstained", "abstained %", "lower", 1, "Share of images for which nothing is promised."),
    image_column(
        "delta",
        "relative delta",
        "lower",
        4,
        "Width of the interval that contains the score of every image within the radius, divided by the range.",
    ),
    image_column("seconds", "s per image", "lower", 2, "Time of the pass over noisy copies."),
)


def tables(query: Query, note: str) -> list[Table]:
    """Return the table of certified defenses, and that of the number of their classes."""
    if not {"certify", "smooth", "clean"} <= query.steps:
        return []
    blocks = query.blocks(
        _ROWS,
        entry="defense",
        by=["dataset", "metric", "shown", "task"],
        unit="unit",
        measures=["score", "radius", "delta", "abstained", "smoothed"],
        about=["source", "mos", "lower", "upper", "sign"],
    )
    if not blocks.conditions:
        return []
    variants = query("SELECT DISTINCT entry, classes, defense FROM certify ORDER BY ALL")
    seconds = query("SELECT defense, avg(seconds) AS seconds FROM smooth_tasks GROUP BY defense")
    times = dict(zip(seconds["defense"], seconds["seconds"], strict=True))
    usual = [label for label, entry in zip(variants["defense"], variants["entry"], strict=True) if label == entry]
    whole = Part.whole(computed(blocks, _without_abstentions), read_sources(query))
    return [
        Table(
            id="certified",
            title=f"Tables 3 and 21 of {PAPER}: certified defenses",
            caption="Fixed attacks. Smoothing by class (rs, drs, ddrs, dp) promises that the class of the score stays "
            "within a radius, median smoothing (ms, dms) that the score stays within an interval. D and R compare the "
            "smoothed score of the attacked image with that of the clean one. Abstentions are counted and left out, of "
            "pairs when either image has one. Radius, abstentions and delta are over clean and attacked images "
            "together. Each image counts once, with its mean over conditions.",
            entry="defense",
            columns=COLUMNS,
            rows=tuple(_row(label, whole.of(label), times) for label in usual),
            note=note,
        ),
        *_by_classes(whole.where(shown="clean"), variants, note),
    ]


def _without_abstentions(columns: Columns) -> Columns:
    """Return the measures of the table; where the defense abstains, there is no smoothed score, D, R or promise."""
    d, r = moved(columns["score"], columns["smoothed"], columns["lower"], columns["upper"])
    tied = {"ties": np.where(np.isnan(d), np.nan, 100.0 * (d == 0)), "r_without_ties": np.where(d == 0, np.nan, r)}
    delta = columns["delta"] / (columns["upper"] - columns["lower"])
    promised = {"score": columns["score"], "d": d, "r": r, **tied, "radius": columns["radius"], "delta": delta}
    promised = {name: np.where(columns["abstained"] == 0, numbers, np.nan) for name, numbers in promised.items()}
    source = np.where(np.isnan(columns["abstained"]), np.nan, columns["source"])
    return {**promised, "source": source, "abstained": 100 * columns["abstained"], "any_radius": columns["radius"]}


def _row(label: str, subset: Part, times: Mapping[str, float]) -> Row:
    clean, attacked = subset.where(shown="clean"), subset.where(shown="attacked")
    conditions_clean, images_clean = clean.left()
    conditions_attacked, images_attacked = attacked.left()
    values = {
        **{name: attacked.mean(name) for name in ("d", "r", "ties", "r_without_ties")},
        "srocc_clean": clean.correlation(),
        "srocc": attacked.correlation(),
        "conditions_clean": conditions_clean,
        "images_clean": images_clean,
        "conditions": conditions_attacked,
        "images": images_attacked,
        **{name: subset.mean(name) for name in ("radius", "delta", "abstained")},
        "seconds": Value(value=float(times[label])) if label in times else missing("uses the pass of another one"),
    }
    return Row(label=label, values=values)


def _by_classes(clean: Part, variants: Mapping[str, np.ndarray], note: str) -> list[Table]:
    """Return table 9, the effect of the number of classes on the discretised score and on the radius; or nothing."""
    rows = []
    for entry in np.unique(variants["entry"]):
        of_entry = variants["entry"] == entry
        classes = dict(zip(variants["defense"][of_entry], variants["classes"][of_entry].tolist(), strict=True))
        classes = {label: count for label, count in classes.items() if clean.of(label).lines("source")}
        if len(classes) > 1:
            rows += [_classes_row(f"{entry}, {count}", clean, label, count) for label, count in classes.items()]
            whole = clean.of(next(iter(classes))).correlation(measure="source")
            reason = missing("the score itself is not smoothed")
            values = {"srocc": whole, "srocc_smoothed": reason, "radius": reason}
            rows.append(Row(label=f"{entry}, no classes", values=values))
    if not rows:
        return []
    columns = (
        image_column(
            "srocc",
            "SROCC",
            "higher",
            3,
            "Spearman correlation of the class of the clean score with the quality labels.",
        ),
        image_column(
            "srocc_smoothed",
            "SROCC, smoothed",
            "higher",
            3,
            "Spearman correlation of the most frequent class of noisy copies with the quality labels; abstentions are "
            "left out.",
        ),
        image_column("radius", "radius", "higher", 4, "Mean certified distance; an abstention counts as 0."),
    )
    return [
        Table(
            id="classes",
            title=f"Table 9 of {PAPER}: number of classes",
            caption="Clean images. More classes keep more of the order, but attacks cross their borders more easily.",
            entry="classes",
            columns=columns,
            rows=tuple(rows),
            note=note,
        )
    ]


def _classes_row(title: str, clean: Part, label: str, classes: int) -> Row:
    def class_of_clean(columns: Columns) -> Columns:
        share = (columns["source"] - columns["lower"]) / (columns["upper"] - columns["lower"])
        return {"class": np.clip(np.floor(share * classes) + 1, 0, classes + 1)}

    subset = clean.of(label)
    values = {
        "srocc": subset.of_blocks(computed(subset.blocks, class_of_clean)).correlation(measure="class"),
        "srocc_smoothed": subset.correlation(),
        "radius": subset.mean("any_radius"),
    }
    return Row(label=title, values=values)
