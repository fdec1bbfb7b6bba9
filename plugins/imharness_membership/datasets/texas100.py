"""Texas100: stays in hospital (Shokri et al., IEEE S&P 2017, from the Texas Department of State Health Services)."""

from pathlib import Path

import numpy as np

from imharness.data import Archive, DataSource, Info, TableDataset, hookimpl
from imharness_membership.tabular import PAGE, PublishedTable, arrays, first_of, rows_of

SOURCE = DataSource(
    name="texas100",
    licence="none stated",
    page=PAGE,
    archives=(Archive(file="dataset_texas.tgz", address=f"{PAGE}/raw/master/dataset_texas.tgz"),),
    members=("feats", "labels"),
    units=67_330,
    shape=(6_169,),
)


class Texas100(PublishedTable):
    """67,330 hospital stays with 6,169 facts about each, in 100 classes: the most frequent procedures."""

    info = Info(id="harness/texas100", version="1", paper="shokri2017")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the table comes from."""
        return (SOURCE,)

    def files(self) -> tuple[Path, ...]:
        return first_of(SOURCE, ("texas100.npz",), ("feats", "labels"))

    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return bits ``(n, 6169)`` and classes.

        The npz has the arrays features and (one-hot) labels; the text files have one row per line.
        """
        if files[0].suffix == ".npz":
            features, labels = arrays(files[0], "features", "labels")
            return features, labels.argmax(axis=1) if labels.ndim == 2 else labels
        return rows_of(files[0]), rows_of(files[1])[:, 0].astype(np.int64)


@hookimpl
def components() -> list[TableDataset]:
    return [Texas100()]
