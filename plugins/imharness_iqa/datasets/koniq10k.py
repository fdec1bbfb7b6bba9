"""KonIQ-10k: photographs with authentic distortions.

Hosu, Lin, Sziranyi & Saupe, "KonIQ-10k: An Ecologically Valid Database for Deep Learning of Blind Image Quality
Assessment" (IEEE TIP 2020). Expected in the asset folder ``koniq10k``: the table of scores and the images in
``512x384``.
"""

from typing import Literal

from pydantic import Field

from imharness.data import Archive, DataSource, ImageDataset, Info, data_folder, hookimpl
from imharness.errors import Unavailable
from imharness_iqa.folders import FolderDataset, Listing, read_scores

SOURCE = DataSource(
    name="koniq10k",
    licence="free for research",
    page="https://database.mmsp-kn.de/koniq-10k-database.html",
    archives=(
        Archive(file="koniq10k_512x384.zip", address="https://datasets.vqa.mmsp-kn.de/archives/koniq10k_512x384.zip"),
        Archive(
            file="koniq10k_distributions_sets.csv",
            address="https://github.com/subpic/koniq/raw/master/metadata/koniq10k_distributions_sets.csv",
            size=1147194,
            sha256="d0bd1ad54a60bc36fe172049e46ac76c83554e50ab84acebfd47b82b3e698a0a",
        ),
    ),
    members=("512x384/", "koniq10k_distributions_sets.csv"),
    units=10_073,
    shape=(384, 512),
)
TABLES = {"koniq10k_distributions_sets.csv": "MOS", "koniq10k_scores_and_distributions.csv": "MOS_zscore"}
"""Published tables -> the column with the scores from 0 to 100; MOS of the second table has ratings from 1 to 5."""
IMAGES = "512x384"


class KonIq10k(FolderDataset):
    """10,073 photographs of 512x384 px with mean opinion scores."""

    info = Info(id="harness/koniq10k", version="2", paper="hosu2020")

    split: Literal["all", "training", "validation", "test"] = Field(default="all", description="Published part.")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the photographs and their scores come from."""
        return (SOURCE,)

    def listing(self) -> Listing:
        """Return the images that the table names."""
        folder = data_folder("koniq10k", SOURCE.page)
        table = next((folder / name for name in TABLES if (folder / name).is_file()), None)
        if table is None or not (folder / IMAGES).is_dir():
            raise Unavailable(f"{folder} lacks {next(iter(TABLES))} or the images in {IMAGES}", SOURCE.by_hand())
        names, scores, *_ = read_scores(
            table, ("image_name",), (TABLES[table.name],), {} if self.split == "all" else {"set": self.split}
        )
        return Listing(folder / IMAGES, names, {"mos": scores})


@hookimpl
def components() -> list[ImageDataset]:
    return [KonIq10k()]
