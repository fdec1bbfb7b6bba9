"""AGIQA-3K: images made by generative models.

Li et al., "AGIQA-3K: An Open Database for AI-Generated Image Quality Assessment" (IEEE TCSVT 2024). Expected in the
asset folder ``agiqa-3k``: ``data.csv`` and the images, beside it or in ``images``.
"""

from imharness.data import Archive, DataSource, ImageDataset, Info, data_folder, hookimpl
from imharness.errors import Unavailable
from imharness_iqa.folders import FolderDataset, Listing, read_scores

SOURCE = DataSource(
    name="agiqa-3k",
    licence="MIT",
    page="https://github.com/lcysyzxdxc/AGIQA-3k-Database",
    archives=(
        Archive(file="AGIQA-3K.zip"),
        Archive(file="data.csv", address="https://github.com/lcysyzxdxc/AGIQA-3k-Database/raw/main/data.csv"),
    ),
    steps="get data.csv and, by the Google Drive link in the README, the images from "
    "https://github.com/lcysyzxdxc/AGIQA-3k-Database, and call the archive AGIQA-3K.zip",
    members=("images/*.jpg", "data.csv"),
    units=2_982,
)


class Agiqa3k(FolderDataset):
    """2,982 images of six generators with opinion scores of their quality."""

    info = Info(id="harness/agiqa-3k", version="1", paper="li2024")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the images come from."""
        return (SOURCE,)

    def listing(self) -> Listing:
        """Return the images that the table names."""
        folder = data_folder("agiqa-3k", SOURCE.page)
        if not (folder / "data.csv").is_file():
            raise Unavailable(f"{folder / 'data.csv'} does not exist", SOURCE.by_hand())
        names, scores, *_ = read_scores(folder / "data.csv", ("name",), ("mos_quality",))
        image_folder = folder / "images"
        return Listing(image_folder if image_folder.is_dir() else folder, names, {"mos": scores})


@hookimpl
def components() -> list[ImageDataset]:
    return [Agiqa3k()]
