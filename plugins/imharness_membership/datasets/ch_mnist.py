"""CH-MNIST: tiles of colorectal cancer tissue in grey, 64x64 px (Kather et al., Scientific Reports 2016)."""

from pathlib import Path

import numpy as np

from imharness.data import Archive, DataSource, Info, TableDataset, hookimpl
from imharness_membership.tabular import PublishedTable, first_of, rows_of

SIDE = 64
FILE = "hmnist_64_64_L.csv"
SOURCE = DataSource(
    name="ch-mnist",
    licence="CC BY 4.0 (Kather et al.)",
    page="https://www.kaggle.com/datasets/kmader/colorectal-histology-mnist",
    archives=(Archive(file="archive.zip"),),
    members=(FILE,),
    units=5_000,
    shape=(1, SIDE, SIDE),
)


class ChMnist(PublishedTable):
    """5,000 tiles of 8 kinds of tissue."""

    info = Info(id="harness/ch-mnist", version="1", paper="kather2016")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the tiles come from."""
        return (SOURCE,)

    def files(self) -> tuple[Path, ...]:
        return first_of(SOURCE, (FILE,))

    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return tiles ``(n, 1, 64, 64)`` in [0, 1] and classes; the file has a header, and the class comes last."""
        table = rows_of(files[0], skiprows=1)
        if table.shape[1] != SIDE**2 + 1:
            raise ValueError(f"rows have {table.shape[1]} numbers; expected {SIDE**2} grey levels and a class")
        levels = table[:, :-1]
        if levels.min(initial=0) < 0 or levels.max(initial=0) > 255:
            raise ValueError("grey levels must be between 0 and 255")
        return levels.reshape(-1, 1, SIDE, SIDE) / 255, table[:, -1].astype(np.int64)


@hookimpl
def components() -> list[TableDataset]:
    return [ChMnist()]
