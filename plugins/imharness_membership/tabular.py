"""Reads published tables of features and classes: npz, or comma-separated text."""

import zlib
from abc import abstractmethod
from pathlib import Path

import numpy as np
import torch

from imharness.data import DataSource, TableDataset, TableSet, data_folder
from imharness.errors import HarnessError, Unavailable
from imharness.files import GIB, files_digest, plain_file, read_arrays, read_bytes

PAGE = "https://github.com/privacytrustlab/datasets"


class PublishedTable(TableDataset):
    """A table in the files that its authors published, in a folder of the assets."""

    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """Return the files that are there; raises `Unavailable`."""

    @abstractmethod
    def read(self, files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return features ``(n, ...)`` in [0, 1] and classes ``(n,)``."""

    def published_units(self) -> int:
        """Return how many rows the published table has."""
        return next((source.units for source in self.data_sources()), 0)

    def require(self) -> None:
        """Raise `Unavailable` unless the files are here."""
        self.files()

    def content(self) -> str:
        """Return a digest of the files."""
        try:
            files = self.files()
            return files_digest(files[0].parent, files)
        except Unavailable:
            return ""

    def build(self, device: torch.device) -> TableSet:
        """Return the rows; classes count from 0."""
        files = self.files()
        try:
            features, labels = self.read(files)
        except (OSError, ValueError, zlib.error, HarnessError) as error:
            raise HarnessError(f"{self.label}: {files[0]} cannot be read: {' '.join(str(error).split())}") from error
        if len(features) != len(labels) or len(labels) == 0:
            raise HarnessError(f"{self.label}: {files[0]} has {len(features)} rows and {len(labels)} classes")
        if not (np.isfinite(features).all() and np.isfinite(labels).all()):
            raise HarnessError(f"{self.label}: {files[0]} holds NaN or infinity")
        classes, numbers = np.unique(labels, return_inverse=True)
        return TableSet(
            torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)).to(device),
            torch.from_numpy(numbers.astype(np.int64)).to(device),
            classes=len(classes),
        )


def first_of(source: DataSource, *choices: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the first group of files that are all in the folder; raises `Unavailable` that names them."""
    folder = data_folder(source.name, source.page)
    for names in choices:
        if all((folder / name).is_file() for name in names):
            return tuple(folder / name for name in names)
    wanted = ", or ".join(" and ".join(names) for names in choices)
    raise Unavailable(f"{folder} has no {wanted}", source.by_hand())


def arrays(file: Path, features: str = "x", labels: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of an npz file."""
    stored = read_arrays(file, (features, labels))
    return stored[features], stored[labels]


def first_column_is_class(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return features and classes of comma-separated rows without a header; the class comes first."""
    table = rows_of(file, quotechar='"')
    return table[:, 1:], table[:, 0].astype(np.int64)


def rows_of(file: Path, **options: object) -> np.ndarray:
    """Return float32 ``(n, m)`` of comma-separated rows without a header; `options` go to `numpy.loadtxt`.

    Raises `ValueError` for what is not finite, also of a class, which no integer could say.
    """
    with plain_file(file, 4 * GIB) as content:
        values: np.ndarray = np.loadtxt(  # type: ignore[call-overload]
            content, delimiter=",", dtype=np.float32, ndmin=2, encoding="utf-8", **options
        )
    if not np.isfinite(values).all():
        raise ValueError("it holds NaN or infinity")
    return values


def idx(file: Path) -> np.ndarray:
    """Return the uint8 array of an IDX file (LeCun), gzipped or not."""
    data = read_bytes(file, GIB)
    if file.suffix == ".gz":
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
        data = unpacking.decompress(data, GIB)
        if not unpacking.eof:
            raise ValueError("it is cut off, or unpacks to more than 1 GiB")
    if data[:3] != b"\x00\x00\x08" or len(data) < 4 + 4 * data[3]:
        raise ValueError("not an IDX file of bytes")
    shape = np.frombuffer(data, ">u4", count=data[3], offset=4).astype(int)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)
