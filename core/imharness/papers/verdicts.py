"""The verdicts of a comparison with a published table: on each number, on each quantity, and on the whole table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from imharness.documents.tables import Value
from imharness.papers.commands import NOTHING, Ask, Runs, runs
from imharness.papers.order import Order
from imharness.papers.published import PublishedTable

SAME, OTHER, NOT_RUN = "same setting", "another setting", "not run"
AGREES, DISAGREES, OPEN = "agrees", "disagrees", "undecided"
JUDGED = (AGREES, DISAGREES, OPEN)
"""The verdicts on a number that was measured in the same setting."""
FEWEST_UNITS = 5
"""An interval from fewer independent units than this is itself too uncertain to tell anything."""


@dataclass(frozen=True)
class Cell:
    """A published number beside ours, in our unit.

    `verdict` is

    - "not run" if we have no number; `missing` says why;
    - "another setting" if `setting`, `itself` or `otherwise` names a difference;
    - "undecided" if ours comes from fewer than `FEWEST_UNITS` independent units, or if our interval holds the published
      number but is wider than `spread`;
    - "agrees" if the published number lies in our interval (`within`), widened by `half_digit`, else "disagrees".
    """

    entry: str
    published: float
    """The published number, in our unit."""
    text: str
    """The number as it is printed."""
    half_digit: float
    """Half a unit of the last printed digit, in our unit."""
    spread: float | None = None
    """The largest minus the smallest published number of the quantity; None if there are fewer than two."""
    once: bool = False
    """Whether the published number comes from one of the units that ours is a mean over, such as one random split."""
    ours: Value | None = None
    label: str = ""
    """The label of our row."""
    setting: tuple[str, ...] = ()
    """How the leaderboard's setting differs from that of this number."""
    itself: tuple[str, ...] = ()
    """How our entry differs from the published one, or why only its order can be compared."""
    otherwise: tuple[tuple[str, str], ...] = ()
    """What the authors' public code computes otherwise: a row, column or component, and a sentence with the place."""
    missing: str = ""
    """Why we have no number."""
    note: str = ""
    ask: Ask = NOTHING
    """What a run must select to compute our number."""

    @property
    def units(self) -> int | None:
        """How many independent units our number comes from."""
        if self.ours is None:
            return None
        return self.ours.n if self.ours.clusters is None else self.ours.clusters

    @property
    def within(self) -> tuple[float, float] | None:
        """Our 95 % interval; if the published number comes from one unit, the interval for one further unit.

        A single unit varies more than a mean of n units, so that interval is sqrt(n + 1) times as wide.
        """
        if self.ours is None or self.ours.value is None or self.ours.low is None or self.ours.high is None:
            return None
        value, wider = self.ours.value, math.sqrt(self.units + 1) if self.once and self.units else 1.0
        return value - wider * (value - self.ours.low), value + wider * (self.ours.high - value)

    @property
    def verdict(self) -> str:
        """The verdict on this number; see the class."""
        if self.ours is None or self.ours.value is None:
            return NOT_RUN
        if self.setting or self.itself or self.otherwise:
            return OTHER
        low, high = self.within or (self.ours.value, self.ours.value)
        inside = low - self.half_digit <= self.published <= high + self.half_digit
        few = self.units is not None and self.units < FEWEST_UNITS
        wide = self.spread is not None and high - low > self.spread
        if few or (inside and wide):
            return OPEN
        return AGREES if inside else DISAGREES

    @property
    def difference(self) -> float | None:
        """Our number minus the published one."""
        return None if self.ours is None or self.ours.value is None else self.ours.value - self.published


def agreement(cells: Sequence[Cell], what: str = "") -> str:
    """Return in words how many of these cells agree, and how many are undecided; `what` names the cells."""
    verdicts = [cell.verdict for cell in cells]
    decided = verdicts.count(AGREES) + verdicts.count(DISAGREES)
    phrases = [f"{verdicts.count(AGREES)} of {decided} {what}agree"] if decided else []
    return ", ".join(
        [*phrases, *([f"{verdicts.count(OPEN)} {'' if decided else what}undecided"] if OPEN in verdicts else [])]
    )


@dataclass(frozen=True)
class Series:
    """One quantity over entries. `ours` is the id of our table; `order` compares the entries that have both numbers.

    `label` is the quantity, with the data set if one table has rows from several.
    """

    label: str
    quantity: str
    ours: str
    cells: tuple[Cell, ...]
    order: Order
    note: str = ""

    def with_verdict(self, *verdicts: str) -> tuple[Cell, ...]:
        """Return the cells with one of these verdicts."""
        return tuple(cell for cell in self.cells if cell.verdict in verdicts)

    @property
    def verdict(self) -> str:
        """One of `SAME`, `OTHER` and `NOT_RUN`."""
        if self.with_verdict(*JUDGED):
            return SAME
        return OTHER if self.with_verdict(OTHER) else NOT_RUN

    @property
    def says(self) -> str:
        """The verdict in words."""
        if self.verdict == SAME:
            return agreement(self.with_verdict(*JUDGED))
        return self.order.says if self.verdict == OTHER else NOT_RUN


@dataclass(frozen=True)
class Comparison:
    """A published table, the numbers of our leaderboard for it, and why the two may differ."""

    table: PublishedTable
    series: tuple[Series, ...]
    differs: tuple[str, ...]
    unpointed: tuple[str, ...]
    """The columns and rows for which we have no number."""

    @property
    def entries_differ(self) -> tuple[str, ...]:
        """How our entries differ from the published ones."""
        return tuple(dict.fromkeys(line for series in self.series for cell in series.cells for line in cell.itself))

    @property
    def otherwise(self) -> tuple[str, ...]:
        """What the authors' public code computes otherwise, also of numbers that were not run."""
        by_sentence: dict[str, dict[str, None]] = {}
        for series in self.series:
            for name, sentence in (pair for cell in series.cells for pair in cell.otherwise):
                by_sentence.setdefault(sentence, {})[name] = None
        return tuple(f"{'; '.join(names)}: {sentence}" for sentence, names in by_sentence.items())

    @property
    def not_run(self) -> dict[str, tuple[str, ...]]:
        """Reason why we have no number -> the entries or quantities for which it holds."""
        by_reason: dict[str, dict[str, None]] = {}
        for series in self.series:
            for cell in series.with_verdict(NOT_RUN):
                by_reason.setdefault(cell.missing, {})[cell.entry] = None
        return {reason: tuple(entries) for reason, entries in by_reason.items()}

    @property
    def runs(self) -> Runs:
        """The runs that compute the numbers that were not run."""
        return runs(self.table, (cell.ask for series in self.series for cell in series.with_verdict(NOT_RUN)))

    @property
    def verdict(self) -> str:
        """The strongest verdict of the series, or `NOT_RUN` if there are none."""
        verdicts = {series.verdict for series in self.series}
        return next((verdict for verdict in (SAME, OTHER) if verdict in verdicts), NOT_RUN)
