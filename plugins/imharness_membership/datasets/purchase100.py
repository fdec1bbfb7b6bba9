"""Purchase100: what people bought (Shokri et al., IEEE S&P 2017, from the Acquire Valued Shoppers challenge)."""

from pathlib import Path

import numpy as np

from imharness.data import Archive, DataSource, Info, TableDataset, hookimpl
from imharness_membership.tabular import PAGE, PublishedTable, arrays, first_column_is_class, first_of

SOURCE = DataSource(
    name="purchase100",
    licence="none stated",
    page=PAGE,
    archives=(Archive(file="dataset_purchase.tgz", address=f"{PAGE}/raw/master/dataset_purchase.tgz"),),
    members=("dataset_purchase",),
    units=197_324,
    shape=(600,),
)


class Purchase100(PublishedTable):
    """197,324 people, 600 products that each bought or not, 100 classes of buyers."""

    info = Info(id="harness/purchase100", version="1", paper="shokri2017")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the table comes from."""
        return (SOURCE,)

    def files(self) -> tuple[Path, ...]:
        return first_of(SOURCE, ("purchase100.npz",), ("dataset_purchase",))

    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return bits ``(n, 600)`` and classes.

        The npz has the arrays features and (one-hot) labels; in the text file, each line begins with its class.
        """
        if files[0].suffix != ".npz":
            return first_column_is_class(files[0])
        features, labels = arrays(files[0], "features", "labels")
        return features, labels.argmax(axis=1) if labels.ndim == 2 else labels


@hookimpl
def components() -> list[TableDataset]:
    return [Purchase100()]
