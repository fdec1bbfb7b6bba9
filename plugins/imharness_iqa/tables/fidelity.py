"""What defenses leave of clean images: the gate that keeps out defenses that return pictures of their own.

An image counts up to a little more than the least that the mean must reach: one that is left as it is does not make up
for another one that is replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from imharness.leaderboard import Gate, contributions
from imharness.tracks import Query
from imharness_iqa.tables.data import UNIT, Study
from imharness_iqa.tables.part import Part

MEASURE = "ssim_undone"
"""SSIM of D(x) to x after what a defense declares to do to the geometry of images was undone."""
SPARE = 1.2
"""Up to which SSIM an image counts, as a multiple of the least that the mean must reach."""
_ROWS = f"""
SELECT p.defense, dataset, {UNIT} AS unit, {MEASURE} AS score FROM purify p
SEMI JOIN (SELECT dataset, name FROM clean) USING (dataset, name)
"""


@dataclass(frozen=True)
class Fidelity:
    """How close defended clean images are to the originals, by defense, and what is asked of a winner.

    `least`: the mean SSIM, geometry undone, that a winner must keep, of images that count up to `SPARE` times as much.
    `values`: what each photograph contributes to the mean ``(k,)``, for each purification that was measured; this
    excludes imported entries and those that do not change images.
    """

    least: float
    values: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, query: Query, study: Study, least: float) -> "Fidelity":
        """Return what was measured on the reported images; nothing is asked where `least` is 0."""
        columns = query("SELECT * FROM purify LIMIT 0") if "purify" in query.steps else {}
        if not least or MEASURE not in columns or "clean" not in query.steps:
            return cls(least, {})
        blocks = query.blocks(_ROWS, entry="defense", by=["dataset"], unit="unit", measures=["score"])
        clean = study.reported_clean
        subset = Part.whole(blocks, study.sources)
        subset = subset.on({p for places in clean.places for p in clean.photographs[places]})
        subsets = {label: subset.of(label) for label in blocks.entries}
        return cls(
            least,
            {
                label: _by_photograph(entry_subset, SPARE * least)
                for label, entry_subset in subsets.items()
                if entry_subset.lines()
            },
        )

    @property
    def gate(self) -> Gate:
        """What a winner must keep of images, asked of those that change them."""
        return Gate(
            "image fidelity (SSIM)",
            f"at least {self.least:g}; an image counts up to {SPARE * self.least:g}",
            lambda label: self.values[label] - self.least if label in self.values else None,
        )


def _by_photograph(subset: Part, most: float) -> np.ndarray:
    numbers, photographs = subset.by_image("score")
    return contributions(np.minimum(numbers, most)[None], photographs)[0]
