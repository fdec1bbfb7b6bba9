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
"""Thumbnails with a smaller standard deviation are alike to none."""
AT_ONCE = 512
SHOWN = 3
MOST = 20_000
"""The most images that are compared, each with each; among more, chains join what is not alike."""


def thumbnails(images: Iterable[torch.Tensor]) -> np.ndarray:
    """Return grey thumbnails of images ``(1, 3, H, W)`` in [0, 1], float32 ``(n, SIDE * SIDE)``."""
    small = [F.interpolate(x.mean(dim=1, keepdim=True), (SIDE, SIDE), mode="area").flatten() for x in images]
    return torch.stack(small).numpy().astype(np.float32)


def groups(small: np.ndarray, least: float = ALIKE) -> np.ndarray:
    """Return the number of the group of each thumbnail ``(n,)``: those that a chain of ones joins which are alike.

    `least`: the least correlation of two that are.
    """
    unit = _unit(small)
    blocks = range(0, len(unit), AT_ONCE)
    alike = scipy.sparse.vstack([scipy.sparse.csr_matrix(unit[i : i + AT_ONCE] @ unit.T >= least) for i in blocks])
    return np.asarray(scipy.sparse.csgraph.connected_components(alike, directed=False)[1])


def _unit(small: np.ndarray) -> np.ndarray:
    """Return thumbnails of which the product of two is their correlation, 0 for flat ones."""
    centred = small - small.mean(axis=1, keepdims=True)
    size = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.where(size >= FLAT * SIDE, centred / np.maximum(size, 1e-9), 0.0)


def said_of_pairs(pairs: Sequence[tuple[str, str]], images: np.ndarray, references: np.ndarray) -> str:
    """Return a sentence on images that look like the reference of another one and not like their own, or "".

    `pairs`: the names of each image and its reference, whose thumbnails are ``(n, SIDE * SIDE)``.
    """
    if len(pairs) > MOST:
        return ""
    units, others = _unit(images), _unit(references)
    wrong = np.flatnonzero((units * others).sum(axis=1) < ALIKE)
    like = {int(i): int(np.argmax(units[i] @ others.T)) for i in wrong}
    mixed = [i for i, other in like.items() if units[i] @ others[other] >= ALIKE]
    if not mixed:
        return ""
    first = mixed[0]
    return (
        f"{len(mixed)} of {len(pairs)} images look like another reference than their own, such as {pairs[first][0]} "
        f"like {pairs[like[first]][1]}, and not like {pairs[first][1]}; are they in another order, or names mixed up?"
    )


class Looks(NamedTuple):
    """The photograph of each image, which is the name of the first image that looks like it, and a sentence on it."""

    photographs: list[str]
    sentence: str


def by_looks(names: Sequence[str], find: Callable[[], np.ndarray], least: float = ALIKE) -> Looks:
    """Return what images were made from by their thumbnails; nothing is said if all differ.

    `find` returns the thumbnails ``(n, SIDE * SIDE)``, and is called unless there are more than `MOST` images, which
    count as so many photographs.
    """
    if len(names) > MOST:
        return Looks(list(names), f"{len(names)} images are too many to be compared, and count as so many photographs")
    numbers = groups(find(), least)
    first: dict[int, str] = {}
    photographs = [first.setdefault(group, name) for group, name in zip(numbers.tolist(), names, strict=True)]
    twins = [(name, photograph) for name, photograph in zip(names, photographs, strict=True) if name != photograph]
    if not twins:
        return Looks(photographs, "")
    twin, like = twins[0]
    many = f"{len(first)} photographs, and count as so many" if len(first) > 1 else "one photograph, and count as one"
    return Looks(photographs, f"{len(names)} images look like {many}, such as {twin} like {like}")


def said_of_copies(photographs: Mapping[str, str], find: Callable[[], np.ndarray]) -> str:
    """Return a sentence on images that show one picture and count as several photographs, or "".

    `photographs`: image -> what it was made from. `find` returns the thumbnails ``(n, SIDE * SIDE)`` in their order;
    those of one picture in two formats or sizes are alike by `COPY`. More than `MOST` images are not compared.
    """
    if len(set(photographs.values())) < 2 or len(photographs) > MOST:
        return ""
    first: dict[int, str] = {}
    one_of = {
        name: first.setdefault(n, name) for name, n in zip(photographs, groups(find(), COPY).tolist(), strict=True)
    }
    copies = [name for name, one in one_of.items() if photographs[one] != photographs[name]]
    if not copies:
        return ""
    some = ", ".join(f"{name} of {one_of[name]}" for name in copies[:SHOWN])
    return (
        f"{len(copies)} of {len(photographs)} images look like copies of others, perhaps in another format or size, "
        f"but count as other photographs, such as {some}; leave them out, or say in a column photograph what they "
        "were made from"
    )
