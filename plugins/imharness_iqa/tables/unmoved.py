"""Defenses that answer several versions of an image with exactly one picture: looked up, or with nothing left of it."""

from collections.abc import Iterator

import numpy as np

from imharness.tracks import TAKEN_BACK
from imharness_iqa.tables.data import BASELINE, Study
from imharness_iqa.tables.part import Part

FEWEST = 3
"""The number of photographs from which on scores that stay as they are cannot be an accident."""
MOVED = 2.0
"""An attack counts where it moves the score without a defense by more than this, % of the metric's range."""
WHOLE = ("white-box, bounded", "white-box, unrestricted")
"""Attacks that change all of an image: a cropped image need not hold a patch."""


def looked_up(study: Study) -> dict[str, tuple[str, ...]]:
    """Return for each defense that no attack moves on some photographs why its protection is an upper bound.

    The same attacked images, made without knowledge of any defense, are shown to all. A photograph stays where no such
    attack moves the score of any of its versions by a single bit. On `FEWEST` photographs or more, these are scores of
    pictures that the defense already had, or of some in which next to nothing of the image is left, such as its mean
    colour: scores do not tell these apart. A codec or a quantiser that meets what it, or its like, has made takes small
    changes back, too, but does so on any image: `imharness.running.look_ups` asks, and such photographs do not count.
    Metrics that give two images the same score tell nothing of it.
    """
    photographs, counts = _kept(study.attacked.where(attacker="fixed", type=WHOLE))
    return {
        label: (
            "a look-up, or next to nothing of the image is left: attacks that do not know it move the score of no "
            f"version of {count} of {len(photographs)} photographs by a single bit, though it lets the same changes "
            "through where it cannot know the image, or does not show it",
        )
        for label, count in counts.items()
        if count >= FEWEST
    }


def _kept(subset: Part) -> tuple[np.ndarray, dict[str, int]]:
    """Return the photographs of which attacks move a version without a defense, and how many stay behind each."""
    labels = subset.blocks.entries
    met = np.zeros((len(labels), len(subset.photographs)), dtype=bool)
    moved, hidden = np.zeros_like(met), np.zeros_like(met)
    for at, same, lets_through in _compared(subset):
        met[:, at] |= ~np.isnan(same)
        moved[:, at] |= same == 0
        hidden[:, at] |= (same == 1) & lets_through
    names, inverse = np.unique(subset.photographs.astype(str), return_inverse=True)

    def any_of(images: np.ndarray) -> np.ndarray:
        return np.bincount(inverse, images, len(names)) > 0

    hidden_masks = {label: any_of(hidden[i]) & ~any_of(moved[i]) for i, label in enumerate(labels)}
    return names[any_of(met.any(axis=0))], {label: int(stays.sum()) for label, stays in hidden_masks.items()}


def _compared(subset: Part) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield for each condition the places of images, whether their scores stay ``(entries, places)``, 1, 0 or NaN, and
    whether the entry lets the change through elsewhere, or nobody asked."""
    if BASELINE not in subset.blocks.entries:
        return
    plain, values = subset.blocks.entries.index(BASELINE), subset.blocks.values
    for c in subset.conditions:
        score, clean = values["score"][c], values["defended"][c]
        finite = clean[plain][np.isfinite(clean[plain])]
        if len(np.unique(finite)) == len(finite):
            positions = np.flatnonzero(values["dd"][c][plain] > MOVED)
            missing = ~np.isfinite(score) | ~np.isfinite(clean)
            lets_through = ~(values["elsewhere"][c] <= TAKEN_BACK)
            yield (
                subset.places[c][positions],
                np.where(missing, np.nan, score == clean)[:, positions],
                lets_through[:, positions],
            )
