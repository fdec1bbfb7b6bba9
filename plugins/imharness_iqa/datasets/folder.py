"""Any folder of images, with or without opinion scores: ``folder:PATH``."""

import warnings
from dataclasses import replace

import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageSet, Info, hookimpl, place
from imharness.errors import Unavailable, UsageError
from imharness.files import said_of_colours
from imharness_iqa.folders import NO_LABELS, SHOWN, FolderDataset, Listing, images_below, read_scores

NAMES = ("image", "image_name", "name", "filename")
SCORES = ("mos", "MOS", "score")


class Folder(FolderDataset):
    """The images of a folder; a file mos.csv in it (columns image, mos, photograph) gives opinion scores.

    Images that were made from one photograph, such as crops or distorted versions, count as one unit in tests. The
    column photograph says which those are, or folders do, one for each photograph. Without either, images whose
    thumbnails look alike count as one. A column reference names the file below the folder, undistorted, with which
    full-reference metrics compare an image.
    """

    info = Info(id="harness/folder", version="2")
    address = "path"
    path: str = Field(default="", description="Folder of images, here or among the assets.")
    mos: str = Field(default="", description="Table of scores, if not PATH/mos.csv; higher is better.")

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, and warn of those that are not RGB; see `FolderDataset.build`."""
        found = super().build(device)
        if told := said_of_colours([place(self.path) / name for name in found.names]):
            warnings.warn(told, stacklevel=2)
        return found

    def listing(self) -> Listing:
        """Return the images of the folder, or those that the table of scores names."""
        if not self.path:
            raise Unavailable("no folder is named", "--dataset folder:PATH")
        folder = place(self.path)
        if not folder.is_dir():
            raise Unavailable(f"there is no folder {folder}", "--dataset folder:PATH, where PATH is a folder of images")
        table = place(self.mos) if self.mos else folder / "mos.csv"
        if not table.is_file():
            if self.mos:
                raise UsageError(f"{table} does not exist.")
            names = images_below(folder)
            if not names:
                raise Unavailable(f"{folder} has no images, neither in it nor in its folders")
            return _grouped(Listing(folder, names, proxy=NO_LABELS))
        found = read_scores(table, NAMES, SCORES, photograph=("photograph",), reference=("reference",))
        others = sorted(set(images_below(folder)).difference(found.names, found.references))
        if others and not self.mos:
            more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
            they = "they are" if len(others) > 1 else "it is"
            warnings.warn(f"{table} does not name {', '.join(others[:SHOWN])}{more}, so {they} left out", stacklevel=2)
        references = {"reference": found.references} if found.references else {}
        listing = Listing(folder, found.names, {"mos": found.scores, **references})
        if not found.photographs and not found.references:
            return _grouped(listing)
        return replace(listing, columns={**listing.columns, "photograph": found.photographs or found.references})


def _grouped(listing: Listing) -> Listing:
    """Return a listing with the folder of each image as its photograph, if there are folders."""
    folders = [name.rpartition("/")[0] for name in listing.names]
    if any(folders):
        return replace(
            listing,
            columns={**listing.columns, "photograph": [f or n for f, n in zip(folders, listing.names, strict=True)]},
        )
    return replace(listing, unknown_sources=True)


@hookimpl
def components() -> list[ImageDataset]:
    return [Folder()]
