"""What a run planned for a track: its tasks, its settings, and what has no result. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from imharness.results.version import SCHEMA

LEFT_OUT = "did not fit into the budget of"
"""The first words of the reason why planned tasks were left out."""


NEEDS = "needs a task that failed ("
"""The first words of the reason why a task failed that needs one that failed."""
REPEATED = re.compile(r"^\S+: ContractError: (?=\S+/\S+: )")
"""The name of a component, or of the harness, before a message that names the component itself."""


class Cause(NamedTuple):
    """Why tasks failed, and the tasks, first those in which it happened."""

    why: str
    tasks: tuple[str, ...]


def causes_of(failed: Mapping[str, str]) -> list[Cause]:
    """Return why tasks failed, each cause once; `failed` is a task -> its reason, in one line."""
    causes: dict[str, tuple[list[str], list[str]]] = {}
    for task, line in failed.items():
        why = " ".join(line.split())
        while why.startswith(NEEDS):
            why = why.removeprefix(NEEDS).removesuffix(")")
        why = REPEATED.sub("", why)
        causes.setdefault(why, ([], []))[line.startswith(NEEDS)].append(task)
    return [Cause(why, (*direct, *others)) for why, (direct, others) in causes.items()]


class Missing(BaseModel, frozen=True, extra="forbid"):
    """What tables lack, why, and what helps: a component with something that is not on this machine, or tasks.

    `what` is the label of the component, or how many tasks of which step or component.
    """

    what: str
    reason: str
    remedy: str


class RunFacts(BaseModel, frozen=True, extra="forbid"):
    """One track of a run, its settings, and what has no result.

    `run_configuration` is a digest of track, profile, seed, limit and secret split. `failed` is address of a task ->
    one line. `secret` is the digest of the seed of the secret split that the images belong to, or "". `waiting` is how
    many tasks the run still had to compute. `set_up` has the options and parameters that the profile set for the track.
    """

    schema_version: int = SCHEMA
    track: str
    title: str
    measures: str
    profile: str
    run_configuration: str = ""
    set_up: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    seed: int
    secret: str = ""
    limit: int | None
    command: str
    finished: str
    missing: tuple[Missing, ...]
    failed: Mapping[str, str] = Field(default_factory=dict)
    waiting: int = 0

    @property
    def left_out(self) -> tuple[Missing, ...]:
        """What is missing only because of a budget."""
        return tuple(gap for gap in self.missing if gap.reason.startswith(LEFT_OUT))


class Sweep(RunFacts):
    """One call of `harness run` for one track: what was planned.

    Sweeps with one `run_configuration` belong to one leaderboard; a later sweep adds tasks to it or replaces some.
    `tasks` is address of a task (what it is, without version numbers) -> task key. `number` is higher than that of
    every sweep of the track that was written before, because clocks may go back.
    """

    tasks: Mapping[str, str]
    number: int = 0
