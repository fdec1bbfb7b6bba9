"""The gate on fidelity: a winner must leave clean images similar to the originals, not return other pictures.

The mean SSIM must reach a threshold. A single image counts with at most a little more than that threshold, so that
images which stay as they are do not make up for others which are replaced.
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
"""The largest SSIM that an image counts with, as a multiple of the threshold."""
_ROWS = f"""
SELECT p.defense, dataset, {UNIT} AS unit, {MEASURE} AS score FROM purify p
SEMI JOIN (SELECT dataset, name FROM clean) USING (dataset, name)
"""


@dataclass(frozen=True)
class Fidelity:
    """How similar defended clean images are to the originals, by defense, and what a winner must reach.

    `least`: the threshold of the mean SSIM, geometry undone. `values`: what each photograph contributes to the mean
    ``(k,)``, by the label of a purification; imported entries, and those that do not change images, have none.
    """

    least: float
    values: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, query: Query, study: Study, least: float) -> "Fidelity":
        """Return the fidelity on the reported images; with a threshold `least` of 0, the gate is open for all."""
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
        """The gate, which holds for purifications that were measured."""
        return Gate(
            "image fidelity (SSIM)",
            f"at least {self.least:g}; an image counts up to {SPARE * self.least:g}",
            lambda label: self.values[label] - self.least if label in self.values else None,
        )


def _by_photograph(subset: Part, most: float) -> np.ndarray:
    """Return what each photograph contributes to the mean SSIM ``(k,)``; an image counts with at most `most`."""
    numbers, photographs = subset.by_image("score")
    return contributions(np.minimum(numbers, most)[None], photographs)[0]
