"""Reads image files as tensors."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from imharness.errors import ContractError, UsageError
from imharness.files import read_image
from imharness.images import Images

Fit = Callable[[Image.Image], Image.Image]
"""Brings a decoded RGB image to the size that is wanted."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp")
"""The endings of files in folders of images, in lower case."""


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
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side))
    return square if side == size else square.resize((size, size), Image.Resampling.BOX)
