"""What a defense costs, and what else the worst attack does: the table beside the ranking."""

from collections.abc import Collection

import numpy as np

from imharness.tables import ColumnSpec, Row, Table, Value, mean_value, missing, ranked
from imharness.tracks import Query
from imharness_iqa.tables.data import KINDS, MEASURES, UNIT, Columns, Study, computed
from imharness_iqa.tables.part import Part
from imharness_iqa.tables.worst import NO_ORDER, Worst

_ROWS = """
SELECT p.defense, dataset, {unit} AS unit, {measures} FROM purify p
SEMI JOIN (SELECT dataset, name FROM clean) USING (dataset, name)
"""
SAME = 159.0
"""PSNR above which images count as identical, dB; `harness/psnr` is at most 160 dB."""
_UNDONE = " The change of geometry that the defense declares is undone first."


def _left(key: str, name: str, label: str, text: str) -> ColumnSpec:
    said = f"Of the defended clean image to the original.{text}"
    return MEASURES[name].model_copy(update={"key": key, "label": label, "description": said})


SHOWN = {
    "psnr": _left("psnr", "psnr", "PSNR of D(x)", " Images that a defense does not change have none."),
    "ssim": _left("ssim", "ssim", "SSIM of D(x)", ""),
    "psnr_undone": _left("psnr_undone", "psnr", "PSNR, geometry undone", _UNDONE),
    "ssim_undone": _left("ssim_undone", "ssim", "SSIM, geometry undone", _UNDONE),
}
"""The columns that say how much of an image is left."""
COLUMNS = (
    MEASURES["shift"].model_copy(
        update={
            "label": "shift, worst attack",
            "description": f"{MEASURES['shift'].description} The worst of all attacks counts for each image.",
        }
    ),
    MEASURES["turned"].model_copy(
        update={
            "key": "both",
            "label": "pairs turned, both attacked %",
            "description": "Share of the pairs of images whose "
            "order attacks can turn, if they may change one image of a pair or both.",
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
    """Return the table, in the order of the pairs that the worst attack turns."""
    study, part = worst.study, worst.part
    kept, untouched = _kept(query, study), study.trained | _untouched(query)
    rows = []
    for label in part.blocks.entries:
        own, attacked = part.of(label), study.reported.of(label).where(attacker=KINDS)
        values = {
            "worst": _of_order(own, "turned"),
            "shift": _of_order(own, "shift"),
            "both": _both(own),
            "dd_worst": own.mean("dd"),
            "d": own.mean("d"),
            "gain": own.mean("gain"),
            "dd": attacked.mean("dd"),
            "srocc": own.correlation(resampled=True),
            **_cost(kept, study, label, untouched),
        }
        rows.append(Row(label=label, values=values))
    order = ColumnSpec(key="worst", label="", description="", better="lower")
    return [
        Table(
            id="cost",
            title="What defenses cost, and further measures of protection",
            caption="Over the same attacks and images as the ranking, best first by the pairs that the worst attack "
            "turns. Each image counts once, with its mean over metrics and data sets. A defense that returns "
            "c + eps f(x) makes D^D as small as it likes, but does not change the shift in spreads. A map that is flat "
            f"where attacks lead makes that smaller, too, but attacks turn as many pairs.{study.half}",
            entry="defense",
            columns=(*COLUMNS, *(SHOWN[name] for name in (kept.blocks.values if kept else ()) if name in SHOWN), MS),
            rows=tuple(ranked(rows, order)),
            note=study.note,
        )
    ]


def _of_order(own: Part, measure: str) -> Value:
    return own.mean(measure) if own.lines(measure) else missing(NO_ORDER)


def _both(own: Part) -> Value:
    """Return the mean share of an image's pairs, %.

    As a pair has two images, each counts twice in the spread: these are the pseudo-values of the jackknife (Arvesen,
    "Jackknifing U-statistics", Annals of Mathematical Statistics 1969).
    """
    if not own.lines("both"):
        return missing("no pair of images with different scores")
    shares, photographs = own.by_image("both")
    return mean_value(2 * shares - shares.mean(), photographs)


def _kept(query: Query, study: Study) -> Part | None:
    """Return how much defenses leave of the reported images; None if that was not measured."""
    known = query("SELECT * FROM purify LIMIT 0") if "purify" in query.steps else {}
    measures = [name for name in SHOWN if name in known]
    if not measures:
        return None
    found = query.blocks(
        _ROWS.format(unit=UNIT, measures=", ".join(measures)),
        entry="defense",
        by=["dataset"],
        unit="unit",
        measures=measures,
    )
    part, own = Part.whole(computed(found, _without_identical), study.sources), study.reported_clean
    return part.on({p for places in own.places for p in own.photographs[places]})


def _without_identical(own: Columns) -> Columns:
    """Return the same, without the PSNR of images that the defense does not change."""
    found = {
        name: np.where(own[name] > SAME, np.nan, own[name]) if "psnr" in name else own[name]
        for name in SHOWN
        if name in own
    }
    return {"score": next(iter(own.values())), **found}


def _untouched(query: Query) -> set[str]:
    """Return the defenses that were computed and do not change images."""
    if not {"defended", "purify"} <= query.steps:
        return set()
    found = query("SELECT DISTINCT defense FROM defended EXCEPT SELECT DISTINCT defense FROM purify")
    return set(found["defense"].tolist())


def _cost(kept: Part | None, study: Study, label: str, untouched: Collection[str]) -> dict[str, Value]:
    ms = Value(value=float(study.times[label])) if label in study.times else missing("not timed")
    if kept is None:
        return {"ms": ms}
    names = [name for name in SHOWN if name in kept.blocks.values]
    own = kept.of(label)
    if label in untouched or not own.lines():
        reason = missing("does not change images" if label in untouched else "not measured")
        return {"ms": ms, **dict.fromkeys(names, reason)}
    found = {name: own.mean(name) if own.lines(name) else missing("does not change images") for name in names}
    return {"ms": ms, **found}
