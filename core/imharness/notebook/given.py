"""Reads what people give as components, devices, arrays and images; errors name the argument."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from imharness.errors import PluginError, UsageError
from imharness.notebook.arguments import naming, text

if TYPE_CHECKING:
    import torch

    from imharness.contracts.component import Component
    from imharness.contracts.track import Track


def component_from(kind: str, given: Any, argument: str, contract: type[Component] | None = None) -> Component | None:
    """Return the component that a name or a user's object (`ih.metric` and so on) means, or a component itself.

    `contract` is the contract that a user's object gets, by default the one that it declares. Returns None for anything
    else, so that the caller can say what it expected. Raises `UsageError` for an unknown name, and `Unavailable` if
    something that the component needs is not on this machine.
    """
    from imharness.components.registry import installed
    from imharness.contracts.component import Component
    from imharness.notebook.components import local_component
    from imharness.notebook.objects import Own

    found: Component | None = None
    if isinstance(given, str):
        with naming(argument):
            found = installed().one(kind, given)
    elif isinstance(given, Own) and given.kind == kind:
        found = local_component(given, contract, given.name).component
    elif isinstance(given, Component):
        found = given
    if found is not None:
        found.require()
    return found


def track_that(answers: str) -> Track:
    """Return the installed track that answers a question, which is given as the name of a method of `Track`.

    Raises `UsageError` if no track does, and `PluginError` if several do.
    """
    from imharness.components.registry import installed
    from imharness.contracts.track import Track

    tracks = [track for track in installed().of_kind(Track.kind) if isinstance(track, Track)]
    found = [track for track in tracks if getattr(type(track), answers) is not getattr(Track, answers)]
    if not found:
        raise UsageError(f"no installed track answers this: none has a method {answers}.")
    if len(found) > 1:
        both = " and ".join(track.info.id for track in found)
        raise PluginError(f"tracks {both} both have a method {answers}; uninstall one of them.")
    return found[0]


def device_of(name: Any) -> str:
    """Return the device that the argument ``device`` means; raises `UsageError` if this machine does not have it."""
    from imharness.running.device import resolve_devices

    with naming("device"):
        return resolve_devices([text("device", name, "a name such as 'cpu' or 'cuda:0'")])[0]


def array_of(name: str, given: Any) -> npt.NDArray[Any]:
    """Return a numpy array from a tensor, a column of a data frame, an array or a list of numbers."""
    if isinstance(given, str | os.PathLike):
        raise UsageError(
            f"{name}: expected an array of numbers, got the path {os.fspath(given)!r}; read the file first."
        )
    if hasattr(given, "detach"):
        given = given.detach().cpu()
    try:
        found = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is not an array: {error}") from None
    if found.dtype.kind not in "biuf":
        raise UsageError(f"{name} must be an array of numbers, got {type(given).__name__} of {found.dtype}.")
    return found


def _about_colours(shape: tuple[int, ...]) -> str:
    """Return what to do about images of another shape, if it is known."""
    if shape[-1:] == (3,):
        return " The colours come first; move them with .transpose(0, 3, 1, 2)."
    if len(shape) == 4 and shape[1] == 1:
        return " These are grey; repeat them in three colours with .repeat(3, axis=1)."
    if len(shape) == 4 and shape[1] == 4:
        return " If the fourth colour is transparency, leave it out with [:, :3]."
    return ""


def images_of(name: str, given: Any) -> torch.Tensor:
    """Return images as float32 ``(n, 3, h, w)`` in [0, 1].

    `given` is an array or a tensor ``(n, 3, h, w)`` or ``(3, h, w)`` of floats in [0, 1] or bytes from 0 to 255. Raises
    `UsageError` for another shape, type or range.
    """
    import torch

    found = array_of(name, given)
    if found.ndim == 3:
        found = found[None]
    if found.ndim != 4 or found.shape[1] != 3 or 0 in found.shape:
        last = _about_colours(found.shape)
        raise UsageError(f"{name} must have shape (n, 3, height, width), got {found.shape}.{last}")
    if found.dtype == np.uint8:
        return torch.from_numpy(found.astype(np.float32) / 255)
    if found.dtype.kind != "f":
        raise UsageError(
            f"{name} must be floats in [0, 1] or bytes (uint8), got {found.dtype}; turn whole numbers from 0 to 255 "
            "into bytes with .astype(numpy.uint8)."
        )
    if not np.isfinite(found).all():
        raise UsageError(f"{name} holds NaN or infinity.")
    lowest, highest = float(found.min()), float(found.max())
    if lowest < 0 or highest > 1:
        todo = " Divide by 255." if lowest >= 0 and highest <= 255 else ""
        todo = " Images in [-1, 1] become (x + 1) / 2." if -1 <= lowest < 0 and highest <= 1 else todo
        raise UsageError(f"{name} must lie in [0, 1], got {lowest:g} to {highest:g}.{todo}")
    return torch.from_numpy(found.astype(np.float32))
