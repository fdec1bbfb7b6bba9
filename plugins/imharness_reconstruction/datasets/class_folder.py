"""Images in one folder per class: ``class-folder:PATH``.

The folder may have two parts, PATH/train/CLASS/* and PATH/test/CLASS/* (or PATH/val/CLASS/*), as in CIFAR-10 as images,
Imagenette, and CelebA by identity. It may also have no parts, PATH/CLASS/*, as in Caltech-101, Stanford Dogs and the
ORL faces; then the first images of each class, in the order of their names, are held out.
"""

import hashlib
import itertools
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from imharness.data import COPY, ImageDataset, Images, ImageSet, Info, asset_path, by_looks, hookimpl, thumbnails
from imharness.errors import ContractError, HarnessError, Unavailable
from imharness.files import Census, files_digest, images_below
from imharness_vision.image_files import middle_square, read_files, remembered

PARTS = {"train": ("train",), "test": ("test", "val")}


class ClassFolder(ImageDataset):
    """Images in folders that are named after their classes, resized to one size."""

    info = Info(id="harness/class-folder", version="2")
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
        return asset_path(self.path)

    def content(self) -> str:
        """Return a digest of the files and of the class of each."""
        try:
            self.require()
            classes = self.classes()
        except HarnessError:
            return ""
        counts = [(label, len(files)) for label, files in classes.items()]
        files = files_digest(self.root, itertools.chain.from_iterable(classes.values()))
        return hashlib.sha256(f"{counts} {files}".encode()).hexdigest()

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, one of each class in turn."""
        self.require()
        census, classes = self._census(), self.classes()
        if not any(classes.values()):
            raise ContractError(
                f"{self.root} contains no images in folders; expected CLASS/*, or train/CLASS/* and test/CLASS/*. "
                f"{census.sentence()}".strip()
            )
        if sentence := census.sentence():
            warnings.warn(sentence, stacklevel=2)
        turns = sorted(
            (position, label, file)
            for label, files in enumerate(classes.values())
            for position, file in enumerate(files)
        )
        names, labels, files = list(classes), [label for _, label, _ in turns], [file for _, _, file in turns]

        def load(positions: Sequence[int]) -> Images:
            return read_files((files[p] for p in positions), lambda image: middle_square(image, self.size))

        columns = {"label": np.array(labels), "class": np.array([names[label] for label in labels])}
        root = self.root
        file_names = tuple(file.relative_to(root).as_posix() for file in files)
        if self.split == "test" and not self.data_sources():
            columns["source"] = np.array(self._sources(file_names, files))
        return ImageSet(file_names, ((self.size, self.size),) * len(files), load, columns)

    def _sources(self, names: Sequence[str], files: Sequence[Path]) -> list[str]:
        """Return the photograph of each private image: the first one that shows the same."""
        images = (read_files([file], lambda image: middle_square(image, self.size)) for file in files)
        state = f"{self.size} {files_digest(self.root, files)}"
        looks = by_looks(names, lambda: remembered("thumbnails", state, images, thumbnails), COPY)
        if looks.sentence:
            warnings.warn(f"{self.root}: {looks.sentence}; remove those that you do not want", stacklevel=3)
        return looks.photographs

    def classes(self) -> dict[str, list[Path]]:
        """Return class -> files of this split, both in natural order."""
        names, classes = self._census().names, dict[str, list[str]]()
        roots = _published_splits(names)
        root = next((name for name in PARTS[self.split] if name in roots), "")
        for name in names:
            if not roots or name.startswith(f"{root}/"):
                classes.setdefault(name.split("/")[1 if roots else 0], []).append(name)
        return {
            label: self.used([self.root / name for name in sorted(classes[label], key=_natural)], parted=bool(roots))
            for label in sorted(classes, key=_natural)
        }

    def _census(self) -> Census:
        """Return the images of both splits."""
        census = images_below(self.root)
        roots = _published_splits(census.names)
        return census.only(
            lambda name: name.count("/") > bool(roots) and (not roots or name.split("/")[0] in roots),
            "in no folder of a class: move them",
        )

    def used(self, files: list[Path], *, parted: bool) -> list[Path]:
        """Return the files of a class that belong to this split; `parted`: the folder has published parts."""
        if not parted:
            files = files[: self.held_out] if self.split == "test" else files[self.held_out :]
        return files[: self.per_class or None]


def _published_splits(names: Sequence[str]) -> set[str]:
    """Return the published parts in which images lie in folders of classes."""
    published = set(itertools.chain(*PARTS.values()))
    return {name.split("/")[0] for name in names if name.count("/") > 1} & published


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts s2 before s10."""
    return [(int(piece), "") if piece.isdigit() else (0, piece) for piece in re.split(r"(\d+)", name)]


@hookimpl
def components() -> list[ImageDataset]:
    return [ClassFolder()]
