"""Profiles: which components a run takes and how they are set, read from TOML.

A profile of the harness has global facts (in the folder `profiles` beside this module) and one part for each package
that brings a track: a file of the same name in the folder `profiles` of that package, with tables ``[tracks."id"]``.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imharness.components.loading import GROUP
from imharness.components.registry import explain
from imharness.errors import UsageError, did_you_mean
from imharness.results.identity import digest
from imharness_files.structured import read_toml, texts_in
from imharness_files.text import is_plain
from imharness_secret import checked_seed

FOLDER = "profiles"


class TrackProfile(BaseModel):
    """One track of a profile.

    `select`: component kind -> names, ``"*"`` for every installed one, ``"!name"`` to leave one out. `options`: fields
    of the track. `parameters`: component id -> fields that differ from the component's own. `first`: component kind, or
    "step" -> ids, labels or steps of the cells that are computed before the others, for a first table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    select: Mapping[str, Sequence[str]]
    options: Mapping[str, Any] = Field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    first: Mapping[str, Sequence[str]] = Field(default_factory=dict)


class Profile(BaseModel):
    """A named set-up of a whole run. `origins`: the distribution that brought each track's part, "" for a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str
    batch_size: int = Field(default=16, ge=1)
    time_limit_s: float = Field(default=3600, gt=0, le=10**7, description="Longest time one task may take, s.")
    tracks: Mapping[str, TrackProfile] = Field(default_factory=dict)
    origins: Mapping[str, str] = Field(default_factory=dict)
    secret: str = Field(default="", repr=False, description="Seed of the secret split, if it is one.")

    def identity(self, track: str) -> str:
        """Return a digest of everything that decides what is computed for a track.

        Tracks that one distribution brings are one set-up; those of others do not matter, so that installing a package
        with a track leaves the leaderboards of the others as they are.
        """
        facts = self.model_dump(mode="json", include={"name", "tracks"}, exclude={"tracks": {"__all__": {"first"}}})
        own = self.origins.get(track, "")
        return digest(facts | {"tracks": {k: v for k, v in facts["tracks"].items() if self.origins.get(k, "") == own}})


def load_profile(name: str, entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> Profile:
    """Return a profile of the harness with the parts of all installed packages, or one from a TOML file.

    Raises `UsageError` for an unknown name, a file that is no profile, and two packages that set one track.
    """
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise UsageError(f"profile {name} does not exist.")
        return _profile(read_toml(Path(name)), name)
    folder = Path(__file__).parent / FOLDER
    known = sorted(file.stem for file in folder.glob("*.toml"))
    if name not in known:
        raise UsageError(
            f"no profile is called {name!r}; known: {', '.join(known)}, or a .toml file.{did_you_mean(name, known)}"
        )
    tracks: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for distribution, file in _parts(f"{name}.toml", entry_points):
        part = read_toml(file)
        for track, facts in part.pop("tracks", {}).items():
            if track in tracks:
                raise UsageError(f"profile {name}: both {origins[track]} and {distribution} set up track {track}.")
            tracks[track], origins[track] = facts, distribution
        if part:
            raise UsageError(f"{file}: a package's part of a profile has [tracks] only, not {', '.join(part)}.")
    return _profile({**read_toml(folder / f"{name}.toml"), "tracks": tracks, "origins": origins}, name)


def _parts(file: str, entry_points: Iterable[importlib.metadata.EntryPoint] | None) -> Iterator[tuple[str, Path]]:
    """Yield each package's part of a profile, sorted by distribution and entry point. Imports nothing but parents."""
    found = importlib.metadata.entry_points(group=GROUP) if entry_points is None else entry_points
    for distribution, package in sorted({(p.dist.name if p.dist else "unknown", p.module) for p in found}):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue  # the registry names plugins that cannot be loaded
        for place in (spec.submodule_search_locations or ()) if spec else ():
            if (Path(place) / FOLDER / file).is_file():
                yield distribution, Path(place) / FOLDER / file


def _profile(facts: Mapping[str, Any], name: str) -> Profile:
    if not all(is_plain(text.replace("\n", " ")) for text in texts_in(facts)):
        raise UsageError(f"profile {name}: a text in it holds control, separator or direction characters.")
    checked_seed(facts.get("secret", ""), f"profile {name}: secret")
    try:
        return Profile.model_validate(facts)
    except ValidationError as error:
        raise UsageError(f"profile {name}: {explain(error)}") from None
