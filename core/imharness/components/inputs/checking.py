"""Checks that files are what their publishers published, by the components that read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from imharness.contracts.component import Component
from imharness.contracts.data_source import DataSource
from imharness.contracts.image_dataset import ImageDataset, ImageSet
from imharness.contracts.table_dataset import TableDataset, TableSet
from imharness.errors import HarnessError, UsageError


def check_asset(users: Iterable[Component], name: str) -> None:
    """Build the component that needs the fewest files in addition to an asset; raises an error if that fails."""
    import torch

    user = min(users, key=lambda candidate: (len(candidate.assets()), candidate.label))
    user.require()
    try:
        _built(user, torch.device("cpu"))
    except HarnessError:
        raise
    except Exception as error:  # readers of weights raise errors of many types for other files
        raise UsageError(f"it does not hold weights of {name}: {' '.join(str(error).split())[:200]}") from error


def check_data(users: Iterable[Component], source: DataSource) -> None:
    """Build the data sets that read a source, and compare the number and shape of their units with the published ones.

    A data set that gives only a part of what was published is skipped.
    """
    import torch

    for user in users:
        whole = next((candidate.units for candidate in user.data_sources() if candidate.name == source.name), 0)
        if whole and isinstance(user, ImageDataset | TableDataset) and user.published_units() != whole:
            continue
        user.require()
        _compare(_built(user, torch.device("cpu")), source, user.label)


def _built(user: Component, device: Any) -> Any:
    return user.build(device)  # type: ignore[attr-defined]


def _compare(data: object, source: DataSource, label: str) -> None:
    """Raise `UsageError` unless a set has the published number and shape of images or rows."""
    shapes: set[tuple[int, ...]]
    if isinstance(data, ImageSet):
        count, shapes, what = len(data), set(data.shapes), "images"
        data.load([0])
    elif isinstance(data, TableSet):
        count, shapes, what = len(data.features), {tuple(data.features.shape[1:])}, "rows"
    else:
        raise UsageError(f"{label} gives {type(data).__name__}, which cannot be checked.")
    if source.units and count != source.units:
        raise UsageError(f"it holds {count:,} {what}, but {source.units:,} were published; is it cut off?")
    other = sorted(shape for shape in shapes if not _alike(shape, source.shape))
    if other:
        raise UsageError(f"its {what} have the shape {other[0]}; the published ones have {source.shape}.")


def _alike(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether a shape is the wanted one, in which 0 stands for any size, and () for any shape."""
    return not wanted or (
        len(shape) == len(wanted) and all(a == b or not b for a, b in zip(shape, wanted, strict=True))
    )
