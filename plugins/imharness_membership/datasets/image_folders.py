"""Photographs in one folder per class, as rows of a table: ``image-folders:PATH``.

The folder has one or two parts, PATH/train/CLASS/* and PATH/test/CLASS/*, or none, PATH/CLASS/*. Membership is drawn
anew in each split, so that all parts are read.
"""

import warnings
from pathlib import Path

import torch
from pydantic import Field

from imharness.data import Info, TableDataset, TableSet, asset_path, hookimpl
from imharness.errors import HarnessError, Unavailable
from imharness.files import Census, files_digest, images_below
from imharness_vision.image_files import middle_square, read_files

PARTS = ("train", "test")
HOW = "--dataset image-folders:PATH"


class ImageFolders(TableDataset):
    """Images in folders that are named after their classes, all resized to one size."""

    info = Info(id="harness/image-folders", version="2")
    address = "path"
    path: str = Field(default="", description="Folder of the classes, here or among the assets.")
    size: int = Field(
        default=32, ge=8, le=512, description="Side, px; images that are not square are cropped to the middle."
    )

    def require(self) -> None:
        """Raise `Unavailable` unless the folder is there."""
        if not self.path:
            raise Unavailable("no folder of classes is named", HOW)
        if not asset_path(self.path).is_dir():
            raise Unavailable(f"{asset_path(self.path)} is not a folder", HOW)

    def content(self) -> str:
        """Return a digest of the images and of their names below the folder."""
        try:
            census = self._census()
        except HarnessError:
            return ""
        return files_digest(census.folder, census.paths)

    def build(self, device: torch.device) -> TableSet:
        """Return the images ``(N, 3, size, size)`` in [0, 1]; classes count from 0 in the order of their names."""
        census = self._census()
        if sentence := census.sentence():
            warnings.warn(sentence, stacklevel=2)
        files = self._files(census)
        names = sorted({name for name, _ in files})
        if len(names) < 2:
            raise HarnessError(
                f"{self.label}: {asset_path(self.path)} has images in {len(names)} folders; expected CLASS/*, or "
                "train/CLASS/* and test/CLASS/*, of at least two classes"
            )
        labels = torch.tensor([names.index(name) for name, _ in files])
        features = read_files((file for _, file in files), lambda image: middle_square(image, self.size))
        return TableSet(features.to(device), labels.to(device), classes=len(names))

    def _census(self) -> Census:
        """Return the images that lie in folders of classes."""
        self.require()
        census = images_below(asset_path(self.path))
        part_names = _parts(census)
        depth = 1 if part_names else 0
        return census.only(
            lambda name: name.count("/") > depth and (not part_names or name.split("/")[0] in part_names),
            "in no folder of a class: move them",
        )

    def _files(self, census: Census) -> list[tuple[str, Path]]:
        """Return the class and the place of every image, sorted by part, class and name."""
        depth = 1 if _parts(census) else 0  # where the class stands in a name
        images = [(name.split("/"), path) for name, path in zip(census.names, census.paths, strict=True)]
        images.sort(key=lambda image: (PARTS.index(image[0][0]) if depth else 0, image[0][depth:]))
        return [(folders[depth], path) for folders, path in images]


def _parts(census: Census) -> set[str]:
    """Return the parts in which images lie in folders of classes."""
    return {name.split("/")[0] for name in census.names if name.count("/") > 1}.intersection(PARTS)


@hookimpl
def components() -> list[TableDataset]:
    return [ImageFolders()]
