"""Profiles: which components a run takes and how they are set, read from TOML."""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imharness.components.registry import explain
from imharness.errors import UsageError, did_you_mean
from imharness.results.identity import digest


class TrackProfile(BaseModel):
    """One track of a profile.

    `select`: component kind -> names, ``"*"`` for every installed one, ``"!name"`` to leave one out. `options`: fields
    of the track. `parameters`: component id -> fields that differ from the component's own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    select: Mapping[str, Sequence[str]]
    options: Mapping[str, Any] = Field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)


class Profile(BaseModel):
    """A named set-up of a whole run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: str
    batch_size: int = Field(default=16, ge=1)
    time_limit_s: float = Field(default=3600, gt=0, description="Longest time one task may take, s.")
    tracks: Mapping[str, TrackProfile]

    def identity(self) -> str:
        """Return a digest of everything that decides what is computed."""
        return digest(self.model_dump(mode="json", exclude={"description", "batch_size", "time_limit_s"}))


def load_profile(name: str) -> Profile:
    """Return a profile that ships with the harness, or one from a TOML file."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"profile {name} does not exist.")
        return _parse(path.read_bytes(), name)
    folder = importlib.resources.files("imharness.planning.profiles")
    known = sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))
    if name not in known:
        raise UsageError(
            f"no profile is called {name!r}; known: {', '.join(known)}, or a .toml file.{did_you_mean(name, known)}"
        )
    return _parse((folder / f"{name}.toml").read_bytes(), name)


def _parse(content: bytes, name: str) -> Profile:
    try:
        return Profile.model_validate(tomllib.loads(content.decode()))
    except ValidationError as error:
        raise UsageError(f"profile {name}: {explain(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"profile {name} is not valid TOML: {error}") from None
