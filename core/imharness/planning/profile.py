"""Profiles: the components of a run and their settings; `imharness.planning.profiles` reads them from TOML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from imharness.errors import UsageError
from imharness.results.identity import digest

BASE = "base"
"""The key by which a file's part on a track names its base: a profile in the same folder, whose part it changes."""


def with_bases(file: Path, read: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Return the content of a profile's file, with each track's part completed from its base, if it names one.

    A part's names of a kind of component replace all names of the base; its options and parameters replace single ones.
    `read` returns the content of a file. Raises `UsageError` for a base that is not there or has a base itself.
    """
    facts = read(file)
    tracks = facts.get("tracks", {})
    for track, track_facts in (tracks if isinstance(tracks, dict) else {}).items():
        name = track_facts.pop(BASE, None) if isinstance(track_facts, dict) else None
        if name is None:
            continue
        base = file.with_name(f"{name}.toml")
        whole = read(base).get("tracks", {}).get(track) if base.is_file() else None
        if whole is None or BASE in whole:
            raise UsageError(f"profile {file.stem}: the base {name!r} of {track} is no profile with a part on it.")
        tracks[track] = _laid_over(whole, track_facts)
    return facts


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the changes; a table in both is changed key by key, any other value is replaced."""
    merged = dict(base)
    for name, value in changes.items():
        if isinstance(value, Mapping) and isinstance(base.get(name), Mapping):
            merged[name] = _laid_over(base[name], value)
        else:
            merged[name] = value
    return merged


class TrackProfile(BaseModel):
    """One track of a profile.

    `select` is kind of component -> names; ``"*"`` means every installed one that takes no address and is not
    `opt_in`, and ``"!name"`` leaves one out. `options` are fields of the track. `parameters` is component id -> fields
    that differ from the component's own. `first` says which tasks are computed before the others, for a first table:
    kind of component, or "step" -> ids, labels or steps. `over_budget` has the entries that may cost more than
    `entry_hours` of the profile: label -> the reason. `workers_per_gpu`: how many workers share a GPU that ``auto``
    chose, many where networks are small; 0: the CPU computes the track faster.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    select: Mapping[str, Sequence[str]]
    options: Mapping[str, Any] = Field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    first: Mapping[str, Sequence[str]] = Field(default_factory=dict)
    over_budget: Mapping[str, str] = Field(default_factory=dict)
    workers_per_gpu: int = Field(default=1, ge=0, le=64)


class Profile(BaseModel):
    """A named set-up of a whole run. `origins` is track -> the distribution that brought its part, "" for a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str
    batch_size: int = Field(default=16, ge=1)
    time_limit_s: float = Field(default=3600, gt=0, le=10**7, description="Longest time one task may take, s.")
    entry_hours: float = Field(default=0, ge=0, description="Hours of one GPU that an entry may cost; 0: no limit.")
    tracks: Mapping[str, TrackProfile] = Field(default_factory=dict)
    origins: Mapping[str, str] = Field(default_factory=dict)
    secret: str = Field(default="", repr=False, description="Seed of the secret split, if it is one.")

    @field_validator("tracks")
    @classmethod
    def _have_owners(cls, tracks: Mapping[str, TrackProfile]) -> Mapping[str, TrackProfile]:
        for name in (name for name in tracks if "/" not in name):
            raise ValueError(f"{name!r} needs its owner: write it like harness/iqa")
        return tracks

    def identity(self, track: str) -> str:
        """Return a digest of everything that decides what is computed for a track.

        All tracks from one distribution count as one set-up. Tracks from others do not matter, so that the leaderboards
        stay as they are when another package with a track is installed.
        """
        when_and_where = {"first", "over_budget", "workers_per_gpu"}
        facts = self.model_dump(
            mode="json", include={"name", "tracks"}, exclude={"tracks": {"__all__": when_and_where}}
        )
        origin = self.origins.get(track, "")
        return digest(
            facts | {"tracks": {k: v for k, v in facts["tracks"].items() if self.origins.get(k, "") == origin}}
        )
