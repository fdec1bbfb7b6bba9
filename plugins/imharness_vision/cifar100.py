"""CIFAR-100 (Krizhevsky 2009) in its binary version, which needs no pickle."""

from pathlib import Path

import numpy as np

from imharness.data import Archive, DataSource
from imharness.files import read_bytes

CIFAR100 = DataSource(
    name="cifar100",
    licence="none stated",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    archives=(
        Archive(
            file="cifar-100-binary.tar.gz",
            address="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            size=168_513_733,
            sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
    ),
    members=("train.bin", "test.bin"),
    units=60_000,
    shape=(3, 32, 32),
)
ROW = 2 + 3 * 32 * 32
"""Bytes of an image: its coarse class, its fine class, and the planes red, green and blue."""


def binary(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images ``(n, 3, 32, 32)`` and fine classes ``(n,)``, uint8, of train.bin or test.bin.

    Raises `ValueError` for a file that is cut off.
    """
    content = np.frombuffer(read_bytes(file), np.uint8)
    if not len(content) or len(content) % ROW:
        raise ValueError(f"{file.name} has {len(content)} bytes, no multiple of {ROW}")
    rows = content.reshape(-1, ROW)
    return rows[:, 2:].reshape(-1, 3, 32, 32), rows[:, 1]
