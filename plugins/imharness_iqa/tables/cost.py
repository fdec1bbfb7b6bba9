"""The table beside the ranking: what a defense costs, and further measures of the worst attack."""

from collections.abc import Collection

import numpy as np

from imharness.leaderboard import ColumnSpec, Row, Table, Value, mean_value, missing, ranked
from imharness.tracks import Query
from imharness_iqa.tables.data import KINDS, MEASURES, UNIT, Study, computed
from imharness_iqa.tables.formulas import Columns
from imharness_iqa.tables.part import Part
from imharness_iqa.tables.worst import NO_ORDER, Worst

_ROWS = """
SELECT p.defense, dataset, {unit} AS unit, {measures} FROM purify p
SEMI JOIN (SELECT dataset, name FROM clean) USING (dataset, name)
"""
SAME = 159.0
"""PSNR above which images count as identical, dB; `harness/psnr` is at most 160 dB."""
_UNDONE = " The change of geometry that the defense declares is undone first."


def _fidelity_column(key: str, name: str, label: str, text: str) -> ColumnSpec:
    """Return a column of how near the defended clean image is to the original, by the measure `name`."""
    description = f"Of the defended clean image to the original.{text}"
    return MEASURES[name].model_copy(update={"key": key, "label": label, "description": description})


SHOWN = {
    "psnr": _fidelity_column("psnr", "psnr", "PSNR of D(x)", " Images that a defense does not change have none."),
    "ssim": _fidelity_column("ssim", "ssim", "SSIM of D(x)", ""),
    "psnr_undone": _fidelity_column("psnr_undone", "psnr", "PSNR, geometry undone", _UNDONE),
    "ssim_undone": _fidelity_column("ssim_undone", "ssim", "SSIM, geometry undone", _UNDONE),
}
"""The columns on how near the defended clean image is to the original."""
COLUMNS = (
    MEASURES["shift"].model_copy(
        update={
            "label": "shift, worst attack",
            "description": f"{MEASURES['shift'].description} The worst of all attacks counts for each image.",
        }
    ),
    MEASURES["reversed"].model_copy(
        update={
            "key": "both",
            "label": "pairs reversed, both attacked %",
            "description": "Share of the pairs of images whose "
            "order attacks can reverse, if they may change one image of a pair or both.",
        }
    ),
    MEASURES["dd"].model_copy(
        update={
            "key": "dd_worst",
            "label": "D^D %, worst attack",
            "description": f"{MEASURES['dd'].description} The worst of "
            "all attacks counts for each image. A defense that makes all scores small makes it small.",
        }
    ),
    MEASURES["d"].model_copy(
        update={
            "label": "D %, worst attack",
            "description": f"{MEASURES['d'].description} The worst of all attacks counts for each image.",
        }
    ),
    MEASURES["gain"].model_copy(
        update={
            "label": "gain %, worst attack",
            "description": f"{MEASURES['gain'].description} The largest of all attacks counts for each image.",
        }
    ),
    MEASURES["dd"].model_copy(
        update={"label": "D^D %, mean", "description": f"{MEASURES['dd'].description} Mean over all attacks."}
    ),
    MEASURES["srocc"].model_copy(
        update={
            "label": "SROCC, worst attack",
            "description": "Spearman correlation of the scores that the worst attack on "
            "each image leaves with the quality labels, mean over metrics.",
        }
    ),
)
MS = ColumnSpec(key="ms", label="ms", better="lower", decimals=2, description="Time of the defense per image.")


def tables(query: Query, worst: Worst) -> list[Table]:
    """Return the table, in the order of the pairs that the worst attack reverses."""
    study, subset = worst.study, worst.part
    purified, untouched = _fidelity(query, study), study.trained | _untouched(query)
    rows = []
    for label in subset.blocks.entries:
        entry_subset, attacked = subset.of(label), study.reported.of(label).where(attacker=KINDS)
        values = {
            "worst": _of_order(entry_subset, "reversed"),
            "shift": _of_order(entry_subset, "shift"),
            "both": _both(entry_subset),
            "dd_worst": entry_subset.mean("dd"),
            "d": entry_subset.mean("d"),
            "gain": entry_subset.mean("gain"),
            "dd": attacked.mean("dd"),
            "srocc": entry_subset.correlation(resampled=True),
            **_cost(purified, study, label, untouched),
        }
        rows.append(Row(label=label, values=values))
    order = ColumnSpec(key="worst", label="", description="", better="lower")
    return [
        Table(
            id="cost",
            title="What defenses cost, and further measures of protection",
            caption="Over the same attacks and images as the ranking, best first by the pairs that the worst attack "
            "reverses. Each image counts once, with its mean over metrics and data sets. A defense that returns "
            "c + eps f(x) makes D^D as small as it likes, but does not change the shift in spreads. A map that is flat "
            f"where attacks lead makes that smaller, too, but attacks reverse as many pairs.{study.half}",
            entry="defense",
            columns=(
                *COLUMNS,
                *(SHOWN[name] for name in (purified.blocks.values if purified else ()) if name in SHOWN),
                MS,
            ),
            rows=tuple(ranked(rows, order)),
            note=study.note,
        )
    ]


def _of_order(subset: Part, measure: str) -> Value:
    return subset.mean(measure) if subset.lines(measure) else missing(NO_ORDER)


def _both(subset: Part) -> Value:
    """Return the mean over images of the share of pairs that can be reversed, %, with an interval.

    A pair counts for both of its images. The interval is that of the jackknife's pseudo-values, which have twice the
    distance from the mean that the shares have (Arvesen, "Jackknifing U-statistics", Annals of Mathematical Statistics
    1969).
    """
    if not subset.lines("both"):
        return missing("no pair of images with different scores")
    shares, photographs = subset.by_image("both")
    return mean_value(2 * shares - shares.mean(), photographs)


def _fidelity(query: Query, study: Study) -> Part | None:
    """Return how near defended clean images are to the reported ones; None if that was not measured."""
    columns = query("SELECT * FROM purify LIMIT 0") if "purify" in query.steps else {}
    measures = [name for name in SHOWN if name in columns]
    if not measures:
        return None
    blocks = query.blocks(
        _ROWS.format(unit=UNIT, measures=", ".join(measures)),
        entry="defense",
        by=["dataset"],
        unit="unit",
        measures=measures,
    )
    subset, clean = Part.whole(computed(blocks, _without_identical), study.sources), study.reported_clean
    return subset.on({p for places in clean.places for p in clean.photographs[places]})


def _without_identical(columns: Columns) -> Columns:
    """Return the same, without the PSNR of images that the defense does not change."""
    measures = {
        name: np.where(columns[name] > SAME, np.nan, columns[name]) if "psnr" in name else columns[name]
        for name in SHOWN
        if name in columns
    }
    return {"score": next(iter(columns.values())), **measures}


def _untouched(query: Query) -> set[str]:
    """Return the defenses that were computed and do not change images."""
    if not {"defended", "purify"} <= query.steps:
        return set()
    rows = query("SELECT DISTINCT defense FROM defended EXCEPT SELECT DISTINCT defense FROM purify")
    return set(rows["defense"].tolist())


def _cost(purified: Part | None, study: Study, label: str, untouched: Collection[str]) -> dict[str, Value]:
    ms = Value(value=float(study.times[label])) if label in study.times else missing("not timed")
    if purified is None:
        return {"ms": ms}
    names = [name for name in SHOWN if name in purified.blocks.values]
    subset = purified.of(label)
    if label in untouched or not subset.lines():
        reason = missing("does not change images" if label in untouched else "not measured")
        return {"ms": ms, **dict.fromkeys(names, reason)}
    measures = {name: subset.mean(name) if subset.lines(name) else missing("does not change images") for name in names}
    return {"ms": ms, **measures}
