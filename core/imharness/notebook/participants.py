"""What takes part in an evaluation: a track and its profile, a data set, and components by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.components.provenance import Registered
from imharness.components.registry import Registry, installed
from imharness.contracts.component import SELECTABLE, Component
from imharness.errors import Unavailable, UsageError, unknown_name
from imharness.notebook import coercion, components
from imharness.notebook.arguments import naming, text
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.profiles import load_profile
from imharness.results.identity import HARNESS, owner_of
from imharness.results.labels import id_of, method_of


def track_of(name: str) -> str:
    """Return the id of the track with this label, id or method; raises `UsageError` if there is none."""
    with naming("track"):
        return installed().track(text("track", name, "the name of a track")).info.id


def profile_of(track: str) -> Profile:
    """Return the first profile that a track names and that has it; raises `UsageError` without one."""
    names = installed().track(track).profiles
    for name in names:
        profile = load_profile(name)
        if track in profile.tracks:
            return profile
    raise UsageError(f"track: no profile of {' or '.join(names)} has {track}; run it with `harness run --track`.")


def dataset_of(dataset: Any, track: str) -> tuple[str | None, Registered | None]:
    """Return the name of the data set that the argument `dataset` means, and its component if images were given.

    Both are None if nothing was given. `dataset` is a name, a folder, or images.
    """
    if dataset is None:
        return None, None
    if isinstance(dataset, str | os.PathLike):
        return (_of_folder(dataset, track) if Path(dataset).is_dir() else _of_name(dataset)), None
    if not installed().track(track).accepts_unlabelled:
        raise UsageError(f"dataset: track {track} cannot use images without labels; give a name or a folder.")
    entry = components.images_of(_pixels(dataset))
    return entry.component.label, entry


def _of_folder(dataset: str | os.PathLike[str], track: str) -> str:
    """Return the name of the data set that reads a folder; raises `UsageError` if that is not possible."""
    folder, reader = Path(dataset), installed().track(track).folder_dataset
    if not reader:
        raise UsageError(f"dataset: track {track} cannot read a folder of images; give the name of a data set.")
    if isinstance(dataset, str) and (same := _full_name(dataset)):
        raise UsageError(
            f"dataset: {dataset!r:.100} names a folder here and a data set; write {same!r} for the data set, "
            f"or {str(folder.absolute())!r} for the folder."
        )
    name = f"{reader}:{folder.resolve()}"
    try:
        installed().one("dataset", name).require()
    except Unavailable as error:
        raise UsageError(f"dataset: {error.reason}.") from error
    return name


def _of_name(dataset: str | os.PathLike[str]) -> str:
    """Return a name if a data set has it; raises `UsageError` otherwise."""
    if isinstance(dataset, os.PathLike):
        raise UsageError(f"dataset: {Path(dataset)} is not a folder.")
    try:
        _components(installed(), "dataset", dataset, "dataset")
    except UsageError as error:
        raise UsageError(f"{error} Nor is there a folder {dataset!r:.100}.") from error
    return dataset


def _full_name(dataset: str) -> str:
    """Return the full name of the data set that has this name, or "" without one."""
    try:
        return _components(installed(), "dataset", dataset, "dataset")[0].label
    except UsageError:
        return ""


def _pixels(dataset: Any) -> npt.NDArray[np.uint8]:
    """Return images as uint8 ``(n, 3, H, W)``."""
    return np.asarray(np.rint(coercion.images_of("dataset", dataset).numpy() * 255), dtype=np.uint8)


def _components(registry: Registry, kind: str, name: str, argument: str) -> list[Component]:
    with naming(argument):
        return registry.find(kind, name)


def kinds_of(
    registry: Registry, names: Iterable[str], argument: str, track_profile: TrackProfile
) -> dict[str, list[str]]:
    """Return kind of component -> the names of components of this kind, for the kinds that a track selects.

    `argument` is the name of the argument that has the names, for messages. Raises `UsageError` for a name of nothing
    that the track takes, and for a name of components of two kinds.
    """
    chosen: dict[str, list[str]] = {}
    for name in names:
        text(argument, name, "names of components")
        kinds = [kind for kind in track_profile.select if kind in SELECTABLE and _means(registry, kind, name, argument)]
        if not kinds:
            method_names = sorted(
                {method_of(c.info.id) for kind in track_profile.select for c in registry.of_kind(kind)}
            )
            problem = f"{argument}: no component that the track takes is called {name!r}"
            raise UsageError(unknown_name(problem, name, method_names))
        first_party = [kind for kind in kinds if _owner(registry, kind, name, argument) == HARNESS]
        kinds = first_party or kinds
        if len(kinds) > 1:
            raise UsageError(f"{argument}: {name!r} is a {' and a '.join(kinds)}; give the owner too, as owner/name.")
        chosen.setdefault(kinds[0], []).append(name)
    return chosen


def _owner(registry: Registry, kind: str, name: str, argument: str) -> str:
    return owner_of(_components(registry, kind, name, argument)[0].info.id)


def _means(registry: Registry, kind: str, name: str, argument: str) -> bool:
    """Return whether a component of a kind has this name; raises `UsageError` if its parameters are wrong."""
    bare = id_of(name)
    ids = [component.info.id for component in registry.of_kind(kind)]
    return any(bare in (id, method_of(id)) for id in ids) and bool(_components(registry, kind, name, argument))


def with_selection(
    track_profile: TrackProfile,
    registry: Registry,
    kinds: Mapping[str, Sequence[str]],
    rivals: Mapping[str, Sequence[str]] | None,
    data: str | None,
) -> TrackProfile:
    """Return a track's profile with the selection of an evaluation.

    Args:
        track_profile: the usual selection.
        registry: all components, and the user's objects.
        kinds: kind -> names that are added to the usual ones.
        rivals: kind -> names that the user gave to rank against, or None. If given, they replace the usual ones of
            their kinds and of the kinds in `kinds`; controls stay.
        data: the name of the data set, or None for the usual ones.

    Raises:
        UsageError: the track takes no component of one of the kinds.
    """
    select = dict[str, list[str]]()
    for kind, names in track_profile.select.items():
        usual = list(names)
        if rivals is not None and (kind in rivals or kind in kinds):
            usual = [*_controls_among(registry, kind, names), *rivals.get(kind, ())]
        select[kind] = [*usual, *kinds.get(kind, ())]
    for kind in kinds:
        if kind not in select:
            raise UsageError(f"objects: the track has no use for a {kind}; it takes: {', '.join(select)}.")
    return track_profile.model_copy(update={"select": select | ({"dataset": [data]} if data else {})})


def _controls_among(registry: Registry, kind: str, names: Sequence[str]) -> list[str]:
    """Return the names in a profile's selection that mean controls."""
    named = [name for name in names if not name.startswith("!")]
    return [name for name in named if any(component.control for component in registry.find(kind, name))]
