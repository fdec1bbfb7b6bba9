"""What readers want to know about a component that took part. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import BaseModel, Field

ACCEPTED = "accepted"
"""The decision that lets an outside component, such as a submitted metric, decide the ranks of others."""
FLAGGED, NOT_REPRODUCED = "flagged", "not reproduced"
"""Decisions that keep an entry from winning; see `flags_in`."""
NOT_JUDGED: Final = "not judged yet"
"""The decision that keeps an entry from winning until it is scored again: what judges it took too long, which may be
the machine's doing."""
REPRODUCED = "reproduced"
EVIDENCE = "evidence"
"""The decision by which somebody's evidence lowers an entry's best-known value; it says nothing else of the entry."""


class Parameter(BaseModel, frozen=True, extra="forbid"):
    """A hyper-parameter of an entry."""

    name: str
    value: str
    default: str
    bounds: str
    description: str


class Standing(BaseModel, frozen=True, extra="forbid"):
    """A decision about an entry: when it was made, what it is, why, and the submission of the entry."""

    date: str
    decision: str
    reason: str
    submission: str = ""


def flags_in(standing: Sequence[Standing]) -> tuple[str, ...]:
    """Return why an entry is flagged now; `standing`: what was decided about it, oldest first.

    A flag stays until the entry is scored again, or until a person adds, accepts or withdraws the entry. The flag
    `NOT_REPRODUCED` also ends once the entry is reproduced. Each flag begins with its decision, such as `NOT_JUDGED`.
    """
    flags: dict[str, str] = {}
    for decision in standing:
        if decision.decision in (FLAGGED, NOT_REPRODUCED, NOT_JUDGED):
            flags[decision.decision] = f"{decision.decision}: {decision.reason}"
        elif decision.decision == REPRODUCED:
            flags.pop(NOT_REPRODUCED, None)
        elif decision.decision != EVIDENCE:
            flags.clear()
    return tuple(flags.values())


class Examined(BaseModel, frozen=True, extra="forbid"):
    """What quick checks of a component that is not the harness's own found; `failed` has a line for each that failed.

    `code` is the digest of the file or object that was examined.
    """

    kind: str
    label: str
    code: str
    failed: tuple[str, ...] = ()


class Decided(BaseModel, frozen=True, extra="forbid"):
    """How many decisions about entries were made, and the seal of the last, which fixes all decisions before it."""

    count: int
    seal: str


class Entry(BaseModel, frozen=True, extra="forbid"):
    """Everything that readers want to know about a component that took part."""

    kind: str
    id: str
    label: str
    version: str
    summary: str = ""
    about: str = ""
    package: str = ""
    package_version: str = ""
    author: str = ""
    licence: str = ""
    home: str = ""
    paper: str = ""
    paper_url: str = ""
    traits: Mapping[str, str] = Field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    tasks: int = 0
    seconds: float = 0.0
    isolation: str = ""
    """What isolated its code while it was measured."""
    standing: tuple[Standing, ...] = ()
    failed_checks: tuple[str, ...] = ()
    """The quick checks that it failed before it was ranked; see `Examined`."""
