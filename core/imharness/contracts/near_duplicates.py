"""Finds images that were made from one photograph, such as distorted versions of it, by their thumbnails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy
import torch
import torch.nn.functional as F

SIDE = 16
"""The side of the grey thumbnails, px."""
ALIKE = 0.97
"""The least correlation of two thumbnails that count as one photograph: blur, noise and compression of usual strength
keep it, and two photographs of the same place at the same time may have it, too."""
COPY = 0.999
"""The least correlation of thumbnails of one undistorted picture, saved twice: small patches of different photographs,
such as two of a sky, are often more alike than `ALIKE`."""
FLAT = 1 / 255
"""A thumbnail with a smaller standard deviation has no structure: its correlation with any other counts as 0."""
AT_ONCE = 512
"""How many thumbnails are compared with all others in one product of matrices."""
SHOWN = 3
"""How many copies a message names."""
MOST = 20_000
"""The most images that are compared, each with each. Among more, chains of similar images would join different ones."""


def thumbnails(images: Iterable[torch.Tensor]) -> np.ndarray:
    """Return grey thumbnails of images ``(1, 3, H, W)`` in [0, 1], float32 ``(n, SIDE * SIDE)``."""
    small = [F.interpolate(x.mean(dim=1, keepdim=True), (SIDE, SIDE), mode="area").flatten() for x in images]
    return torch.stack(small).numpy().astype(np.float32)


def groups(small: np.ndarray, least: float = ALIKE) -> np.ndarray:
    """Return the number of the group of each thumbnail, int ``(n,)``.

    Two thumbnails are alike if their correlation is at least `least`. A group holds all thumbnails that chains of like
    thumbnails connect: the connected components of the graph of likeness.

    Args:
        small: thumbnails, float32 ``(n, SIDE * SIDE)``.
        least: the least correlation of two thumbnails that are alike.
    """
    unit = _unit(small)
    blocks = []
    for start in range(0, len(unit), AT_ONCE):
        correlations = unit[start : start + AT_ONCE] @ unit.T  # (at most AT_ONCE, n)
        blocks.append(scipy.sparse.csr_matrix(correlations >= least))
    _, numbers = scipy.sparse.csgraph.connected_components(scipy.sparse.vstack(blocks), directed=False)
    return np.asarray(numbers)


def _unit(small: np.ndarray) -> np.ndarray:
    """Return thumbnails with mean 0 and norm 1, so that a dot product of two is their correlation; flat ones are 0."""
    centred = small - small.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.where(norms >= FLAT * SIDE, centred / np.maximum(norms, 1e-9), 0.0)


def said_of_pairs(pairs: Sequence[tuple[str, str]], images: np.ndarray, references: np.ndarray) -> str:
    """Return a sentence on images that look like the reference of another image and not like their own, or "".

    Args:
        pairs: for each of n images, its name and the name of its reference.
        images: the thumbnails of the images, float32 ``(n, SIDE * SIDE)``.
        references: the thumbnails of their references, float32 ``(n, SIDE * SIDE)``.
    """
    if len(pairs) > MOST:
        return ""
    unit_images, unit_references = _unit(images), _unit(references)
    correlation_with_own = (unit_images * unit_references).sum(axis=1)  # (n,)
    nearest = {}  # position of an image that is unlike its reference -> position of the reference that it looks like
    for i in np.flatnonzero(correlation_with_own < ALIKE).tolist():
        correlations = unit_images[i] @ unit_references.T  # (n,)
        best = int(np.argmax(correlations))
        if correlations[best] >= ALIKE:
            nearest[i] = best
    if not nearest:
        return ""
    first = next(iter(nearest))
    image, reference = pairs[first]
    _, other_reference = pairs[nearest[first]]
    return (
        f"{len(nearest)} of {len(pairs)} images look like another reference than their own, such as {image} "
        f"like {other_reference}, and not like {reference}; are they in another order, or names mixed up?"
    )


def _first_in_group(names: Iterable[str], numbers: np.ndarray) -> list[str]:
    """Return for each name the first name of its group; `numbers` has the group of each name ``(n,)``."""
    first: dict[int, str] = {}
    return [first.setdefault(number, name) for name, number in zip(names, numbers.tolist(), strict=True)]


class Looks(NamedTuple):
    """What thumbnails say of images.

    `photographs` has for each image the photograph that it was made from, named after the first image that looks like
    it. `sentence` says that some images are of one photograph, and is "" if all images differ.
    """

    photographs: list[str]
    sentence: str


def by_looks(names: Sequence[str], find: Callable[[], np.ndarray], least: float = ALIKE) -> Looks:
    """Return the photograph that each image was made from, judged by their thumbnails.

    More than `MOST` images are not compared: each counts as a photograph of its own, and the sentence says so.

    Args:
        names: the names of n images, which are unique.
        find: returns the thumbnails, float32 ``(n, SIDE * SIDE)``; it is called only if images are compared.
        least: the least correlation of two thumbnails of one photograph.
    """
    if len(names) > MOST:
        return Looks(list(names), f"{len(names)} images are too many to be compared, and count as so many photographs")
    photographs = _first_in_group(names, groups(find(), least))
    twins = [(name, photograph) for name, photograph in zip(names, photographs, strict=True) if name != photograph]
    if not twins:
        return Looks(photographs, "")
    count = len(set(photographs))
    many = f"{count} photographs, and count as so many" if count > 1 else "one photograph, and count as one"
    twin, like = twins[0]
    return Looks(photographs, f"{len(names)} images look like {many}, such as {twin} like {like}")


def said_of_copies(photographs: Mapping[str, str], find: Callable[[], np.ndarray]) -> str:
    """Return a sentence on images that show one picture but count as different photographs, or "".

    Two images show one picture, perhaps in another format or size, if their thumbnails correlate by `COPY`. More than
    `MOST` images are not compared.

    Args:
        photographs: image -> the photograph that it was made from, for n images.
        find: returns the thumbnails of the images in this order, float32 ``(n, SIDE * SIDE)``.
    """
    if len(set(photographs.values())) < 2 or len(photographs) > MOST:
        return ""
    original_of = dict(zip(photographs, _first_in_group(photographs, groups(find(), COPY)), strict=True))
    copies = [name for name, original in original_of.items() if photographs[original] != photographs[name]]
    if not copies:
        return ""
    some = ", ".join(f"{name} of {original_of[name]}" for name in copies[:SHOWN])
    return (
        f"{len(copies)} of {len(photographs)} images look like copies of others, perhaps in another format or size, "
        f"but count as other photographs, such as {some}; leave them out, or say in a column photograph what they "
        "were made from"
    )
