"""What a defense costs, and what else the worst attack does: the table beside the ranking."""

import numpy as np

from imharness.tables import ColumnSpec, Row, Table, Value, mean_value, missing, ranked
from imharness.tracks import Query
from imharness_iqa.tables.data import KINDS, MEASURES, UNIT, Columns, Study, computed
from imharness_iqa.tables.part import Part
from imharness_iqa.tables.worst import Worst

_ROWS = """
SELECT p.defense, dataset, {unit} AS unit, {measures} FROM purify p
SEMI JOIN (SELECT dataset, name FROM clean) USING (dataset, name)
"""
SAME = 159.0
"""PSNR above which images are identical, dB: there `harness/psnr` ends, at 160."""
_UNDONE = " What the defense declares to do to the geometry of images is undone before."


def _left(key: str, name: str, label: str, text: str) -> ColumnSpec:
    said = f"Of the defended clean image to the original.{text}"
    return MEASURES[name].model_copy(update={"key": key, "label": label, "description": said})


SHOWN = {
    "psnr": _left("psnr", "psnr", "PSNR of D(x)", " Images that a defense leaves as they are have none."),
    "ssim": _left("ssim", "ssim", "SSIM of D(x)", ""),
    "psnr_undone": _left("psnr_undone", "psnr", "PSNR, geometry undone", _UNDONE),
    "ssim_undone": _left("ssim_undone", "ssim", "SSIM, geometry undone", _UNDONE),
}
"""What is left of images."""
COLUMNS = (
    MEASURES["d"].model_copy(update={
        "label": "D %, worst attack", "description": f"{MEASURES['d'].description} The worst of all attacks counts for "
        "each image."}),
    MEASURES["gain"].model_copy(update={
        "label": "gain %, worst attack", "description": f"{MEASURES['gain'].description} The largest of all attacks "
        "counts for each image."}),
    MEASURES["dd"].model_copy(update={
        "label": "D^D %, mean", "description": f"{MEASURES['dd'].description} Mean over all attacks."}),
    MEASURES["d"].model_copy(update={
        "key": "turned", "label": "pairs turned %", "decimals": 1, "description": "Share of the pairs of images whose "
        "order attacks can turn, if they may change one image of a pair or both."}),
    MEASURES["srocc"].model_copy(update={
        "label": "SROCC, worst attack", "description": "Spearman correlation of the scores that the worst attack on "
        "each image leaves with the quality labels, mean over metrics."}),
)  # fmt: skip
MS = ColumnSpec(key="ms", label="ms", better="lower", decimals=2, description="Time of the defense per image.")


def tables(query: Query, worst: Worst) -> list[Table]:
    """Return the table, in the order of D^D under the worst attack."""
    study, part = worst.study, worst.part
    kept = _kept(query, study)
    rows = []
    for label in part.blocks.entries:
        own, attacked = part.of(label), study.reported.of(label).where(attacker=KINDS)
        values = {
            "worst": own.mean("dd"), "d": own.mean("d"), "gain": own.mean("gain"), "dd": attacked.mean("dd"),
            "turned": _turned(own), "srocc": own.correlation(resampled=True), **_cost(kept, study, label),
        }  # fmt: skip
        rows.append(Row(label=label, values=values))
    order = ColumnSpec(key="worst", label="", description="", better="lower")
    return [
        Table(
            id="cost",
            title="What defenses cost, and further measures of protection",
            caption="Over the same attacks and images as the ranking, best first by D^D of the worst attack. Each "
            f"image counts once, with its mean over metrics and data sets.{study.half}",
            entry="defense",
            columns=(*COLUMNS, *(SHOWN[name] for name in (kept.blocks.values if kept else ()) if name in SHOWN), MS),
            rows=tuple(ranked(rows, order)),
            note=study.note,
        )
    ]


def _turned(own: Part) -> Value:
    """Return the mean share of an image's pairs, %.

    As a pair has two images, each counts twice in the spread: these are the pseudo-values of the jackknife (Arvesen,
    "Jackknifing U-statistics", Annals of Mathematical Statistics 1969).
    """
    if not own.lines("turned"):
        return missing("no pair of images with different scores")
    shares, photographs = own.by_image("turned")
    return mean_value(2 * shares - shares.mean(), photographs)


def _kept(query: Query, study: Study) -> Part | None:
    """Return how much defenses leave of the images that are reported; None where nobody measured it."""
    known = query("SELECT * FROM purify LIMIT 0") if "purify" in query.steps else {}
    measures = [name for name in SHOWN if name in known]
    if not measures:
        return None
    found = query.blocks(_ROWS.format(unit=UNIT, measures=", ".join(measures)), entry="defense", by=["dataset"],
                         unit="unit", measures=measures)  # fmt: skip
    part, own = Part.whole(computed(found, _without_identical), study.sources), study.reported_clean
    return part.on({p for places in own.places for p in own.photographs[places]})


def _without_identical(own: Columns) -> Columns:
    """Return the same, without the PSNR of images that the defense leaves as they are."""
    found = {name: np.where(own[name] > SAME, np.nan, own[name]) if "psnr" in name else own[name] for name in SHOWN
             if name in own}  # fmt: skip
    return {"score": next(iter(own.values())), **found}


def _cost(kept: Part | None, study: Study, label: str) -> dict[str, Value]:
    ms = Value(value=float(study.times[label])) if label in study.times else missing("not timed")
    if kept is None:
        return {"ms": ms}
    names = [name for name in SHOWN if name in kept.blocks.values]
    own = kept.of(label)
    if label in study.trained or not own.lines():
        reason = missing("leaves images as they are" if label in study.trained else "not measured")
        return {"ms": ms, **dict.fromkeys(names, reason)}
    found = {name: own.mean(name) if own.lines(name) else missing("leaves images as they are") for name in names}
    return {"ms": ms, **found}
