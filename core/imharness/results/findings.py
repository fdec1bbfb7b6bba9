"""What a leaderboard found, as data: each sentence with the numbers that it is made of. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from pydantic import BaseModel, Field

from imharness.results.tables import several

Tier = Literal["shown", "ruled out", "open"]
Kind = Literal[
    "better", "moves", "worse", "broken", "costs", "may be best", "undecided", "gate", "incomplete", "flagged"
]

LEADING = 5
"""Of more sentences of one tier than these, short forms of a leaderboard show the first ones."""


class Measured(BaseModel, frozen=True, extra="forbid"):
    """A mean over independent units, in the unit of its measure, with the interval that holds at once with the others.

    Where nothing can be told, with fewer than five units, there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    units: int
    needed: int | None = None
    """How many units would separate it from zero, on its side, in four of five studies; None if that is not known."""


class Finding(BaseModel, frozen=True, extra="forbid"):
    """A sentence that a leaderboard states, and what it is made of.

    `tier`: shown by intervals that do not hold 0, ruled out by them, or open. `entry`: of whom it is said. `against`:
    how much better the entry does than each of these others: no defense, or controls that are better; of the kind "may
    be best" how far the first is ahead of the others that may be best, too. `facts`: further numbers by name.
    """

    tier: Tier
    kind: Kind
    entry: str
    measure: str
    """What is measured, as the column says it."""
    decimals: int
    unit: str
    """What units are, such as "photograph"."""
    against: Mapping[str, Measured] = Field(default_factory=dict)
    facts: Mapping[str, Measured] = Field(default_factory=dict)
    why: str = ""
    """What is said in addition: an attack, a gate, or a reason."""
    text: str


def by_tier(findings: Iterable[Finding]) -> dict[Tier, list[Finding]]:
    """Return the findings of each tier that has any, in the order of tiers."""
    listed = list(findings)
    groups = {tier: [finding for finding in listed if finding.tier == tier] for tier in get_args(Tier)}
    return {tier: members for tier, members in groups.items() if members}


def cannot_win(failed: Iterable[str]) -> str:
    """Return what follows from checks that an entry failed, without its label.

    `failed`: lines such as "fails ...", or other reasons as whole sentences.
    """
    reasons = (f"it {line}" if line.startswith("fails ") else line for line in failed)
    return f"can neither win nor decide who wins: {'; '.join(reasons)}"


def first_sentences(findings: Iterable[Finding], rest: str) -> list[str]:
    """Return the first sentences of each tier with its name, and how many more there are where (`rest`)."""
    sentences = []
    for tier, members in by_tier(findings).items():
        sentences += [f"{tier}: {finding.text}" for finding in members[:LEADING]]
        if len(members) > LEADING:
            sentences.append(f"{tier}: {several(len(members) - LEADING, 'more sentence')} {rest}")
    return sentences
