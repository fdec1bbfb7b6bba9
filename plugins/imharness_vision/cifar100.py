"""CIFAR-100, and the binary format of both CIFARs (Krizhevsky 2009), which needs no pickle."""

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
PIXELS = 3 * 32 * 32
"""Bytes of an image's planes red, green and blue, which follow its classes."""


def binary(file: Path, labels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return images ``(n, 3, 32, 32)`` and classes ``(n,)``, uint8, of a file.

    `labels`: classes of an image, 2 in CIFAR-100 (coarse, then fine) and 1 in CIFAR-10; the last one is returned.
    Raises `ValueError` for a file that is cut off.
    """
    content = np.frombuffer(read_bytes(file), np.uint8)
    size = labels + PIXELS
    if not len(content) or len(content) % size:
        raise ValueError(f"{file.name} has {len(content)} bytes, no multiple of {size}")
    rows = content.reshape(-1, size)
    return rows[:, labels:].reshape(-1, 3, 32, 32), rows[:, labels - 1]
