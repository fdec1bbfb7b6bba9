"""Data sets of images: names, sizes and labels are read at once, pixels when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from imharness.contracts.call import Builds, Data
from imharness.contracts.component import Component
from imharness.contracts.values import ImageBatch, Images, Only
from imharness.errors import ContractError


@dataclass(frozen=True)
class ImageSet:
    """Images by position, loaded when they are asked for, and what is known about each.

    `names` are unique; `shapes` are (height, width). `columns` hold one value per image: ``mos`` (higher = better),
    ``label``, ``class`` (the label's name), ``reference`` (name of the undistorted image), ``photograph`` (the
    photograph that several references are cut from, so that they are not independent), ``family`` and ``severity`` of a
    distortion. A forced choice has ``group`` (its name), ``choice`` (0 or 1, which alternative) and ``judge`` (share of
    people who found alternative 1 nearer). ``same`` is the share of people who saw no difference from the reference,
    ``judges`` how many people were asked. `proxy` says in words what stands in for human labels, and is empty if people
    gave them.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]
    load: Callable[[Sequence[int]], Images]
    """Positions of images of one shape -> float32 ``(n, 3, H, W)`` on the CPU, multiples of 1/255."""
    columns: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    proxy: str = ""
    originals: Callable[[Sequence[int]], Images] | None = None
    """Positions of images of one shape -> the undistorted image that each was made from, like `load`; None if the set
    has no such images. An image that was not distorted is its own original."""

    def __len__(self) -> int:
        return len(self.names)

    def first(self, limit: int | None) -> ImageSet:
        """Return the first `limit` images, or all."""
        if limit is None or limit >= len(self):
            return self
        return self.at(range(limit))

    def at(self, places: Sequence[int]) -> ImageSet:
        """Return the images at the given positions, in the given order."""
        columns = {name: values[list(places)] for name, values in self.columns.items()}
        originals = self.originals
        return ImageSet(
            tuple(self.names[p] for p in places),
            tuple(self.shapes[p] for p in places),
            lambda positions: self.load([places[p] for p in positions]),
            columns,
            self.proxy,
            None if originals is None else lambda positions: originals([places[p] for p in positions]),
        )

    def batches(self, size: int) -> Iterator[list[int]]:
        """Yield lists of at most `size` successive positions whose images have one shape."""
        for _, positions_of_shape in groupby(range(len(self)), key=lambda position: self.shapes[position]):
            positions = list(positions_of_shape)
            yield from (positions[start : start + size] for start in range(0, len(positions), size))


class ImageSetKind(Only):
    """An image set with unique names and columns of the right length; its images are checked when they are loaded."""

    def check(self, value: Any, arguments: Mapping[str, Any], n: int, who: str) -> ImageSet:
        image_set: ImageSet = super().check(value, arguments, n, who)
        if len(set(image_set.names)) != len(image_set.names) or not image_set.names:
            raise ContractError(f"{who}: names of images must be unique, and there must be at least one image")
        for name, column in (*image_set.columns.items(), ("shapes", image_set.shapes)):
            if len(column) != len(image_set):
                raise ContractError(f"{who}: column {name} has {len(column)} values for {len(image_set)} images")

        def checked(load: Callable[[Sequence[int]], Images], positions: Sequence[int]) -> Images:
            """Return the images that `load` returns, if they have the declared shape; raises `ContractError`."""
            images = load(positions)
            arguments = {"shape": (3, *image_set.shapes[positions[0]])} if len(positions) else {}
            ImageBatch(like="shape").check(images, arguments, len(positions), who)
            return images

        originals = None if image_set.originals is None else partial(checked, image_set.originals)
        return replace(image_set, load=partial(checked, image_set.load), originals=originals)


class ImageDataset(Component, Builds[ImageSet]):
    """A set of images. `build` reads no more than it must; `ImageSet.load` reads the pixels.

    `build` raises `Unavailable` if files are not on this machine.
    """

    kind: ClassVar[str] = "dataset"
    call = Data(returns=ImageSetKind("ImageSet", ImageSet))

    def published_units(self) -> int:
        """Return how many images the published set has with these parameters, or 0 if only reading it tells."""
        return 0
