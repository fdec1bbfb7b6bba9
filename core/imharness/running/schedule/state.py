"""What a run says of itself in its store, for whoever looks from elsewhere."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from imharness.errors import DamagedError
from imharness.results.store import Store

FOLDER = "runs"
SILENT_S = 120.0
"""A run that has said nothing for so long is taken to be gone."""


class Part(BaseModel, frozen=True, extra="forbid"):
    """The tasks of one track: how many there are, and how many of them are done."""

    done: int
    total: int


class Busy(BaseModel, frozen=True, extra="forbid"):
    """A task that is being computed, and for how many seconds. `key`: of its result and log."""

    track: str
    task: str
    seconds: float
    key: str = ""


class RunState(BaseModel):
    """One run: where it is, how far it is, and how fast.

    `rate`: tasks finished per minute, lately. `left_s`: seconds that are expected to be left, None while nothing is
    known; `at_least`: they are a lower bound, since there are steps of which no task has finished. `reused`: tasks that
    earlier runs computed. `failed` counts the tasks that failed; of the first of them, `failing` is the task's
    address -> why, and `failing_keys` its address -> its key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    host: str
    pid: int
    command: str
    state: Literal["running", "finished", "interrupted"]
    started: str
    updated: str
    tracks: Mapping[str, Part]
    reused: int
    failed: int
    failing: Mapping[str, str] = Field(default_factory=dict)
    failing_keys: Mapping[str, str] = Field(default_factory=dict)
    running: tuple[Busy, ...] = ()
    rate: float | None = None
    left_s: float | None = None
    at_least: bool = False
    page: str = ""

    @property
    def done(self) -> int:
        """Tasks that are done."""
        return sum(track.done for track in self.tracks.values())

    @property
    def total(self) -> int:
        """Tasks of the run."""
        return sum(track.total for track in self.tracks.values())

    def silent_s(self, now: datetime) -> float:
        """Return for how many seconds it has said nothing."""
        return (now - datetime.fromisoformat(self.updated)).total_seconds()

    def save(self, store: Store) -> None:
        """Write it into the store."""
        store.replace(f"{FOLDER}/{self.id}.json", self)


def new_state(command: str, tracks: Mapping[str, Part], reused: int) -> RunState:
    """Return the state of a run of this process that starts now."""
    now = datetime.now(UTC)
    stamp = now.isoformat(timespec="seconds")
    return RunState(
        id=f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}",
        host=platform.node(),
        pid=os.getpid(),
        command=command,
        state="running",
        started=stamp,
        updated=stamp,
        tracks=tracks,
        reused=reused,
        failed=0,
    )


def run_states(store: Store, warn: Callable[[str], None]) -> list[RunState]:
    """Return what runs said of themselves last, the newest run first; `warn` gets a line for each damaged file."""
    states = list[RunState]()
    for state in store.documents(FOLDER, RunState):
        if isinstance(state, DamagedError):
            warn(str(state))
        else:
            states.append(state)
    return sorted(states, key=lambda state: state.started, reverse=True)
