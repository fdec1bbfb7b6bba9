"""Draws contact sheets of distortions: a column per photograph, a row per severity."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from imharness.images import ImageRng, Images
from imharness_vision.distortions import DISTORTIONS

SEVERITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
GAP = 4


def contact_sheet(images: Images, name: str, seed: int) -> np.ndarray:
    """Return uint8 ``(height, width, 3)``; all rows draw the same random numbers, so that only the severity changes."""
    rows = []
    for severity in SEVERITIES:
        rng = ImageRng([seed + i for i in range(len(images))])
        rows.append(DISTORTIONS[name](images, torch.full((len(images),), severity), rng).clamp(0, 1))
    sheet = torch.nn.functional.pad(torch.stack(rows), [GAP // 2] * 4, value=1.0)  # (rows, columns, 3, h, w)
    pixels = sheet.mul(255).round().byte().permute(0, 3, 1, 4, 2)  # (rows, h, columns, w, 3)
    return pixels.flatten(2, 3).flatten(0, 1).numpy()


def write_sheets(images: Images, out: Path, seed: int) -> list[Path]:
    """Write a PNG per distortion; return the files."""
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for name in DISTORTIONS:
        Image.fromarray(contact_sheet(images, name, seed)).save(out / f"{name}.png")
        files.append(out / f"{name}.png")
    return files
