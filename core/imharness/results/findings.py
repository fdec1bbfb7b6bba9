"""What a board found, as data: each sentence with the numbers that it is made of. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from pydantic import BaseModel, Field

from imharness.results.tables import several

Tier = Literal["shown", "ruled out", "open"]
Kind = Literal[
    "better", "moves", "worse", "broken", "costs", "may be best", "not told", "gate", "incomplete", "flagged"
]

LEADING = 5
"""Of more sentences of one tier than these, short forms of a board show the first ones."""


class Measured(BaseModel, frozen=True, extra="forbid"):
    """A mean over independent units, in the unit of its measure, with the interval that holds at once with the others.

    Where nothing can be told, with fewer than five units, there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    units: int
    needed: int | None = None
    """How many units would tell it from zero, on its side of it, in four of five studies; None if that is not known."""


class Finding(BaseModel, frozen=True, extra="forbid"):
    """A sentence that a board states, and what it is made of.

    `tier`: shown by intervals that do not hold 0, ruled out by them, or open. `entry`: of whom it is said. `against`:
    how much better the entry does than each of these others; of the kind "may be best" the first of the others that may
    be best, too. `facts`: further numbers by name.
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
    given = list(findings)
    found = {tier: [own for own in given if own.tier == tier] for tier in get_args(Tier)}
    return {tier: own for tier, own in found.items() if own}


def cannot_win(failed: Iterable[str]) -> str:
    """Return what follows from checks that an entry failed, without its label; `failed`: lines such as "fails ..."."""
    return f"can neither win nor decide who wins: it {'; it '.join(failed)}"


def first_sentences(findings: Iterable[Finding], rest: str) -> list[str]:
    """Return the first sentences of each tier with its name, and how many more there are where (`rest`)."""
    found = []
    for tier, own in by_tier(findings).items():
        found += [f"{tier}: {finding.text}" for finding in own[:LEADING]]
        if len(own) > LEADING:
            found.append(f"{tier}: {several(len(own) - LEADING, 'more sentence')} {rest}")
    return found
