"""Who may win: three questions, each with intervals of its own.

A *candidate* is an entry that may win: it is complete, is not flagged, is no control, and passes the gates. The *first*
is the candidate that is ahead. A *rival* is a control that the first has to be better than, such as "no defense".

A. Which entries are better than no defense? One family of intervals for all entries, see
   `imharness.statistics.against_one`.
B. Who wins? The first wins if it is shown to be better than each other candidate and each rival. Each of these
   comparisons is made by itself, without a correction: if two candidates are equally good and better than all others,
   one of them is falsely declared the winner in at most 5 % of studies. Where nobody wins, Hsu's set says who may be
   the best.
C. Which of any two entries is better? One family of intervals for all pairs; it gives the intervals of ranks, and
   holds for any pair that a reader picks.

Secondary measures of a track decide by what they show: where one shows the first to be worse than another candidate or
than no defense, measures disagree, and nobody wins. A measure that shows nothing changes nothing. One that the winner
was not measured by cannot show anything; the headline, a finding and the note of the table then say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from imharness.documents.pairwise import Advantage
from imharness.documents.rankings import Place
from imharness.statistics.against_one import AgainstOne, shown_alone
from imharness.statistics.differences import Differences, Mask


@dataclass(frozen=True)
class Disagreement:
    """A secondary measure by which another entry is shown to be better than the first; both are positions."""

    measure: int
    entry: int


@dataclass(frozen=True)
class Standing:
    """Who may win. An entry is its position in the contest.

    Attributes:
        pairs: all entries against each other by each measure; the measure of the ranking comes first.
        candidates: the entries that may win, see the module.
        controls: the complete controls.
        undefended: the entry that stands for no defense; None where it was not measured, or is incomplete.
        against: every entry against no defense; None where that cannot be compared.
        over_each: entry -> its advantage over each entry.
        stands_against: (control, entry) -> whether the entry has to be better than the control in order to win.
        best_alpha: see `imharness.statistics.against_one.best_alpha`.
        lacks_none: whether no defense was measured, but is incomplete, so that nobody is compared with it.
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
        """The controls that the first has to be better than."""
        return [i for i in self.controls if self.first is not None and self.stands_against(i, self.first)]

    @cached_property
    def not_behind(self) -> list[int]:
        """Other candidates and rivals that the first is not shown to be better than, the nearest first.

        The first is shown to be better by the comparison of the two by itself, or by the intervals of all pairs, which
        can be the shorter ones where differences are skewed.
        """
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
        not_separated = [i for i, is_separated in zip(others, separated, strict=True) if not is_separated]
        return sorted(not_separated, key=lambda i: (lead[i], i))

    @cached_property
    def equal_to_first(self) -> list[int]:
        """Other candidates that are as good as the first on every unit, such as a copy of it under another name."""
        if self.first is None:
            return []
        over = self.over_each(self.first)
        largest = np.abs(np.nan_to_num(over.rows)).max(axis=1, initial=0.0)
        return [i for i in self.not_behind if i in self.candidates and largest[i] <= over.nearest[i]]

    @cached_property
    def disagreement(self) -> Disagreement | None:
        """The secondary measure, if any, that shows the first to be worse than an entry that it leads.

        That entry is another candidate or no defense; of several, the one that is better by the most.
        """
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
        """The first, if it is shown to be better than all other candidates and rivals, and no measure disagrees.

        A candidate without another candidate or a rival is compared with nobody and does not win. Where no defense was
        measured and is incomplete, nobody is shown to be better than no defense, and nobody wins.
        """
        alone = not self.rivals and len(self.candidates) == 1
        return None if alone or self.lacks_none or self.not_behind or self.disagreement else self.first

    @cached_property
    def may_be_best(self) -> list[int]:
        """The candidates that may be the best: the winner alone, or else Hsu's set. The first comes first.

        A candidate is ruled out

        - if question A shows it to be worse than no defense,
        - if the intervals of all pairs show another candidate to be better,
        - if Hsu's intervals show another candidate to be better. With two candidates these are shorter than the
          intervals of question B; so this rule spares every candidate from which the first is not separated.

        After the first, candidates stand in the order of their mean leads over the other candidates.
        """
        if self.winner is not None:
            return [self.winner]
        if self.first is None:
            return []
        candidates, pairs, not_separated = list(self.candidates), self.pairs[0], {*self.not_behind}
        worse_than_none = np.zeros(len(pairs.value), dtype=bool) if self.against is None else self.against.worse
        behind_by_pairs: Mask = np.asarray(pairs.better[candidates].any(axis=0))
        better_by_hsu: Mask = replace(pairs, alpha=2 * self.best_alpha).better
        behind_by_hsu: Mask = np.asarray(better_by_hsu[candidates].any(axis=0))

        def is_ruled_out(i: int) -> bool:
            if worse_than_none[i] or behind_by_pairs[i]:
                return True
            return bool(behind_by_hsu[i]) and i not in not_separated

        remaining = [i for i in candidates if not is_ruled_out(i)]
        return sorted(remaining, key=lambda i: (i != self.first, -_mean_lead(pairs, i, candidates), i))

    def better_than_none(self, i: int) -> bool:
        """Whether an entry is shown to be better than no defense: by question A, or because it wins."""
        return i == self.winner or (self.against is not None and bool(self.against.better[i]))


def _mean_lead(pairs: Differences, i: int, among: Sequence[int]) -> float:
    """Return the mean lead of entry i over the entries `among`, in the unit of the measure; 0 without any."""
    leads = pairs.value[i, list(among)]
    finite = leads[~np.isnan(leads)]
    return float(finite.mean()) if len(finite) else 0.0


def candidates_of(entries: Sequence[str], places: Mapping[str, Place]) -> list[int]:
    """Return the positions of the entries that may win."""
    return [i for i, label in enumerate(entries) if places[label].eligible]


def aligned(pairs: Differences, among: Sequence[str], wanted: Sequence[str]) -> Differences:
    """Return the differences of the entries `among` as those of the entries `wanted`, in the order of the latter.

    Wanted entries that are not `among` have NaN and no unit.
    """
    index = {label: i for i, label in enumerate(among)}
    rows = np.array([index.get(label, -1) for label in wanted], dtype=np.int64)
    value, error = np.full((2, len(wanted), len(wanted)), np.nan)
    units = np.zeros(value.shape, dtype=np.int64)
    present = np.flatnonzero(rows >= 0)
    for target, source in ((value, pairs.value), (error, pairs.error), (units, pairs.units)):
        target[np.ix_(present, present)] = source[np.ix_(rows[present], rows[present])]
    return replace(pairs, value=value, error=error, units=units)
