"""KADID-10k: 81 photographs under 25 distortions in five severities.

Lin, Hosu & Saupe, "KADID-10k: A Large-scale Artificially Distorted IQA Database" (QoMEX 2019). Expected in the asset
folder ``kadid10k``: ``dmos.csv`` (higher is better in this data set) and ``images``.
"""

import numpy as np
from pydantic import Field

from imharness.data import ImageDataset, Info, Unavailable, UsageError, data_folder, derive_seed, hookimpl
from imharness_files.tables import read_csv
from imharness_iqa.folders import FolderDataset, Listing, read_scores

SOURCE = "https://database.mmsp-kn.de/kadid-10k-database.html"


class Kadid10k(FolderDataset):
    """10,125 artificially distorted photographs with opinion scores."""

    info = Info(id="harness/kadid10k", version="1", paper="lin2019")
    references: int = Field(default=0, ge=0, le=81, description="Photographs drawn, with all distortions; 0: all.")

    def listing(self) -> Listing:
        """Return the distorted images of all or of some photographs."""
        folder = data_folder("kadid10k", SOURCE)
        table = folder / "dmos.csv"
        if not table.is_file():
            raise Unavailable(f"{table} does not exist", f"get it from {SOURCE}")
        names, scores = read_scores(table, ("dist_img",), ("dmos",))
        sources = [row.get("ref_img", "") for _, row in read_csv(table).rows()]
        if not all(sources):
            raise UsageError(f"{table} has no column ref_img, or lines without it.")
        if self.references:
            known = sorted(set(sources))
            rng = np.random.default_rng(derive_seed("references", self.draw))
            drawn = set(rng.permutation(known)[: self.references].tolist())
            kept = [i for i, source in enumerate(sources) if source in drawn]
            names, scores, sources = ([column[i] for i in kept] for column in (names, scores, sources))
        return Listing(folder / "images", names, {"mos": scores, "reference": sources})


@hookimpl
def components() -> list[ImageDataset]:
    return [Kadid10k()]
