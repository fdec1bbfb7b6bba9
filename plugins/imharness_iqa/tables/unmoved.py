"""Defenses that answer several versions of an image with exactly one picture: looked up, or with nothing left of it."""

from collections.abc import Iterator

import numpy as np

from imharness_iqa.tables.data import BASELINE, Study
from imharness_iqa.tables.part import Part

FEWEST = 3
"""The number of photographs from which on scores that stay as they are cannot be an accident."""
MOVED = 2.0
"""An attack counts where it moves the score without a defense by more than this, % of the metric's range."""
WHOLE = ("white-box, bounded", "white-box, unrestricted")
"""Attacks that change all of an image: a cropped image need not hold a patch."""


def looked_up(study: Study) -> dict[str, tuple[str, ...]]:
    """Return for each defense that no attack moves on some images why its protection is an upper bound.

    The same attacked images, made without knowledge of any defense, are shown to all. A score that no such attack
    moves by a single bit, on `FEWEST` photographs or more, is that of a picture that the defense already had, or of one
    in which next to nothing of the image is left, such as its mean colour: scores do not tell these apart. Metrics that
    give two images the same score tell nothing of it.
    """
    part = study.attacked.where(attacker="fixed", type=WHOLE)
    found, photographs = _stays(part)
    count = len(set(photographs))
    return {
        label: (
            "a look-up, or next to nothing of the image is left: no attack that does not know it moves the scores of "
            f"{kept} of {count} photographs at all",
        )
        for label, own in found.items()
        if (kept := len(set(photographs[own]))) >= FEWEST
    }


def _stays(part: Part) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return which images no attack moves behind each defense ``(images,)``, and the photograph of each image.

    These are the images on which attacks move the score without a defense.
    """
    labels = part.blocks.entries
    met = np.zeros((len(labels), len(part.photographs)), dtype=bool)
    moved = np.zeros_like(met)
    for at, same in _compared(part):
        met[:, at] |= ~np.isnan(same)
        moved[:, at] |= same == 0
    seen = met.any(axis=0)
    return {label: (met & ~moved)[i, seen] for i, label in enumerate(labels)}, part.photographs[seen]


def _compared(part: Part) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each condition places of images, and whether their scores stay ``(entries, places)``, 1, 0 or NaN."""
    if BASELINE not in part.blocks.entries:
        return
    plain, values = part.blocks.entries.index(BASELINE), part.blocks.values
    for c in part.conditions:
        score, clean = values["score"][c], values["defended"][c]
        known = clean[plain][np.isfinite(clean[plain])]
        if len(np.unique(known)) == len(known):
            own = np.flatnonzero(values["dd"][c][plain] > MOVED)
            missing = ~np.isfinite(score) | ~np.isfinite(clean)
            yield part.places[c][own], np.where(missing, np.nan, score == clean)[:, own]
