"""Reads what people give as components, devices, arrays and images; errors name the argument."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from imharness.errors import UsageError
from imharness.notebook.arguments import naming, text

if TYPE_CHECKING:
    import torch

    from imharness.contracts.component import Component

STRAY = 0.1
"""How far interpolation can leave [0, 1]: about as much as a cubic kernel overshoots an edge."""
LOWEST_NORMALISED, HIGHEST_NORMALISED = -2.6, 2.8
"""What black and white become by the usual means and deviations, which are those of ImageNet, CIFAR and Inception."""


def component_from(kind: str, value: Any, argument: str, contract: type[Component] | None = None) -> Component | None:
    """Return the component that a name or a user's object (`ih.metric` and so on) means, or a component itself.

    `contract` is the contract that a user's object gets, by default the one that it declares. Returns None for anything
    else, so that the caller can say what it expected. Raises `UsageError` for an unknown name, and `Unavailable` if
    something that the component needs is not on this machine.
    """
    from imharness.components.registry import installed
    from imharness.contracts.component import Component
    from imharness.notebook.components import local_component
    from imharness.notebook.objects import UserObject

    chosen: Component | None = None
    if isinstance(value, str):
        with naming(argument):
            chosen = installed().one(kind, value)
    elif isinstance(value, UserObject) and value.kind == kind:
        chosen = local_component(value, contract, value.name).component
    elif isinstance(value, Component):
        chosen = value
    if chosen is not None:
        chosen.require()
    return chosen


def device_of(name: Any) -> str:
    """Return the device that the argument ``device`` means; raises `UsageError` if this machine does not have it."""
    from imharness.running.device import resolve_devices

    with naming("device"):
        return resolve_devices([text("device", name, "a name such as 'cpu' or 'cuda:0'")])[0]


def array_of(name: str, value: Any) -> npt.NDArray[Any]:
    """Return a numpy array from a tensor, a column of a data frame, an array or a list of numbers."""
    if isinstance(value, str | os.PathLike):
        raise UsageError(
            f"{name}: expected an array of numbers, got the path {os.fspath(value)!r}; read the file first."
        )
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if value.is_floating_point() and value.dtype.itemsize < 4:
            value = value.float()  # numpy has no bfloat16
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is not an array: {error}") from None
    if np.ma.is_masked(value):
        raise UsageError(f"{name} has masked numbers, which would count as the others; leave them out, or fill them.")
    if array.dtype.kind not in "biuf":
        raise UsageError(f"{name} must be an array of numbers, got {type(value).__name__} of {array.dtype}.")
    return array


def refuse_other_orders(values: Mapping[str, Any]) -> None:
    """Raise `UsageError` if data frames or series, by name, have the same rows in different orders by their index.

    Values are taken in the order in which they stand, so that a label would belong to another row.
    """
    indexed = [(name, value.index) for name, value in values.items() if hasattr(value, "iloc")]
    for (first, rows), (second, others) in itertools.combinations(indexed, 2):
        if not rows.equals(others) and sorted(map(repr, rows)) == sorted(map(repr, others)):
            raise UsageError(
                f"{second} has the rows of {first} in another order, by their index; bring them into one, with "
                ".reindex(), or give .to_numpy() of each if they stand in one order."
            )


def _about_colours(shape: tuple[int, ...]) -> str:
    """Return what to do about images of another shape, if it is known."""
    if shape[-1:] == (3,):
        return " The colours come first; move them with .transpose(0, 3, 1, 2)."
    if len(shape) == 4 and shape[1] == 1:
        return " These are grey; repeat them in three colours with .repeat(3, axis=1)."
    if len(shape) == 4 and shape[1] == 4:
        return " If the fourth colour is transparency, leave it out with [:, :3]."
    return ""


def _about_whole_numbers(pixels: npt.NDArray[Any]) -> str:
    """Return what to do about images of whole numbers that are not bytes: which one is white decides it."""
    lowest, highest = int(pixels.min()), int(pixels.max())
    if lowest < 0:
        return f" from {lowest} to {highest}; turn them into floats between black, 0, and white, 1."
    if highest <= 1:
        return f" up to {highest}; if 1 is white, turn them into floats with .astype(numpy.float32)."
    if highest <= 255:
        return f" up to {highest}; turn whole numbers from 0 to 255 into bytes with .astype(numpy.uint8)."
    return f" up to {highest}; divide by the number that is white, which is 65535 for 16 bits and 4095 for 12."


def _about_range(pixels: npt.NDArray[Any]) -> str:
    """Return what to do about floats outside [0, 1]: the likeliest reason comes first."""
    lowest, highest = float(pixels.min()), float(pixels.max())
    if lowest >= -STRAY and highest <= 1 + STRAY:
        return " If interpolation or rounding did that, cut it off with .clip(0, 1)."
    if lowest >= LOWEST_NORMALISED and highest <= HIGHEST_NORMALISED:
        symmetric = ", which is (x + 1) / 2 for [-1, 1]" if lowest >= -1 and highest <= 1 else ""
        return f" They look normalised: undo it with x * std + mean, by the numbers of your transform{symmetric}."
    if lowest >= 0 and highest <= 255:
        return " Divide by 255."
    return " Divide by the number that is white, which is 65535 for 16 bits." if 0 <= lowest < highest <= 65535 else ""


def images_of(name: str, value: Any) -> torch.Tensor:
    """Return images as float32 ``(n, 3, h, w)`` in [0, 1].

    `value` is an array or a tensor ``(n, 3, h, w)`` or ``(3, h, w)`` of floats in [0, 1] or bytes from 0 to 255. Raises
    `UsageError` for another shape, type or range.
    """
    import torch

    array = array_of(name, value)
    if array.ndim == 3:
        array = array[None]
    if array.ndim != 4 or array.shape[1] != 3 or 0 in array.shape:
        last = _about_colours(array.shape)
        raise UsageError(f"{name} must have shape (n, 3, height, width), got {array.shape}.{last}")
    if array.dtype == np.uint8:
        _warn_of_black(name, array, 1)
        return torch.from_numpy(array.astype(np.float32) / 255)
    if array.dtype.kind != "f":
        raise UsageError(
            f"{name} must be floats in [0, 1] or bytes (uint8), got {array.dtype}{_about_whole_numbers(array)}"
        )
    if not np.isfinite(array).all():
        raise UsageError(f"{name} holds NaN or infinity.")
    lowest, highest = float(array.min()), float(array.max())
    if lowest < 0 or highest > 1:
        raise UsageError(f"{name} must lie in [0, 1], got {lowest:.8g} to {highest:.8g}.{_about_range(array)}")
    _warn_of_black(name, array, 1 / 255)
    return torch.from_numpy(array.astype(np.float32))


def _warn_of_black(name: str, pixels: npt.NDArray[Any], dim: float) -> None:
    """Warn of images with nothing brighter than `dim`, as those in [0, 1] that became bytes, or were divided twice."""
    highest = pixels.reshape(len(pixels), -1).max(axis=1).astype(np.float64)
    dark = highest <= dim * (1 + STRAY)
    if dim < 1:
        dark &= highest > 0  # a quotient of 255 is 0 where all was black before
    if dark.any():
        why = "floats in [0, 1] became bytes without a factor of 255" if dim == 1 else "they were divided by 255 twice"
        some, they = (
            ("", "all is black")
            if dark.all()
            else (f" in {dark.sum()} of {len(dark)} images, the first at position {dark.argmax()}", "they are black")
        )
        dimmest = f"{highest[dark].max():.2g}"
        warnings.warn(f"{name}: nothing is above {dimmest}{some}, so that {they}; perhaps {why}.", stacklevel=3)
