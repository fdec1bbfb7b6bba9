"""Images of the gallery: arrays of the store -> PNG files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from imharness.errors import StoreError
from imharness.results.identity import digest
from imharness.results.records import Board, Example, Panel
from imharness.results.store import Store
from imharness_leaderboard.folder import SiteFolder
from imharness_leaderboard.naming import track_slug

LARGEST = 4096
"""Sides beyond this are no image of a gallery, px."""


@dataclass(frozen=True)
class Shown:
    """An example whose images lie in the site: the address of each panel's file."""

    example: Example
    files: tuple[str, ...]
    width: int
    height: int


def write_gallery(site: SiteFolder, store: Store, board: Board) -> tuple[list[Shown], list[str]]:
    """Write the images of a board's examples; return what can be shown, and a line for each task that cannot."""
    opened: dict[str, tuple[str, Mapping[str, npt.NDArray[Any]]]] = {}
    found, problems = [], dict[str, None]()
    for example in board.examples:
        try:
            pixels = [_pixels(store, opened, panel) for panel in example.panels]
        except StoreError as error:
            problems[f"{example.entry}: {error}"] = None
            continue
        files = []
        for panel, (seal, image) in zip(example.panels, pixels, strict=True):
            name = f"images/{track_slug(board.track)}/{digest([seal, panel.array, panel.position])[:20]}.png"
            site.make(name, seal, lambda image=image: _png(image))  # type: ignore[misc]
            files.append(name)
        height, width = pixels[0][1].shape[:2]
        found.append(Shown(example, tuple(files), width, height))
    return found, list(problems)


def _pixels(
    store: Store, opened: dict[str, tuple[str, Mapping[str, npt.NDArray[Any]]]], panel: Panel
) -> tuple[str, npt.NDArray[np.uint8]]:
    """Return the seal of a task and one of its images, uint8 ``(H, W, 3)``."""
    if panel.task not in opened:
        record = store.record(panel.task)
        if record is None:
            raise StoreError(f"task {panel.task[:12]} is not in the store")
        opened[panel.task] = (record.seal, store.arrays(record))
    seal, arrays = opened[panel.task]
    stack = arrays.get(panel.array)
    if stack is None or stack.dtype != np.uint8 or stack.ndim != 4 or not 0 <= panel.position < len(stack):
        raise StoreError(f"task {panel.task[:12]} has no image {panel.position} in {panel.array!r}")
    image = np.moveaxis(np.asarray(stack[panel.position]), 0, 2)
    if max(image.shape[:2]) > LARGEST or image.shape[2] not in (1, 3):
        raise StoreError(f"task {panel.task[:12]}: an image of shape {image.shape} cannot be shown")
    return seal, np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def _png(image: npt.NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(out, format="png", optimize=True)
    return out.getvalue()
