"""Location30: places that people checked in at (Shokri et al., IEEE S&P 2017, from Foursquare)."""

from pathlib import Path

import numpy as np

from imharness.data import Archive, DataSource, Info, TableDataset, hookimpl
from imharness_membership.tabular import PAGE, PublishedTable, arrays, first_column_is_class, first_of

SOURCE = DataSource(
    name="location30",
    licence="none stated",
    page=PAGE,
    archives=(Archive(file="dataset_location.tgz", address=f"{PAGE}/raw/master/dataset_location.tgz"),),
    members=("bangkok",),
    units=5_010,
    shape=(446,),
)


class Location30(PublishedTable):
    """5,010 people, 446 places that each visited or not, 30 classes of people."""

    info = Info(id="harness/location30", version="1", paper="shokri2017")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the table comes from."""
        return (SOURCE,)

    def files(self) -> tuple[Path, ...]:
        return first_of(SOURCE, ("location30.npz",), ("bangkok",))

    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return bits ``(n, 446)`` and classes; the npz has arrays x and y, lines of the text begin with the class."""
        return arrays(files[0]) if files[0].suffix == ".npz" else first_column_is_class(files[0])


@hookimpl
def components() -> list[TableDataset]:
    return [Location30()]
