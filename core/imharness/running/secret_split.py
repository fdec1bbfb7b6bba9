"""Shifts, flips and recolours images so that sizes and labels stay, and quality nearly stays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from imharness.contracts.randomness import derive_seed
from imharness.errors import UsageError
from imharness.planning.secret import OPTION, digest_of

if TYPE_CHECKING:
    from imharness.contracts.image_dataset import ImageSet

SHIFT, BLOCK = 16, 8
"""The longest distance in pixels by which an image is moved in each direction, but at most an eighth of its shorter
side. If possible, the distance is a multiple of `BLOCK`, because metrics react to the grid by which JPEG and networks
divide images."""
FADED = (0.01, 0.04)
"""The least and the most by which the darkest and the brightest value of a channel each move inwards in [0, 1]."""


def seeds_of_task(secret: str, seed: int, options: Mapping[str, object]) -> tuple[str, int]:
    """Return the seed of the secret split that a task belongs to, or "", and the seed of its randomness.

    On a secret split, nobody can recognise an image by its random stream. Raises `UsageError` if the seed of the split
    was not given.
    """
    if OPTION not in options:
        return "", seed
    if digest_of(secret) != options[OPTION]:
        raise UsageError(f"this needs the seed of the secret split {options[OPTION]}; give it with --secret FILE")
    return secret, derive_seed(secret, seed)


def hidden(images: ImageSet, seed: str) -> ImageSet:
    """Return the image set of the secret split, or the image set unchanged if there is no seed.

    Images with the same reference are changed in the same way, so that distances between them and opinions about them
    stay valid.
    """
    if not seed:
        return images
    sources = images.columns.get("reference", np.array(images.names))

    def changing(load: Callable[[Sequence[int]], torch.Tensor]) -> Callable[[Sequence[int]], torch.Tensor]:
        return lambda positions: changed(load(positions), seed, sources[list(positions)])

    originals = None if images.originals is None else changing(images.originals)
    return replace(images, load=changing(images.load), originals=originals)


def changed(images: torch.Tensor, seed: str, sources: Iterable[object]) -> torch.Tensor:
    """Return images ``(n, 3, H, W)`` in [0, 1], multiples of 1/255, moved, perhaps mirrored, and recoloured.

    Pixels that are missing at a side are filled by reflection. Each channel loses a little contrast, by its own amount,
    and no value is clipped. Equal sources get equal changes.
    """
    n, channels, height, width = images.shape
    # The draws of an image: how far down, how far right, whether mirrored, then for each channel of each end how faded.
    draws = torch.from_numpy(_uniform(seed, [str(source) for source in sources], 3 + 2 * channels))
    longest = min(SHIFT, min(height, width) // 8)
    step = BLOCK if longest >= BLOCK else 1
    reach = longest // step
    down, right = (draws[:, :2] * (2 * reach + 1)).long().sub(reach).mul(step).T
    rows, columns = _reflected(down, height), _reflected(right, width)
    columns = torch.where(draws[:, 2:3] < 0.5, columns, columns.flip(1))
    # Four index arrays that broadcast to (n, channels, height, width): each pixel is read from its row and column.
    moved = images[
        torch.arange(n)[:, None, None, None],
        torch.arange(channels)[:, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]
    ends = FADED[0] + (FADED[1] - FADED[0]) * draws[:, 3:].float().view(n, 2, channels, 1, 1)
    low, high = ends[:, 0], 1 - ends[:, 1]
    return (low + (high - low) * moved).mul(255).round().div(255)


def _reflected(by: torch.Tensor, size: int) -> torch.Tensor:
    """Return positions ``(n, size)`` that are moved by ``(n,)`` and reflected at the ends of [0, size)."""
    places = (torch.arange(size) + by[:, None]).abs()
    return size - 1 - (size - 1 - places).abs()


def _uniform(seed: str, sources: Sequence[str], count: int) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1), float64 ``(n, count)``, that depend only on the seed and the name of each source."""
    key = hashlib.sha256(seed.encode()).digest()
    drawn = b"".join(hashlib.blake2b(name.encode(), digest_size=4 * count, key=key).digest() for name in sources)
    return np.frombuffer(drawn, dtype="<u4").reshape(len(sources), count) / 2**32
