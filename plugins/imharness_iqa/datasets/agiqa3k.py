"""AGIQA-3K: images made by generative models.

Li et al., "AGIQA-3K: An Open Database for AI-Generated Image Quality Assessment" (IEEE TCSVT 2024). Expected in the
asset folder ``agiqa-3k``: ``data.csv`` and the images, beside it or in ``images``.
"""

from imharness.data import ImageDataset, Info, Unavailable, data_folder, hookimpl
from imharness_iqa.folders import FolderDataset, Listing, read_scores

SOURCE = "https://github.com/lcysyzxdxc/AGIQA-3k-Database"


class Agiqa3k(FolderDataset):
    """2,982 images of six generators with opinion scores of their quality."""

    info = Info(id="harness/agiqa-3k", version="1", paper="li2024")

    def listing(self) -> Listing:
        """Return the images that the table names."""
        folder = data_folder("agiqa-3k", SOURCE)
        if not (folder / "data.csv").is_file():
            raise Unavailable(f"{folder / 'data.csv'} does not exist", f"get it from {SOURCE}")
        names, scores = read_scores(folder / "data.csv", ("name",), ("mos_quality",))
        place = folder / "images"
        return Listing(place if place.is_dir() else folder, names, {"mos": scores})


@hookimpl
def components() -> list[ImageDataset]:
    return [Agiqa3k()]
