"""Keeps the photographs on which something is fitted or chosen apart from those that are tested."""

from collections.abc import Iterable
from typing import get_args

from imharness.data import ImageDataset, ImageSet
from imharness.errors import UsageError


def photographs_of(images: ImageSet) -> list[str]:
    """Return the photograph that each image was made from: as the data set states, or else the image itself."""
    names = images.columns.get("photograph", images.columns.get("reference", images.names))
    return [str(name) for name in names]


def apart(images: ImageSet, tested: Iterable[ImageSet], option: str) -> ImageSet:
    """Return the images whose photographs no tested image was made from.

    Raises `UsageError` when none is left; it names the `option` that chooses the images.
    """
    tested_photographs = {photograph for other in tested for photograph in photographs_of(other)}
    positions = [p for p, photograph in enumerate(photographs_of(images)) if photograph not in tested_photographs]
    if not positions:
        raise UsageError(f"every image of the data set that {option} names is among the tested ones; name another one")
    return images.at(positions)


def training_split(dataset: ImageDataset) -> ImageDataset:
    """Return the split "train" of a data set that has one, or else the data set as it is."""
    split = type(dataset).model_fields.get("split")
    has_one = split is not None and "train" in get_args(split.annotation)
    return dataset.with_parameters(split="train") if has_one else dataset
