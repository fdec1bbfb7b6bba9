"""CIFAR-10 (Krizhevsky 2009) in its binary version, which needs no pickle."""

from pathlib import Path

import numpy as np

from imharness.data import Archive, DataSource, Info, TableDataset, hookimpl
from imharness_membership.tabular import PublishedTable, first_of
from imharness_vision.cifar100 import binary

FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
SOURCE = DataSource(
    name="cifar10",
    licence="none stated",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    archives=(
        Archive(
            file="cifar-10-binary.tar.gz",
            address="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            size=170_052_171,
            sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
    members=FILES,
    units=60_000,
    shape=(3, 32, 32),
)


class Cifar10(PublishedTable):
    """60,000 images of 32x32 px in 10 classes."""

    info = Info(id="harness/cifar10", version="1", paper="krizhevsky2009")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the images come from."""
        return (SOURCE,)

    def files(self) -> tuple[Path, ...]:
        return first_of(SOURCE, FILES)

    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return images ``(60000, 3, 32, 32)`` in [0, 1] and the classes."""
        batches = [binary(file, labels=1) for file in files]
        pixels, labels = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
        return pixels.astype(np.float32) / 255, labels


@hookimpl
def components() -> list[TableDataset]:
    return [Cifar10()]
