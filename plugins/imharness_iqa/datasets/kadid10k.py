"""KADID-10k: 81 photographs under 25 distortions in five severities.

Lin, Hosu & Saupe, "KADID-10k: A Large-scale Artificially Distorted IQA Database" (QoMEX 2019). Expected in the asset
folder ``kadid10k``: ``dmos.csv`` (higher is better in this data set) and ``images``.
"""

import numpy as np
from pydantic import Field

from imharness.data import Archive, DataSource, ImageDataset, Info, data_folder, derive_seed, hookimpl
from imharness.errors import Unavailable, UsageError
from imharness.files import read_csv
from imharness_iqa.folders import FolderDataset, Listing, read_scores

DISTORTED = 125
"""The number of distorted images of each photograph."""
SOURCE = DataSource(
    name="kadid10k",
    licence="free for research",
    page="https://database.mmsp-kn.de/kadid-10k-database.html",
    archives=(
        Archive(
            file="kadid10k.zip",
            address="https://datasets.vqa.mmsp-kn.de/archives/kadid10k.zip",
            size=3_067_408_471,
        ),
    ),
    members=("images/", "dmos.csv"),
    units=10_125,
    shape=(384, 512),
)


class Kadid10k(FolderDataset):
    """10,125 artificially distorted photographs with opinion scores."""

    info = Info(id="harness/kadid10k", version="1", paper="lin2019")
    references: int = Field(
        default=0, ge=0, le=81, description="Number of photographs to draw, with all their distortions; 0: all."
    )

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the images come from."""
        return (SOURCE,)

    def listing(self) -> Listing:
        """Return the distorted images of all or of some photographs."""
        folder = data_folder("kadid10k", SOURCE.page)
        table = folder / "dmos.csv"
        if not table.is_file():
            raise Unavailable(f"{table} does not exist", SOURCE.by_hand())
        names, scores, *_ = read_scores(table, ("dist_img",), ("dmos",))
        sources = [row.get("ref_img", "") for _, row in read_csv(table).rows()]
        if not all(sources):
            raise UsageError(f"{table} has no column ref_img, or has lines without it.")
        if self.references:
            distinct_sources = sorted(set(sources))
            rng = np.random.default_rng(derive_seed("references", self.draw))
            drawn = set(rng.permutation(distinct_sources)[: self.references].tolist())
            indices = [i for i, source in enumerate(sources) if source in drawn]
            names, scores, sources = ([column[i] for i in indices] for column in (names, scores, sources))
        return Listing(folder / "images", names, {"mos": scores, "reference": sources})

    def published_units(self) -> int:
        """Return the distorted images of the drawn photographs."""
        return self.drawn_of(DISTORTED * self.references or SOURCE.units)


@hookimpl
def components() -> list[ImageDataset]:
    return [Kadid10k()]
