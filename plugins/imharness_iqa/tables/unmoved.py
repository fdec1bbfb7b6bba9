"""Finds defenses that return one picture for several versions of an image: stored, or without anything of the image."""

import numpy as np

from imharness.tracks import TAKEN_BACK
from imharness_iqa.tables.data import BASELINE, Study
from imharness_iqa.tables.part import Part

FEWEST = 3
"""The fewest unmoved photographs that count; fewer may be due to chance."""
MOVED = 2.0
"""An attack counts where it moves the score without a defense by more than this, % of the metric's range."""
WHOLE = ("white-box, bounded", "white-box, unrestricted")
"""The types of attacks that count: they change all of an image. A defense that crops may cut off a patch."""


def looked_up(study: Study) -> dict[str, tuple[str, ...]]:
    """Return defense -> why its protection is an upper bound, for defenses that no attack moves on some photographs.

    All defenses see the same attacked images, which were made without knowledge of any defense. A photograph is unmoved
    if no such attack moves the score of any of its versions by a single bit. A defense with `FEWEST` unmoved
    photographs or more shows pictures that it already had, or pictures with next to nothing of the image left, such as
    its mean colour; scores do not separate the two. A codec or a quantiser takes small changes back, too, if an image
    is already coded that way, but it does so on any image. Therefore a photograph counts only if the defense lets one
    of these changes through in an image that it cannot know (`imharness.running.look_ups`), or if that was not tested.
    """
    photographs, counts = _staying(study.attacked.where(attacker="fixed", type=WHOLE))
    return {
        label: (
            "a look-up, or next to nothing of the image is left: attacks that do not know it move the score of no "
            f"version of {count} of {photographs} photographs by a single bit, though it lets the same changes "
            "through where it cannot know the image, or does not show it",
        )
        for label, count in counts.items()
        if count >= FEWEST
    }


def _staying(subset: Part) -> tuple[int, dict[str, int]]:
    """Return how many photographs attacks move without a defense, and how many of these are unmoved by defense.

    Metrics that give two clean images the same score are left out: an equal score then does not mean an equal picture.
    """
    labels, values = subset.blocks.entries, subset.blocks.values
    if BASELINE not in labels:
        return 0, {}
    plain, shape = labels.index(BASELINE), (len(labels), len(subset.photographs))
    compared, moved, let_through = (np.zeros(shape, dtype=bool) for _ in range(3))
    for c in subset.conditions:
        clean = values["defended"][c][plain]
        finite = clean[np.isfinite(clean)]
        if len(np.unique(finite)) < len(finite):
            continue
        attacked = np.flatnonzero(values["dd"][c][plain] > MOVED)
        images = subset.places[c][attacked]
        before, after, elsewhere = (values[name][c][:, attacked] for name in ("defended", "score", "elsewhere"))
        both = np.isfinite(before) & np.isfinite(after)
        compared[:, images] |= both
        moved[:, images] |= both & (before != after)
        let_through[:, images] |= both & (before == after) & ~(elsewhere <= TAKEN_BACK)  # NaN: not tested
    names, photograph = np.unique(subset.photographs.astype(str), return_inverse=True)

    def with_any(images: np.ndarray) -> np.ndarray:
        """Return the mask of photographs, given that of images."""
        return np.bincount(photograph, images, len(names)) > 0

    stays = {label: with_any(let_through[i]) & ~with_any(moved[i]) for i, label in enumerate(labels)}
    return int(with_any(compared.any(axis=0)).sum()), {label: int(mask.sum()) for label, mask in stays.items()}
