"""Who may win: three questions, each with intervals of its own.

Candidates are complete, unflagged, no controls, and no gate bars them.

A. Which entries are better than no defense? All of them at once, see `imharness.statistics.against_one`.
B. Who is first? The one that is ahead wins if it is shown to be better than each other candidate and each control that
   stands against it, "no defense" among them, each by itself: of two best ones that are equally good, one is crowned in
   5 % of studies at most. Otherwise the set of those that may be best is Hsu's.
C. Which of any two is better? All pairs at once: intervals of ranks, and what holds when a reader picks any two.

Further measures of a track decide by what they show: where one shows the first to be worse than another candidate or
than no defense, measures disagree, and nobody wins. A measure that shows nothing takes nothing away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from imharness.results.pairwise import Advantage
from imharness.results.rankings import Place
from imharness.statistics.against_one import AgainstOne, shown_alone
from imharness.statistics.differences import Differences, Mask


@dataclass(frozen=True)
class Disagreement:
    """A further measure, by its position, by which an entry is shown to be better than the one that is ahead."""

    measure: int
    entry: int


@dataclass(frozen=True)
class Standing:
    """Who may win. Entries are positions.

    `pairs`: all entries against each other, by each measure, that of the ranking first. `candidates`: complete entries
    that are not controls, are not flagged, and fail no gate. `controls`: complete controls. `against`: every entry
    against no defense, None where that was not measured. `over_each`: entry -> its advantage over each entry.
    `stands_against`: (control, entry) -> whether the entry has to be better than it.
    `best_alpha`: see `imharness.statistics.against_one.best_alpha`. `lacks_none`: whether no defense was measured, but
    not on all that counts, so that nobody is compared with it.
    """

    pairs: Sequence[Differences]
    candidates: Sequence[int]
    controls: Sequence[int]
    undefended: int | None
    against: AgainstOne | None
    over_each: Callable[[int], Advantage]
    stands_against: Callable[[int, int], bool]
    best_alpha: float
    lacks_none: bool = False

    @cached_property
    def first(self) -> int | None:
        """The candidate that is ahead; None without candidates."""
        return self.pairs[0].leader(self.candidates) if self.candidates else None

    @cached_property
    def rivals(self) -> list[int]:
        """The controls that the first one has to be better than."""
        return [i for i in self.controls if self.first is not None and self.stands_against(i, self.first)]

    @cached_property
    def not_behind(self) -> list[int]:
        """Other candidates and rivals that the first one is not shown to be better than, the nearest first."""
        if self.first is None:
            return []
        others = [i for i in (*self.candidates, *self.rivals) if i != self.first]
        if not others:
            return []
        # Skewed differences have longer intervals alone than among all pairs: what those show is shown.
        over = self.over_each(self.first)
        separated = shown_alone(over.contributions[others], self.pairs[0].value_range, over.nearest[others])
        separated |= self.pairs[0].better[self.first, others]
        lead = self.pairs[0].value[self.first]
        return sorted(
            (i for i, distinct in zip(others, separated, strict=True) if not distinct), key=lambda i: (lead[i], i)
        )

    @cached_property
    def disagreement(self) -> Disagreement | None:
        """By which further measure, if any, the first one is shown to be worse than whom it leads."""
        if self.first is None:
            return None
        others = [i for i in self.candidates if i != self.first]
        others += [] if self.undefended is None or self.undefended in others else [self.undefended]
        for measure, pairs in enumerate(self.pairs[1:], start=1):
            behind = self.pairs[0].value[self.first] > 0
            ahead = [i for i in others if pairs.better[i, self.first] and behind[i]]
            if ahead:
                return Disagreement(measure, max(ahead, key=lambda i: (pairs.value[i, self.first], -i)))
        return None

    @cached_property
    def winner(self) -> int | None:
        """The first one, if it is shown to be better than all other candidates and rivals, and no measure disagrees.

        One without another candidate or a rival is compared with nobody and does not win. Where no defense was
        measured and is incomplete, nobody is shown to be better than it, and nobody wins.
        """
        alone = not self.rivals and len(self.candidates) == 1
        return None if alone or self.lacks_none or self.not_behind or self.disagreement else self.first

    @cached_property
    def may_be_best(self) -> list[int]:
        """Candidates that may be best, the one that is ahead first: the winner alone, or else Hsu's set.

        It holds nobody whom all pairs at once show to be behind another candidate, nor whom A shows to be worse. Of two
        candidates Hsu's comparison is the easier one: whoever is not separated from the first stays in the set.
        """
        if self.first is None or self.winner is not None:
            return [] if self.winner is None else [self.winner]
        candidates = list(self.candidates)
        pairs = self.pairs[0]
        ahead: Mask = np.logical_or(replace(pairs, alpha=2 * self.best_alpha).better, pairs.better)
        behind = np.asarray(ahead[np.ix_(candidates, candidates)].any(axis=0))
        worse = np.zeros(len(pairs.value), dtype=bool) if self.against is None else self.against.worse
        order = sorted(
            range(len(candidates)), key=lambda j: (-_mean_lead(pairs, candidates[j], candidates), candidates[j])
        )
        near = {*self.not_behind}
        certainly = np.asarray(pairs.better[np.ix_(candidates, candidates)].any(axis=0))
        out = [certainly[j] if candidates[j] in near else behind[j] for j in range(len(candidates))]
        remaining = [candidates[j] for j in order if not out[j] and not worse[candidates[j]]]
        return sorted(remaining, key=lambda i: i != self.first)

    def better_than_none(self, i: int) -> bool:
        """Whether an entry is shown to be better than no defense: by A, or because it wins."""
        return i == self.winner or (self.against is not None and bool(self.against.better[i]))


def _mean_lead(pairs: Differences, i: int, among: Sequence[int]) -> float:
    leads = pairs.value[i, list(among)]
    finite = leads[~np.isnan(leads)]
    return float(finite.mean()) if len(finite) else 0.0


def candidates_of(entries: Sequence[str], places: Mapping[str, Place]) -> list[int]:
    """Return the positions of the entries that may win."""
    return [i for i, label in enumerate(entries) if places[label].eligible]


def aligned(pairs: Differences, among: Sequence[str], wanted: Sequence[str]) -> Differences:
    """Return differences of the entries `among` as those of other entries; NaN for those that are not among them."""
    index = {label: i for i, label in enumerate(among)}
    rows = np.array([index.get(label, -1) for label in wanted], dtype=np.int64)
    value, error = np.full((2, len(wanted), len(wanted)), np.nan)
    units = np.zeros(value.shape, dtype=np.int64)
    here = np.flatnonzero(rows >= 0)
    for wide, narrow in ((value, pairs.value), (error, pairs.error), (units, pairs.units)):
        wide[np.ix_(here, here)] = narrow[np.ix_(rows[here], rows[here])]
    return replace(pairs, value=value, error=error, units=units)
