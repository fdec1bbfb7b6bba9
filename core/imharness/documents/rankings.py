"""Rankings as data: who wins, and what else a ranking states beside the numbers of its table. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from pydantic import BaseModel, Field

from imharness.documents.entries import FLAGGED, NOT_JUDGED
from imharness.documents.findings import Finding, Measured
from imharness.documents.naming import NO_DEFENSE
from imharness.documents.tables import ColumnSpec, Row, joined

State = Literal["passes", "fails", "doubtful", "undecided", "not measured"]
"""Whether an entry keeps what it must keep; only "passes" and "undecided" let it win."""
Verdict = Literal["better", "undecided", "worse"]
Outcome = Literal["winner", "leader", "measures disagree", "bound", "worse", "nobody"]
"""What the headline of a ranking says:

- "winner", "leader": who wins, or who leads without winning.
- "measures disagree": a secondary measure shows the first to be worse.
- "bound": by how much any entry could be better than no defense at most.
- "worse": a control is better than the first, or no defense is better than all entries that may win.
- "nobody": no entry may win.
"""


class Against(Measured, frozen=True, extra="forbid"):
    """How much better an entry is than no defense; the intervals of all entries of the ranking hold at once.

    `verdict`: what the interval shows. `p`: the p-value of the one-sided Wilcoxon signed-rank test over independent
    units, exact up to 50 units, ties included; its null hypothesis is that differences are symmetric about 0. `p_holm`:
    the same, corrected over the entries. Both are None where nothing differs, or units are too few.
    """

    verdict: Verdict
    p: float | None = None
    p_holm: float | None = None


class Kept(Measured, frozen=True, extra="forbid"):
    """The answer of one gate: how far an entry lies above the threshold, paired with the undefended entry.

    `state`: "passes" if the interval lies above 0, "fails" if it lies below 0. Else it is "doubtful" if the entry's own
    interval, as if there were no other entries, lies below 0, and "undecided" if that does not either. `value` is None
    ("not measured") if the entry was not measured on every unit on which the undefended entry was measured, or if the
    measure is not defined without one of these units.
    """

    value: float | None = None  # type: ignore[assignment]
    label: str
    """What is to be kept, such as "test accuracy"."""
    least: str
    """The threshold, in words."""
    decimals: int = 3
    state: State
    alpha: float = 0.05
    """The two-sided level of the interval: 5 % divided by the number of intervals that hold at once."""
    contributions: tuple[float, ...] = ()
    """What each independent unit adds to the mean; all other numbers can be computed from these."""
    values: tuple[float, ...] = ()
    """All numbers that a unit can add, if there are only a few; the interval is then a score interval."""


def p_text(p: float) -> str:
    """Return a p-value as text without the 0 before the point: two decimals from .01 on, else four, or "<.0001"."""
    if p < 0.0001:
        return "<.0001"
    return f"{p:.4f}".lstrip("0") if p < 0.01 else f"{p:.2f}".lstrip("0")


def turned(rows: Sequence[Row], worst: ColumnSpec) -> str:
    """Return a sentence on pairs of neighbouring rows whose numbers are in the reverse order, or "" without any.

    Ranks are by the units that two entries share, while the number of an entry is over all of its own units; so the
    lower row of two may have the better number. `rows`: the best first. `worst`: the column of the numbers.
    """
    placed = [row for row in rows if row.number("rank") is not None and row.number("worst") is not None]
    sign, unit = 1 if worst.better == "higher" else -1, worst.cluster_unit or worst.unit or "unit"
    numbers = [sign * round(row.values["worst"].number_or(0.0), worst.decimals) for row in placed]
    pairs = [
        f"{first.label} before {second.label}"
        for (first, second), (one, other) in zip(pairwise(placed), pairwise(numbers), strict=True)
        if other > one
    ]
    if not pairs:
        return ""
    return (
        f"Places put {joined(pairs)} by the {unit}s that two entries share; their numbers, each over its own {unit}s, "
        "are in the reverse order."
    )


class Moved(BaseModel, frozen=True, extra="forbid"):
    """How the measure of an entry changes once attackers know the entry, in the unit of the measure.

    `before`: the mean under attackers that do not know it. `after`: the mean under attackers that do. `change`: after
    less before. Only attacks that were run both ways count.
    """

    before: float
    after: float
    change: Measured
    alpha: float = 0.05
    """The two-sided level of the interval: 5 % divided by the number of intervals that hold at once."""
    contributions: tuple[float, ...] = ()
    """What each independent unit adds to `change`."""


class Broken(BaseModel, frozen=True, extra="forbid"):
    """How much of an entry's advantage over no defense the worst attack leaves.

    `seems`: the advantage under attackers that do not know the entry. `holds`: the advantage under the worst attack.
    `rest`: `holds` less half of `seems`. The entry is broken if the interval of `seems` lies above 0 and that of `rest`
    below 0. `attack`: the attack that is the worst on most units, if the entry is broken; else "".
    """

    seems: Measured
    holds: float
    rest: Measured
    attack: str = ""
    contributions: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """What each independent unit adds to `seems` and to `rest`."""


class Place(BaseModel, frozen=True, extra="forbid"):
    """What a ranking states about an entry in addition to its numbers, which are in the ranking's table."""

    control: str = ""
    """What control it is, such as "random weights", or "" for an entry; a control never wins."""
    complete: bool
    """Whether it has a number for every unit in every setting; it is ranked among complete entries, on equal units."""
    gate: State
    """Whether it keeps enough utility, and what else a track asks for."""
    gate_numbers: tuple[Kept, ...] = ()
    """The answer of each gate; none for the undefended entry, which passes."""
    front: bool
    """Whether every entry that protects better, on the units that both have, also costs more."""
    broken_by: Mapping[str, float]
    """Attack -> share of the units on which it was the worst attack, largest share first."""
    needed: int | None = None
    """How many units, or clusters, would be needed to separate the entry from the first."""
    moved: Moved | None = None
    """How its measure changes once attackers know it; None where no attack was run both ways, and for controls."""
    broken: Broken | None = None
    """How much of its advantage the worst attack leaves; None where that was not measured, and for controls."""
    against: Against | None = None
    """How it compares with no defense; None for controls, incomplete entries, and without an undefended entry."""
    lacks: Mapping[str, float] = Field(default_factory=dict)
    """Secondary measure -> the share of its numbers that the entry has, in [0, 1), where it lacks some. Such
    a measure could not take a win away from the entry, or less easily. Empty for controls and incomplete entries."""
    flags: tuple[str, ...] = ()
    """The reasons why its protection is only an upper bound."""
    headline: tuple[str, ...] = ()
    """The headline of the entry, and then a sentence on what it costs, if that is too much; none for controls."""

    @property
    def able(self) -> bool:
        """Whether the gate lets it win: it passes, or the data do not show whether it does."""
        return self.gate in ("passes", "undecided")

    @property
    def doubt(self) -> str:
        """Whether its number is only an upper bound: `FLAGGED`, `NOT_JUDGED` if all flags say that, or ""."""
        if not self.flags:
            return ""
        return NOT_JUDGED if all(flag.startswith(NOT_JUDGED) for flag in self.flags) else FLAGGED

    @property
    def eligible(self) -> bool:
        """Whether it may win: complete, no control, not flagged, and no gate bars it."""
        return self.complete and not self.control and not self.flags and self.able


class Ranking(BaseModel, frozen=True, extra="forbid"):
    """Who wins by the worst case, and how certain that is. The numbers are in the columns of `table`.

    `table` has the columns ``rank`` (with an interval of the rank), ``worst``, ``unaware``, ``aware``, ``behind`` (the
    distance to the first, with a simultaneous interval), ``utility`` and ``coverage``. `comparison` has the
    scores by setting: for each unit the worst is taken over the facets `over`, then the mean over the other facets.
    `attack` and `attacker` are the facets that name the attack and what the attacker knows; `unaware` is the attacker
    who does not know the defense. `gate` is the utility of the undefended entry less `share` of it; whether an entry
    keeps that is tested, see `Place.gate`. `first` is the eligible entry that is ahead. `winner` is the same one if it
    is shown to be better than each other eligible entry and each control that stands against it, and no secondary
    measure shows it to be worse than one of them or than no defense; "" where there is none. `not_behind` are those
    that it is not shown to be better than. `may_be_best` is the winner, or the set of those that may be best. `claim`
    is the headline. `balanced` is the facet whose values weigh the same, or "".
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
    secondary_measures: tuple[str, ...] = ()
    """The comparisons by which a winner is asked for, that of the ranking first."""
    against_alphas: tuple[float, float] = (0.04, 0.01)
    """The one-sided levels of a lower and an upper end of `Place.against` at which all of them hold at once."""
    best_alpha: float = 0.05
    """The one-sided level at which an entry cannot be the best because another one is ahead."""
    matched: Mapping[str, str] = Field(default_factory=dict)
    """Control -> the only entry that it stands against; other controls stand against all."""
    silent: Mapping[str, tuple[int, ...]] = Field(default_factory=dict)
    """Entry -> positions among its numbers in the comparison where it met an attack that says nothing of it, such as
    one that did not converge: no number is there, and nothing was withheld."""
    nested: Mapping[str, tuple[str, str]] = Field(default_factory=dict)
    """Unit of the comparison -> its group, such as a pool of rows, and the stratum of that; intervals of means are then
    those of `imharness.statistics.nested`. Empty where units are not in groups."""
    chosen: bool = False
    """Whether the comparison has the numbers of one attack, chosen for each entry on other units: `Place.complete`
    then is over all attacks that could be chosen."""
    broken_alpha: float = 0.05
    """The two-sided level of the intervals in `Place.broken`."""
    references: tuple[str, ...] = ()
    """The controls that no entry has to be better than, because they stand for attackers who have nothing to go by."""
    undefended: str
    baseline: str = ""
    """The entry that all others are compared with in `Place.against`."""
    baseline_name: str = NO_DEFENSE
    """What that entry is called: "no defense", or its name if it is another control, such as a pixel-wise distance."""
    gate: float | None
    share: float
    places: Mapping[str, Place]
    first: str = ""
    winner: str
    not_behind: tuple[str, ...] = ()
    may_be_best: tuple[str, ...] = ()
    outcome: Outcome = "nobody"
    claim: str
    void: str = ""
    """Why no entry can be judged, which then flags all of them, whatever they are."""
    findings: tuple[Finding, ...] = Field(default=())
    """What the leaderboard found: shown, ruled out and open, each sentence with its numbers."""
    proxies: tuple[str, ...] = ()
    """What stands in for human judgement, real data or trained networks; it is said beside the headline."""

    def stated(self, one: str, other: str) -> str | None:
        """Return which of two entries the ranking states to be better, or "" where it states that this is undecided.

        Every page and table that compares the two asks here, so that they do not contradict each other. None where the
        ranking states nothing about the two; then the intervals of all pairs decide.
        """
        for entry, plain in ((one, other), (other, one)):
            against = self.places[entry].against if plain == self.baseline and entry in self.places else None
            if against is not None:
                return {"better": entry, "worse": plain, "undecided": ""}[against.verdict]
        if not self.winner or self.winner not in (one, other):
            return None
        rival = other if one == self.winner else one
        return self.winner if rival in self.places and self._stands_against_winner(rival) else None

    def _stands_against_winner(self, rival: str) -> bool:
        position = self.places[rival]
        if not position.control:
            return position.eligible
        if rival in self.matched:
            return position.complete and position.able and self.matched[rival] == self.winner
        return position.complete and rival not in self.references
