"""The originals of attacked images that exist, as `harness iqa import-images` lists them."""

import math
from dataclasses import replace

import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageSet, Info, asset_path, hookimpl
from imharness.errors import Unavailable
from imharness_iqa.attacked_folder import HOW, attacked_folder, opinion
from imharness_iqa.folders import NO_LABELS, FolderDataset, Listing


class AttackedOriginals(FolderDataset):
    """The images of a folder before they were attacked, under the names that they had in the run that attacked them.

    Random defenses draw by these names, so that they change an image here as they did in that run.
    """

    info = Info(id="harness/attacked-originals", version="1")
    address = "path"
    opt_in = True
    path: str = Field(default="", description="Folder with index.csv, here or among the assets.")
    part: int = Field(
        default=0, ge=0, description="Number of the set of originals; attacks on other images have other sets."
    )

    def listing(self) -> Listing:
        """Return the originals of a set."""
        if not self.path:
            raise Unavailable("no folder of attacked images is named", HOW)
        folder = asset_path(self.path)
        listed = attacked_folder(folder)
        if self.part >= len(listed.sets):
            raise Unavailable(f"{folder} has {len(listed.sets)} sets of originals", f"{HOW} lists them")
        files = listed.sets[self.part]
        facts = [listed.originals[file] for file in files]
        columns: dict[str, list[float] | list[str]] = {"photograph": [original["photograph"] for original in facts]}
        scores, proxy = [opinion(original) for original in facts], facts[0]["proxy"]
        if all(math.isnan(score) for score in scores):
            return Listing(folder, files, columns, proxy or NO_LABELS)
        columns["mos"] = scores
        return Listing(folder, files, columns, proxy)

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, named as in the index; see `FolderDataset.build`."""
        images, listed = super().build(device), attacked_folder(asset_path(self.path))
        return replace(images, names=tuple(listed.originals[file]["name"] for file in images.names))


@hookimpl
def components() -> list[ImageDataset]:
    return [AttackedOriginals()]
