"""The images of a track's gallery, written as PNG files from the arrays in the store."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from imharness.documents.gallery import Example, Panel
from imharness.documents.leaderboards import Leaderboard
from imharness.errors import StoreError
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness_leaderboard.addresses import image_file
from imharness_leaderboard.folder import SiteFolder

LARGEST = 4096
"""The longest side of an image that is shown, px."""


@dataclass(frozen=True)
class GalleryExample:
    """An example of the gallery whose images are files of the site.

    `files`: the address of each panel's image; `width`, `height`: of an image, px.
    """

    example: Example
    files: tuple[str, ...]
    width: int
    height: int


def write_gallery(site: SiteFolder, store: Store, leaderboard: Leaderboard) -> tuple[list[GalleryExample], list[str]]:
    """Write the images of a leaderboard's examples.

    Returns the examples that can be shown, and one line for each problem with the others.
    """
    results = _TaskImages(store)
    examples, problems = [], dict[str, None]()
    for example in leaderboard.examples:
        try:
            images = [results.image(panel) for panel in example.panels]
        except StoreError as error:
            problems[f"{example.entry}: {error}"] = None
            continue
        files = []
        for panel, (seal, image) in zip(example.panels, images, strict=True):
            name = image_file(leaderboard, digest([seal, panel.array, panel.position])[:20])
            site.make(name, seal, partial(_png, image))
            files.append(name)
        height, width = images[0][1].shape[:2]
        examples.append(GalleryExample(example, tuple(files), width, height))
    return examples, list(problems)


class _TaskImages:
    """Reads images from the results of tasks; each result is opened once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._opened: dict[str, tuple[str, Mapping[str, npt.NDArray[Any]]]] = {}

    def image(self, panel: Panel) -> tuple[str, npt.NDArray[np.uint8]]:
        """Return the seal of the panel's task and the image, uint8 ``(H, W, 3)``; raises `StoreError` without one.

        The task has a stack of images, uint8 ``(n, 1 or 3, H, W)``.
        """
        task = f"task {panel.task[:12]}"
        if panel.task not in self._opened:
            record = self._store.record(panel.task)
            if record is None:
                raise StoreError(f"{task} is not in the store")
            self._opened[panel.task] = (record.seal, self._store.arrays(record))
        seal, arrays = self._opened[panel.task]
        stack = arrays.get(panel.array)
        if stack is None or stack.dtype != np.uint8 or stack.ndim != 4 or not 0 <= panel.position < len(stack):
            raise StoreError(f"{task} has no image {panel.position} in {panel.array!r}")
        image = np.moveaxis(np.asarray(stack[panel.position]), 0, 2)
        if max(image.shape[:2]) > LARGEST or image.shape[2] not in (1, 3):
            raise StoreError(f"{task}: an image of shape {image.shape} cannot be shown")
        return seal, np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def _png(image: npt.NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(out, format="png", optimize=True)
    return out.getvalue()
