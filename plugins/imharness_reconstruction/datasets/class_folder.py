"""Images in one folder per class: ``class-folder:PATH``.

The folder may have two parts, PATH/train/CLASS/* and PATH/test/CLASS/* (or PATH/val/CLASS/*), as in CIFAR-10 as images,
Imagenette, and CelebA by identity. It may also have no parts, PATH/CLASS/*, as in Caltech-101, Stanford Dogs and the
ORL faces; then the first images of each class, in the order of their names, are held out.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, Images, ImageSet, Info, hookimpl, place
from imharness.errors import ContractError, Unavailable
from imharness_vision.image_files import SUFFIXES, middle_square, read_files

PARTS = {"train": ("train",), "test": ("test", "val")}


class ClassFolder(ImageDataset):
    """Images in folders that are named after their classes, resized to one size."""

    info = Info(id="harness/class-folder", version="1")
    address = "path"
    path: str = Field(default="", description="Folder of the classes, here or among the assets.")
    split: Literal["test", "train"] = Field(default="test", description="Private images, or those to train on.")
    size: int = Field(
        default=32, ge=8, le=512, description="Side, px; images that are not square are cropped to the middle."
    )
    per_class: int = Field(default=0, ge=0, description="Images per class that are used; 0: all.")
    held_out: int = Field(default=2, ge=1, description="Held-out images per class, where the folder has no parts.")

    def require(self) -> None:
        """Raise `Unavailable` unless the folder is there."""
        if not self.root.is_dir():
            raise Unavailable(f"{self.root} is not a folder", "--dataset class-folder:PATH")

    @property
    def root(self) -> Path:
        """The folder of the classes; raises `Unavailable` if none is named."""
        if not self.path:
            raise Unavailable("no folder of classes is named", "--dataset class-folder:PATH")
        return place(self.path)

    def content(self) -> str:
        """Return a digest of names, sizes and times of change."""
        try:
            self.require()
        except Unavailable:
            return ""
        state = [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for files in self.classes().values() for f in files]
        return hashlib.sha256(repr(state).encode()).hexdigest()

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, one of each class in turn."""
        self.require()
        classes = self.classes()
        if not any(classes.values()):
            raise ContractError(
                f"{self.root} contains no images in folders; expected CLASS/*, or train/CLASS/* and test/CLASS/*"
            )
        turns = sorted(
            (place, label, file) for label, files in enumerate(classes.values()) for place, file in enumerate(files)
        )
        names, labels, files = list(classes), [label for _, label, _ in turns], [file for _, _, file in turns]

        def load(positions: Sequence[int]) -> Images:
            return read_files((files[p] for p in positions), lambda image: middle_square(image, self.size))

        columns = {"label": np.array(labels), "class": np.array([names[label] for label in labels])}
        root = self.root
        shown = tuple(str(file.relative_to(root)) for file in files)
        return ImageSet(shown, ((self.size, self.size),) * len(files), load, columns)

    def classes(self) -> dict[str, list[Path]]:
        """Return class -> files of this split, both in natural order."""
        root = self.root
        part = next((root / name for name in PARTS[self.split] if (root / name).is_dir()), None)
        folders = sorted((f for f in (part or root).iterdir() if f.is_dir()), key=_natural)
        found = {}
        for folder in folders:
            files = sorted((f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES), key=_natural)
            found[folder.name] = self.used(files, parted=part is not None)
        return found

    def used(self, files: list[Path], *, parted: bool) -> list[Path]:
        """Return the files of a class that belong to this split; `parted`: the folder has published parts."""
        if not parted:
            files = files[: self.held_out] if self.split == "test" else files[self.held_out :]
        return files[: self.per_class or None]


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts s2 before s10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path.name)]


@hookimpl
def components() -> list[ImageDataset]:
    return [ClassFolder()]
