"""Any folder of images, with or without opinion scores: ``folder:PATH``."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageSet, Info, asset_path, hookimpl
from imharness.errors import Unavailable, UsageError
from imharness.files import images_below, said_of_images, said_of_misnamed
from imharness_iqa.folders import NO_LABELS, SHOWN, FolderDataset, Listing, read_scores

NAMES = ("image", "image_name", "name", "filename")
SCORES = ("mos", "score")
HOW = "--dataset folder:PATH, where PATH is a folder of images"


class Folder(FolderDataset):
    """The images of a folder; a file mos.csv in it (columns image, mos, photograph) gives opinion scores.

    Images in folders below it belong to it, too, except in hidden ones; a warning names image files that are left out.
    Images that were made from one photograph, such as crops or distorted versions, count as one unit in tests. The
    column photograph says which photograph each image was made from; without it, each folder is a photograph if there
    are several, and otherwise images whose thumbnails look alike are of one photograph. The column reference names the
    undistorted file, below the folder, with which full-reference metrics compare an image.
    """

    info = Info(id="harness/folder", version="3")
    address = "path"
    path: str = Field(default="", description="Folder of images, here or among the assets.")
    mos: str = Field(default="", description="Table of scores, if not PATH/mos.csv; higher is better.")

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, and warn of files that are left out and of images that are not RGB.

        See `FolderDataset.build`.
        """
        listing, census = self.listing(), images_below(self._root())
        others = sorted(set(census.names).difference(listing.names, listing.columns.get("reference", ())))
        if others and not self.mos:
            more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
            they = "they are" if len(others) > 1 else "it is"
            warnings.warn(
                f"{self._table()} does not name {', '.join(others[:SHOWN])}{more}, so {they} left out", stacklevel=2
            )
        if (sentence := census.sentence()) and not self.mos:
            warnings.warn(sentence, stacklevel=2)
        if sentence := said_of_misnamed(self._table()):
            warnings.warn(sentence, stacklevel=2)
        if sentence := _said_of_folders(listing):
            warnings.warn(sentence, stacklevel=2)
        image_set = super().build(device)
        paths = [asset_path(self.path) / name for name in image_set.names]
        for message in said_of_images(paths):
            warnings.warn(message, stacklevel=2)
        return image_set

    def listing(self) -> Listing:
        """Return the images of the folder, or those that the table of scores names."""
        folder, table = self._root(), self._table()
        if not table.is_file():
            if self.mos:
                raise UsageError(f"{table} does not exist.")
            census = images_below(folder)
            if not census.names:
                raise Unavailable(census.sentence() or f"{folder} has no images, neither in it nor in its folders", HOW)
            return Listing(folder, census.names, {"photograph": _by_folder(census.names)}, proxy=NO_LABELS)
        records = read_scores(table, NAMES, SCORES, photograph=("photograph",), reference=("reference",))
        references = {"reference": records.references} if records.references else {}
        photographs = records.photographs or records.references or _by_folder(records.names)
        return Listing(folder, records.names, {"mos": records.scores, **references, "photograph": photographs})

    def _root(self) -> Path:
        if not self.path:
            raise Unavailable("no folder is named", HOW)
        folder = asset_path(self.path)
        if not folder.is_dir():
            raise Unavailable(f"there is no folder {folder}", HOW)
        return folder

    def _table(self) -> Path:
        return asset_path(self.mos) if self.mos else self._root() / "mos.csv"


def _by_folder(names: Sequence[str]) -> list[str]:
    """Return the folder of each image as its photograph; "" for all images if they are in one folder."""
    folders = [name.rpartition("/")[0] for name in names]
    return folders if len(set(folders)) > 1 else [""] * len(names)


def _said_of_folders(listing: Listing) -> str:
    """Return a sentence on folders that count as photographs although they have several images, or ""."""
    photographs = [name for name in _by_folder(listing.names) if name]
    if len(set(photographs)) == len(photographs) or _by_folder(listing.names) != listing.columns["photograph"]:
        return ""
    return (
        f"{listing.folder}: {len(photographs)} images in {len(set(photographs))} folders count as "
        f"{len(set(photographs))} photographs, one for each folder; if that is wrong, say what each image was made "
        "from in a column photograph of mos.csv"
    )


@hookimpl
def components() -> list[ImageDataset]:
    return [Folder()]
