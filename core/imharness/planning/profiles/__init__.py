"""Profiles read from TOML.

A profile of the harness has global settings, in a file of this package, and one part for each package that brings a
track: a file of the same name in the folder `profiles` of that package, with tables ``[tracks."id"]``. A package can
also bring a whole profile, such as a study of one track; its file then has the global settings, too. A part on a track
may say ``base = "NAME"`` and then only what it changes in that of another profile of the package.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from imharness.components.loading import COMPONENTS, module_of, points_of
from imharness.components.registry import explain
from imharness.errors import UsageError, unknown_name
from imharness.planning.profile import Profile, with_bases
from imharness.planning.secret import checked_seed
from imharness.reading.structured import read_toml, texts_in
from imharness.reading.text import is_plain

FOLDER = Path(__file__).parent
"""The folder with the harness's profiles."""
PARTS = "profiles"
"""The folder of a package with its parts of profiles, and with its whole profiles."""


def load_profile(name: str, entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> Profile:
    """Return a profile of the harness with the parts of all installed packages, or a profile from a TOML file.

    Raises `UsageError` for an unknown name, a file that is not a profile, and two packages that set up one track.
    """
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise UsageError(f"profile {name} does not exist.")
        return _profile(read_toml(Path(name)), name)
    if name not in {file.stem for file in FOLDER.glob("*.toml")}:
        return _whole(name, entry_points)
    tracks: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for distribution, folder in _folders(entry_points):
        file = folder / f"{name}.toml"
        content = with_bases(file, read_toml) if file.is_file() else {}
        for track, facts in content.pop("tracks", {}).items():
            if track in tracks:
                raise UsageError(f"profile {name}: both {origins[track]} and {distribution} set up track {track}.")
            tracks[track], origins[track] = facts, distribution
        if content:
            raise UsageError(f"{file}: a package's part of a profile may only have [tracks], not {', '.join(content)}.")
    return _profile({**read_toml(FOLDER / f"{name}.toml"), "tracks": tracks, "origins": origins}, name)


def _whole(name: str, entry_points: Iterable[importlib.metadata.EntryPoint] | None) -> Profile:
    """Return a profile that one package brings as a whole."""
    folders = list(_folders(entry_points))
    profiles = [(distribution, file) for distribution, folder in folders for file in folder.glob("*.toml")]
    matches = [(distribution, file) for distribution, file in profiles if file.stem == name]
    if not matches:
        names = sorted({file.stem for _, file in profiles} | {file.stem for file in FOLDER.glob("*.toml")})
        raise UsageError(
            unknown_name(f"no profile is called {name!r}", name, names, "Give the path of a .toml file, or one of")
        )
    (distribution, file), *others = matches
    if others:
        raise UsageError(f"profile {name}: both {distribution} and {others[0][0]} bring it; uninstall one of them.")
    facts = with_bases(file, read_toml)
    return _profile({**facts, "origins": dict.fromkeys(facts.get("tracks", {}), distribution)}, name)


def _folders(entry_points: Iterable[importlib.metadata.EntryPoint] | None) -> Iterator[tuple[str, Path]]:
    """Yield each package's folder of profiles, sorted by distribution and entry point; imports only parent packages."""
    points = points_of(COMPONENTS, entry_points)
    # The name of a distribution is read from a file each time, so that it is asked once for each distribution.
    distributions = {id(point.dist): point.dist for point in points}
    names = {key: distribution.name if distribution else "unknown" for key, distribution in distributions.items()}
    packages = {(names[id(point.dist)], module_of(point.value)) for point in points}
    for distribution, package in sorted(packages):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue  # the registry reports plugins that cannot be loaded
        for location in (spec.submodule_search_locations or ()) if spec else ():
            if (Path(location) / PARTS).is_dir():
                yield distribution, Path(location) / PARTS


def _profile(facts: Mapping[str, Any], name: str) -> Profile:
    if not all(is_plain(text.replace("\n", " ")) for text in texts_in(facts)):
        raise UsageError(f"profile {name}: a text in it contains control, separator or direction characters.")
    checked_seed(facts.get("secret", ""), f"profile {name}: secret")
    try:
        return Profile.model_validate(facts)
    except ValidationError as error:
        raise UsageError(f"profile {name}: {explain(error, Profile)}") from None
