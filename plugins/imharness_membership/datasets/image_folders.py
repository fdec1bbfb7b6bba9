"""Photographs in one folder per class, as rows of a table: ``image-folders:PATH``.

The folder has two parts, PATH/train/CLASS/* and PATH/test/CLASS/*, or none, PATH/CLASS/*. Membership is drawn anew in
each split, so that all parts are read.
"""

from pathlib import Path

import torch
from pydantic import Field

from imharness.data import Info, TableDataset, TableSet, hookimpl, place
from imharness.errors import HarnessError, Unavailable
from imharness.files import state_digest
from imharness_vision.image_files import SUFFIXES, middle_square, read_files

PARTS = ("train", "test")
HOW = "--dataset image-folders:PATH"


class ImageFolders(TableDataset):
    """Images in folders that are named after their classes, all resized to one size."""

    info = Info(id="harness/image-folders", version="1")
    address = "path"
    path: str = Field(default="", description="Folder of the classes, here or among the assets.")
    size: int = Field(
        default=32, ge=8, le=512, description="Side, px; images that are not square are cropped to the middle."
    )

    def require(self) -> None:
        """Raise `Unavailable` unless the folder is there."""
        if not self.path:
            raise Unavailable("no folder of classes is named", HOW)
        if not place(self.path).is_dir():
            raise Unavailable(f"{place(self.path)} is not a folder", HOW)

    def content(self) -> str:
        """Return a digest of the files' names, sizes and modification times."""
        try:
            return state_digest([file for _, file in self._files()])
        except Unavailable:
            return ""

    def build(self, device: torch.device) -> TableSet:
        """Return the images ``(N, 3, size, size)`` in [0, 1]; classes count from 0 in the order of their names."""
        files = self._files()
        names = sorted({name for name, _ in files})
        if len(names) < 2:
            raise HarnessError(
                f"{self.label}: {place(self.path)} has images in {len(names)} folders; expected CLASS/*, or "
                "train/CLASS/* and test/CLASS/*, of at least two classes"
            )
        labels = torch.tensor([names.index(name) for name, _ in files])
        features = read_files((file for _, file in files), lambda image: middle_square(image, self.size))
        return TableSet(features.to(device), labels.to(device), classes=len(names))

    def _files(self) -> list[tuple[str, Path]]:
        """Return the class and the place of every image, sorted by part, class and name."""
        self.require()
        root = place(self.path)
        roots = [root / part for part in PARTS if (root / part).is_dir()] or [root]
        folders = [folder for own in roots for folder in sorted(own.iterdir()) if folder.is_dir()]
        return [
            (folder.name, file)
            for folder in folders
            for file in sorted(folder.iterdir())
            if file.suffix.lower() in SUFFIXES
        ]


@hookimpl
def components() -> list[TableDataset]:
    return [ImageFolders()]
