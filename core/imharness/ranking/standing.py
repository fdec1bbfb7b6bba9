"""Who may win: candidates, the set of those that may be best, and which of them are better than every control.

Each question is asked by every yardstick that a track names. Candidates are held against each other by the intervals
of all pairs of entries. "Better than every control" is one test for each candidate, an intersection-union test: it is
shown by showing it for each control, so that its intervals are corrected over candidates alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from imharness.results.rankings import Place
from imharness.statistics.differences import Differences
from imharness.statistics.means import tail_for


@dataclass(frozen=True)
class Standing:
    """Who may win. Entries are positions.

    `told`: all entries against each other, by each yardstick, that of the ranking first. `candidates`: complete
    entries that are not controls, are not flagged, and fail no gate. `rivals`: complete controls.
    """

    told: Sequence[Differences]
    candidates: Sequence[int]
    rivals: Sequence[int]

    @cached_property
    def against_controls(self) -> list[Differences]:
        """The same at the level of candidates against controls, by each yardstick."""
        alone = tail_for(len(self.candidates))
        return [replace(own, tail=max(own.tail, alone)) for own in self.told]

    @cached_property
    def may_be_best(self) -> list[int]:
        """Candidates that, by some yardstick, no candidate is shown to be better than; the one ahead comes first."""
        if not self.candidates:
            return []
        own = list(self.candidates)
        first = self.told[0].leader(own)
        worse = np.all([told.better[np.ix_(own, own)].any(axis=0) for told in self.told], axis=0)
        order = sorted(range(len(own)), key=lambda j: (-_mean_lead(self.told[0], own[j], own), own[j]))
        return [first, *(own[j] for j in order if not worse[j] and own[j] != first)]

    def doubt(self, i: int) -> tuple[int, int] | None:
        """Return a yardstick and a control that the candidate is not shown to beat by it; None without such a pair."""
        pairs = ((y, c) for y in range(len(self.told)) for c in self.rivals)
        return next(((y, c) for y, c in pairs if not self.against_controls[y].better[i, c]), None)

    @cached_property
    def proven(self) -> list[int]:
        """Those that may be best and are better than every control, by every yardstick."""
        return [i for i in self.may_be_best if self.doubt(i) is None]

    @cached_property
    def winner(self) -> int | None:
        """The one that is shown to be better than each other candidate and control, by every yardstick, if any is."""
        if len(self.may_be_best) != 1 or not self.proven:
            return None
        first = self.may_be_best[0]
        others = [i for i in self.candidates if i != first]
        return first if all(told.better[first, others].all() for told in self.told) else None


def _mean_lead(told: Differences, i: int, among: Sequence[int]) -> float:
    leads = told.value[i, list(among)]
    known = leads[~np.isnan(leads)]
    return float(known.mean()) if len(known) else 0.0


def standing_of(
    entries: Sequence[str], places: Mapping[str, Place], told: Sequence[Differences], references: frozenset[str]
) -> Standing:
    """Return who may win; `references`: controls that nobody has to be better than."""
    own = [(i, places[label]) for i, label in enumerate(entries) if places[label].complete]
    able = [i for i, place in own if not place.control and not place.flags and place.able]
    return Standing(told, able, [i for i, place in own if place.control and entries[i] not in references])


def aligned(told: Differences, own: Sequence[str], wanted: Sequence[str]) -> Differences:
    """Return differences of the entries `own` as those of other entries; NaN for those that are not among them."""
    place = {label: i for i, label in enumerate(own)}
    rows = np.array([place.get(label, -1) for label in wanted], dtype=np.int64)
    value, error = np.full((2, len(wanted), len(wanted)), np.nan)
    units = np.zeros(value.shape, dtype=np.int64)
    here = np.flatnonzero(rows >= 0)
    for found, given in ((value, told.value), (error, told.error), (units, told.units)):
        found[np.ix_(here, here)] = given[np.ix_(rows[here], rows[here])]
    return replace(told, value=value, error=error, units=units)
