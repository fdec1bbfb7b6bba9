"""Data sets: where images and rows come from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from imharness.components.component import Component

if TYPE_CHECKING:
    import torch

    from imharness.contracts.types import Images


@dataclass(frozen=True)
class ImageSet:
    """Images by position, loaded when asked for, and what is known of each.

    `columns` hold one value per image: ``mos`` (higher = better), ``label``, ``class`` (the label's name),
    ``reference`` (name of the undistorted image), ``family`` and ``severity`` of a distortion. Of a forced choice:
    ``group`` (its name), ``choice`` (0 or 1, which alternative) and ``judge`` (share of people who found
    alternative 1 nearer); ``same``: share who saw no difference from the reference. `proxy` says in words what
    stands in for human labels, or is empty when people gave them.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]
    load: Callable[[Sequence[int]], Images]
    """Positions of images of one shape -> float32 ``(n, 3, H, W)`` on the CPU, multiples of 1/255."""
    columns: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    proxy: str = ""

    def __len__(self) -> int:
        return len(self.names)

    def first(self, limit: int | None) -> ImageSet:
        """Return the first `limit` images, or all."""
        if limit is None or limit >= len(self):
            return self
        columns = {name: values[:limit] for name, values in self.columns.items()}
        return ImageSet(self.names[:limit], self.shapes[:limit], self.load, columns, self.proxy)

    def batches(self, size: int) -> Iterator[list[int]]:
        """Yield runs of at most `size` neighbouring positions whose images have one shape."""
        start = 0
        while start < len(self):
            stop = start
            while stop < len(self) and stop - start < size and self.shapes[stop] == self.shapes[start]:
                stop += 1
            yield list(range(start, stop))
            start = stop


@dataclass(frozen=True)
class TableSet:
    """Rows of features with a class each: float32 ``(N, *shape)`` and int64 ``(N,)``."""

    features: torch.Tensor
    labels: torch.Tensor
    classes: int


class ImageDataset(Component):
    """A set of images."""

    kind: ClassVar[str] = "dataset"

    @abstractmethod
    def build(self, device: torch.device) -> ImageSet:
        """Return the images; reads no more than it must."""


class TableDataset(Component):
    """A set of labelled feature rows."""

    kind: ClassVar[str] = "dataset"

    @abstractmethod
    def build(self, device: torch.device) -> TableSet:
        """Return the rows on `device`."""
