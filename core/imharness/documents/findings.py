"""Findings of a leaderboard as data: each is a sentence with the numbers that it is made of. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from pydantic import BaseModel, Field

from imharness.documents.tables import several

Tier = Literal["shown", "ruled out", "open"]
Kind = Literal[
    "better", "moves", "worse", "broken", "costs", "may be best", "undecided", "gate", "incomplete", "flagged"
]

LEADING = 5
"""Short forms of a leaderboard show at most this many sentences of each tier."""


class Measured(BaseModel, frozen=True, extra="forbid"):
    """A mean over independent units, in the unit of its measure, with its simultaneous interval.

    With fewer than five units there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    units: int
    needed: int | None = None
    """How many units would show, in four of five studies, on which side of zero the mean is; None if not known."""


class Finding(BaseModel, frozen=True, extra="forbid"):
    """A sentence that a leaderboard states about an entry, and the numbers that it is made of."""

    tier: Tier
    """Whether the sentence is shown, or ruled out, by an interval without 0, or open."""
    kind: Kind
    entry: str
    """The label of the entry that the sentence is about."""
    measure: str
    """The label of the measure's column."""
    decimals: int
    unit: str
    """What units are, such as "photograph"."""
    against: Mapping[str, Measured] = Field(default_factory=dict)
    """Other entry -> how much better this entry is. The others are no defense, controls that are better or, for the
    kind "may be best", the other entries that may be best."""
    facts: Mapping[str, Measured] = Field(default_factory=dict)
    """Further numbers by name."""
    why: str = ""
    """What the sentence names in addition: an attack, a gate, or a reason."""
    text: str
    """The sentence."""


def by_tier(findings: Iterable[Finding]) -> dict[Tier, list[Finding]]:
    """Return the findings of each tier that has any, in the order of tiers."""
    listed = list(findings)
    groups = {tier: [finding for finding in listed if finding.tier == tier] for tier in get_args(Tier)}
    return {tier: members for tier, members in groups.items() if members}


def cannot_win(failed: Iterable[str]) -> str:
    """Return a clause without its subject: that an entry can neither win nor decide who wins, and why.

    `failed`: the reasons, each of which is a line that begins with "fails ", or a clause with a subject.
    """
    reasons = (f"it {line}" if line.startswith("fails ") else line for line in failed)
    return f"can neither win nor decide who wins: {'; '.join(reasons)}"


def first_sentences(findings: Iterable[Finding], rest: str) -> list[str]:
    """Return the first `LEADING` sentences of each tier, each after the name of the tier.

    A last line says how many more sentences the tier has; it ends with `rest`, which says where they are.
    """
    sentences = []
    for tier, members in by_tier(findings).items():
        sentences += [f"{tier}: {finding.text}" for finding in members[:LEADING]]
        if len(members) > LEADING:
            sentences.append(f"{tier}: {several(len(members) - LEADING, 'more sentence')} {rest}")
    return sentences
