"""CIFAR-100 (Krizhevsky 2009) in its binary version, which needs no pickle."""

from pathlib import Path

import numpy as np

from imharness.data import Info, TableDataset, hookimpl
from imharness_files.opening import read_bytes
from imharness_membership.tabular import PublishedTable, first_of

SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html"


class Cifar100(PublishedTable):
    """60,000 images of 32x32 px in 100 classes."""

    info = Info(id="harness/cifar100", version="1", paper="krizhevsky2009")

    def files(self) -> tuple[Path, ...]:
        return first_of("cifar100", SOURCE, ("train.bin", "test.bin"))

    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return images ``(60000, 3, 32, 32)`` in [0, 1] and the fine classes."""
        rows = np.concatenate(
            [np.frombuffer(read_bytes(file), np.uint8).reshape(-1, 2 + 3 * 32 * 32) for file in files]
        )
        return rows[:, 2:].reshape(-1, 3, 32, 32).astype(np.float32) / 255, rows[:, 1]


@hookimpl
def components() -> list[TableDataset]:
    return [Cifar100()]
