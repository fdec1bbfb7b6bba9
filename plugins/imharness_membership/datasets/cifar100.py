"""CIFAR-100 (Krizhevsky 2009) in its binary version, which needs no pickle."""

from pathlib import Path

import numpy as np

from imharness.data import DataSource, Info, TableDataset, hookimpl
from imharness_membership.tabular import PublishedTable, first_of
from imharness_vision.cifar100 import CIFAR100, binary


class Cifar100(PublishedTable):
    """60,000 images of 32x32 px in 100 classes."""

    info = Info(id="harness/cifar100", version="1", paper="krizhevsky2009")

    def data_sources(self) -> tuple[DataSource, ...]:
        """Return where the images come from."""
        return (CIFAR100,)

    def files(self) -> tuple[Path, ...]:
        return first_of(CIFAR100, ("train.bin", "test.bin"))

    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return images ``(60000, 3, 32, 32)`` in [0, 1] and the fine classes."""
        batches = [binary(file) for file in files]
        pixels, labels = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
        return pixels.astype(np.float32) / 255, labels


@hookimpl
def components() -> list[TableDataset]:
    return [Cifar100()]
