"""What defenses leave of clean images: the gate that keeps out defenses that return pictures of their own."""

from collections.abc import Mapping
from dataclasses import dataclass

from imharness.tables import Value
from imharness.tracks import Query
from imharness_iqa.tables.data import UNIT, Study
from imharness_iqa.tables.part import Part

MEASURE = "ssim_undone"
"""SSIM of D(x) to x after what a defense declares to do to the geometry of images was undone."""
_ROWS = f"""
SELECT p.defense, dataset, {UNIT} AS unit, {MEASURE} AS score FROM purify p
SEMI JOIN (SELECT dataset, name FROM clean) USING (dataset, name)
"""


@dataclass(frozen=True)
class Fidelity:
    """How close defended clean images are to the originals, by defense, and what is asked of a winner.

    `least`: the mean SSIM, geometry undone, that a winner must keep. `values`: that of each purification that was
    measured, which excludes imported entries and those that do not change images.
    """

    least: float
    values: Mapping[str, Value]

    @classmethod
    def of(cls, query: Query, study: Study, least: float) -> "Fidelity":
        """Return what was measured on the reported images."""
        known = query("SELECT * FROM purify LIMIT 0") if "purify" in query.steps else {}
        if MEASURE not in known or "clean" not in query.steps:
            return cls(least, {})
        blocks = query.blocks(_ROWS, entry="defense", by=["dataset"], unit="unit", measures=["score"])
        clean = study.reported_clean
        part = Part.whole(blocks, study.sources)
        part = part.on({p for places in clean.places for p in clean.photographs[places]})
        found = {label: part.of(label) for label in blocks.entries}
        return cls(least, {label: own.mean("score") for label, own in found.items() if own.lines()})

    @property
    def failed(self) -> Mapping[str, str]:
        """The defenses that change images too much, and by how much, in words."""
        return {
            label: f"SSIM of D(x) to x, geometry undone, is {value.value:.3f}, below {self.least:g}"
            for label, value in self.values.items()
            if value.value is not None and value.value < self.least
        }
