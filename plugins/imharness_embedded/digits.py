"""The 1,797 handwritten digits of scikit-learn (8x8 grey; Alpaydin & Kaynak, UCI 1998), as rows and as images."""

from typing import Literal

import cv2
import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageSet, Info, TableDataset, TableSet, hookimpl
from imharness_embedded.photographs import image_set
from imharness_embedded.shipped import shipped

HELD_OUT = 500
"""The last digits of the table are never trained on."""


class Digits(TableDataset):
    """Handwritten digits of ten classes, each with 64 grey values."""

    info = Info(id="harness/digits", version="1")

    def build(self, device: torch.device) -> TableSet:
        """Return 1,797 rows of 64 features in [0, 1]."""
        values, labels = _table()
        return TableSet(torch.from_numpy(values).float().to(device), torch.from_numpy(labels).to(device), classes=10)


class DigitImages(ImageDataset):
    """The same digits as small images: every image was written by hand once, and is an independent unit."""

    info = Info(id="harness/digit-images", version="1")
    split: Literal["test", "train"] = Field(default="test", description="Which digits; none is in both splits.")
    size: int = Field(default=20, ge=8, le=72, description="Side of an image, px; digits have 8 px and are enlarged.")
    images: int = Field(default=300, ge=1, le=HELD_OUT, description="Number of images of the test split.")
    trained_on: int = Field(default=600, ge=10, le=1297, description="Number of images of the training split.")

    def build(self, device: torch.device) -> ImageSet:
        """Return digits with their label."""
        values, labels = _table()
        rows = np.arange(len(labels))
        rows = rows[-HELD_OUT:][: self.images] if self.split == "test" else rows[: self.trained_on]
        grey = [
            cv2.resize(digit, (self.size, self.size), interpolation=cv2.INTER_LINEAR)
            for digit in values[rows].reshape(-1, 8, 8)
        ]
        stack = np.rint(255 * np.stack(grey)).astype(np.uint8)[..., None].repeat(3, axis=3)
        names = [f"digit-{row}" for row in rows]
        columns = {"label": labels[rows].tolist(), "class": labels[rows].astype(str).tolist(), "source": names}
        return image_set(names, stack, columns, "")


def _table() -> tuple[np.ndarray, np.ndarray]:
    """Return grey values in [0, 1] ``(1797, 64)`` and labels ``(1797,)``."""
    table = np.loadtxt(shipped("sklearn", "datasets/data", "digits"), delimiter=",")
    return table[:, :-1] / 16, table[:, -1].astype(np.int64)


@hookimpl
def components() -> list[TableDataset | ImageDataset]:
    return [Digits(), DigitImages()]
