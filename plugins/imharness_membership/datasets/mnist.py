"""MNIST (LeCun et al., 1998) in its IDX files, gzipped or not."""

from pathlib import Path

import numpy as np

from imharness.data import Archive, DataSource, Info, TableDataset, hookimpl
from imharness_membership.tabular import PublishedTable, first_of, idx

SOURCE = DataSource(
    name="mnist",
    licence="CC BY-SA 3.0",
    page="http://yann.lecun.com/exdb/mnist",
    archives=(Archive(file="train-images-idx3-ubyte.gz"), Archive(file="train-labels-idx1-ubyte.gz")),
    members=("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    units=60_000,
    shape=(1, 28, 28),
)


class Mnist(PublishedTable):
    """Handwritten digits of 28x28 px: the 60,000 training images, or the 10,000 test images if only those are here."""

    info = Info(id="harness/mnist", version="1", paper="lecun1998")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the digits come from."""
        return (SOURCE,)

    def files(self) -> tuple[Path, ...]:
        return first_of(
            SOURCE,
            *(
                (f"{subset}-images-idx3-ubyte{end}", f"{subset}-labels-idx1-ubyte{end}")
                for subset in ("train", "t10k")
                for end in ("", ".gz")
            ),
        )

    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return images ``(n, 1, 28, 28)`` in [0, 1] and digits."""
        return idx(files[0])[:, None].astype(np.float32) / 255, idx(files[1])


@hookimpl
def components() -> list[TableDataset]:
    return [Mnist()]
