"""Who wins, as data: what a ranking states in addition to the numbers of its table. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field

from imharness.results.findings import Finding, Measured

State = Literal["passes", "fails", "doubtful", "not told", "not measured"]
"""Whether an entry keeps what it must keep; only "passes" and "not told" let it win."""


class Kept(Measured, frozen=True, extra="forbid"):
    """How far an entry lies above the least that it must keep, paired with the undefended entry, and what that tells.

    It passes where the interval lies above 0, and fails where it lies below 0. Otherwise it is doubtful where its own
    interval, as if there were no other entries, lies below 0, and not told where that does not. `value` is None where
    it was not measured on every unit that the undefended entry was measured on.
    """

    value: float | None = None  # type: ignore[assignment]
    label: str
    """What is to be kept, such as "test accuracy"."""
    least: str
    """The least that passes, in words."""
    decimals: int = 3
    state: State
    tail: float = 0.05
    """The two-sided level of the interval: 5 % over how many intervals hold at once."""
    parts: tuple[float, ...] = ()
    """What each independent unit adds; the rest follows from them."""
    values: tuple[float, ...] = ()
    """All that a unit can add, where these are few: the interval is then a score interval."""


class Moved(BaseModel, frozen=True, extra="forbid"):
    """What it makes that attackers know an entry, over the attacks that were run both ways, in the measure's unit.

    `before` and `after`: the means under attackers that do not know it and that do. `change`: after less before.
    """

    before: float
    after: float
    change: Measured
    tail: float = 0.05
    """The two-sided level of the interval: 5 % over how many intervals hold at once."""
    parts: tuple[float, ...] = ()
    """What each independent unit adds to `change`."""


class Broken(BaseModel, frozen=True, extra="forbid"):
    """How much of what an entry seems to protect the worst attack leaves; both are advantages over no defense.

    `seems`: under attackers that do not know it. `holds`: under the worst attack. `rest`: `holds` less half of `seems`.
    It is broken where the interval of `seems` lies above 0 and that of `rest` below. `attack`: which attack is the
    worst on most units, if it is.
    """

    seems: Measured
    holds: float
    rest: Measured
    attack: str = ""
    parts: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """What each independent unit adds to `seems` and to `rest`."""


class Place(BaseModel, frozen=True, extra="forbid"):
    """What a ranking states about an entry in addition to its numbers, which are in the ranking's table."""

    control: str = ""
    """What control it is, such as "random weights", or "" for an entry; a control never wins."""
    complete: bool
    """Whether it has a number for every unit in every setting; it is ranked among complete entries, on equal units."""
    gate: State
    """Whether it keeps enough utility, and what else a track asks for."""
    kept: tuple[Kept, ...] = ()
    """The numbers behind `gate`, one for each thing to keep; none for the undefended entry, which passes."""
    front: bool
    """Whether every entry that protects better also costs more."""
    broken_by: Mapping[str, float]
    """Attack -> share of the units on which it was the worst attack, largest share first."""
    needed: int | None = None
    """How many units, or clusters, would be needed to tell the entry from the first place."""
    moved: Moved | None = None
    """What it makes that attackers know it; None where no attack was run both ways, and for controls."""
    broken: Broken | None = None
    """How much the worst attack leaves of what it seems to protect; None where that is not measured, for controls."""
    flags: tuple[str, ...] = ()
    """The reasons why its protection is only an upper bound."""

    @property
    def able(self) -> bool:
        """Whether the gate lets it win: it passes, or the data do not show whether it does."""
        return self.gate in ("passes", "not told")


class Ranking(BaseModel, frozen=True, extra="forbid"):
    """Who wins by the worst case, and how certain that is. The numbers are in the columns of `table`.

    `table` has the columns ``rank`` (with an interval of the rank), ``worst``, ``unaware``, ``aware``, ``behind`` (the
    distance to the first place, with a simultaneous interval), ``utility`` and ``coverage``. `comparison` has the
    scores by setting: for each unit the worst is taken over the facets `over`, then the mean over the other facets.
    `attack` and `attacker` are the facets that name the attack and what the attacker knows; `unaware` is the attacker
    who does not know the defense. `gate` is the utility of the undefended entry less `share` of it; whether an entry
    keeps that is tested, see `Place.gate`. `may_be_best` are the complete, unflagged entries that fail no gate,
    nor are doubtful at one, and that, by one of the `yardsticks` at least, no other of them is shown to protect better
    than. The first is the one that is ahead. `winner` is a single one of them that is shown to be better than each
    other complete candidate and every control, by every yardstick; "" where there is none. `claim` is the headline.
    `balanced` is the facet whose values weigh the same, or "".
    """

    table: str
    comparison: str
    over: tuple[str, ...]
    attack: str
    attacker: str
    unaware: str
    balanced: str = ""
    alike: tuple[int, ...] = ()
    """Which attack each condition of the comparison is, apart from what the attacker knows, as a number."""
    yardsticks: tuple[str, ...] = ()
    """The comparisons by which a winner is asked for, that of the ranking first."""
    control_tails: tuple[float, ...] = ()
    """The two-sided level of the interval of a candidate against a control, by each yardstick: 5 % over the number of
    candidates, or that of the comparison where it is larger."""
    silent: Mapping[str, tuple[int, ...]] = Field(default_factory=dict)
    """Entry -> positions among its numbers in the comparison where it met an attack that says nothing of it, such as
    one that did not converge: no number is there, and nothing was withheld."""
    chosen: bool = False
    """Whether the comparison has the numbers of one attack, chosen for each entry on other units: `Place.complete`
    then is over all attacks that could be chosen."""
    broken_tail: float = 0.05
    """The two-sided level of the intervals in `Place.broken`."""
    references: tuple[str, ...] = ()
    """The controls that no entry has to be better than, because they stand for attackers who have nothing to go by."""
    undefended: str
    gate: float | None
    share: float
    places: Mapping[str, Place]
    may_be_best: tuple[str, ...] = ()
    winner: str
    claim: str
    findings: tuple[Finding, ...] = Field(default=())
    """What the board found: shown, ruled out and open, each sentence with its numbers."""
    proxies: tuple[str, ...] = ()
    """What stands in for human judgement, real data or trained networks; it is part of the headline."""
