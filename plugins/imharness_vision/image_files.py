"""Reads image files as tensors, and remembers what was computed from them."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from imharness.data import cache_folder
from imharness.errors import ContractError, UsageError
from imharness.files import read_array, read_image
from imharness.images import Images

Fit = Callable[[Image.Image], Image.Image]
"""Brings a decoded RGB image to the size that is wanted."""


def read_files(files: Iterable[Path], fit: Fit) -> Images:
    """Return ``(N, 3, H, W)`` in [0, 1], each file after `fit`; raises `ContractError` for other files."""
    stack = np.stack([_decoded(file, fit) for file in files])
    return torch.from_numpy(stack).permute(0, 3, 1, 2).float().div(255).contiguous()


def _decoded(file: Path, fit: Fit) -> np.ndarray:
    try:
        return np.asarray(fit(read_image(file)))
    except UsageError as error:
        raise ContractError(str(error)) from None


def middle_square(image: Image.Image, size: int) -> Image.Image:
    """Return the middle square of an image, resized by areas to `size` px a side."""
    side = min(image.size)
    left_edge, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left_edge, top, left_edge + side, top + side))
    return square if side == size else square.resize((size, size), Image.Resampling.BOX)


def remembered(
    what: str, state: str, images: Iterable[torch.Tensor], find: Callable[[Iterable[torch.Tensor]], np.ndarray]
) -> np.ndarray:
    """Return what is found in images ``(1, 3, H, W)`` in [0, 1], kept for as long as the `state` of their files."""
    stored = cache_folder().parent / what / f"{hashlib.sha256(state.encode()).hexdigest()[:32]}.npy"
    if stored.is_file():
        return read_array(stored)
    numbers = find(images)
    stored.parent.mkdir(parents=True, exist_ok=True)
    np.save(stored, numbers, allow_pickle=False)
    return numbers
