"""`compare`: compares two entries on the units that both were measured on. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.documents.comparisons import Comparison, Condition
from imharness.documents.pairwise import groups_of, limit_of, places, unit_gains, weights_of
from imharness.documents.rankings import Ranking
from imharness.documents.tables import several
from imharness.errors import UsageError, unknown_name
from imharness.notebook.arguments import short, text
from imharness.notebook.result import Paired, Result, ResultRow
from imharness.results.identity import LOCAL
from imharness.results.labels import printed
from imharness.statistics import NotTestable, head_to_head
from imharness.statistics.bootstrap import LEVEL, Interval
from imharness.statistics.clusters import FEWEST
from imharness.statistics.wilcoxon import resolution
from imharness.statistics.win_rates import ALPHA


@dataclass(frozen=True, repr=False)
class HeadToHead(head_to_head.HeadToHead):
    """How the entry `first` compares with `second` by `measure`.

    `difference` and `effect` are positive if the first is better; see `imharness.statistics.head_to_head`.
    """

    first: str
    second: str
    measure: str
    unit: str
    """What was measured, such as "image"."""
    ahead: int
    """In how many conditions the mean of the first is better, of the `met` ones."""
    met: int
    """The number of conditions in which both entries have a number on the same unit."""
    source: str = "source"
    """What units come from, such as "photograph"."""
    doubts: tuple[str, ...] = ()
    """Why the numbers of one of the two are not to be trusted; see `Result.flags`."""
    stated: str | None = None
    """The label of the entry that the ranking says is better, "" if it says that this is undecided, None if it says
    nothing of the two; see `Ranking.stated`. `difference` then has the interval by which the ranking decides."""
    holds: str = "an interval that holds for all entries of the table at once"
    """For which comparisons the interval holds, in words."""

    @property
    def winner(self) -> str:
        """The label of the entry that is better, as the ranking or the interval says, or "" if that is undecided or a
        check failed."""
        if self.doubts:
            return ""
        if self.stated is not None:
            return self.stated
        return self.first if self.difference.low > 0 else self.second if self.difference.high < 0 else ""

    @property
    def undecided(self) -> str:
        """Why nothing can be said of the two, or "" if something can."""
        difference = self.difference
        independent = difference.n if difference.clusters is None else difference.clusters
        if independent < FEWEST:
            what = self.unit if difference.clusters is None else self.source
            return f"{several(independent, what)}, but an interval needs at least {FEWEST}"
        return f"the two differ on no {self.unit}" if np.isnan(self.better) else ""

    def __repr__(self) -> str:
        head = f"{printed(self.first)} against {printed(self.second)} by {self.measure}"
        if self.doubts:
            return (
                f"{head}: no claim is made. {' '.join(self.doubts)} Advantage of the first {_shown(self.difference)}."
            )
        if self.undecided:
            return f"{head}: undecided: {self.undecided}. Advantage of the first {_shown(self.difference)}."
        sources = (
            f" of {several(self.difference.clusters, self.source)}" if self.difference.clusters is not None else ""
        )
        claim = f"{printed(self.winner)} is better" if self.winner else "neither is shown to be better"
        return (
            f"{head}: {claim}. Advantage of the first {_shown(self.difference)}, {self.holds}, "
            f"{several(self.difference.n, self.unit)}{sources}. {self._tested} Rank-biserial correlation "
            f"{self.effect:.2f}; ahead in {self.ahead} of {several(self.met, 'condition')}."
        )

    @property
    def _tested(self) -> str:
        """The result of Wilcoxon's test, and whether it contradicts the interval."""
        side, p = ("first", self.better) if self.better <= self.worse else ("second", self.worse)
        text = f"Wilcoxon's test that the {side} is better: p {p:.3g}, {self.corrected(p):.3g} for {self.tests} tests"
        better_side = (self.first if side == "first" else self.second) if self.corrected(p) < ALPHA else ""
        if better_side == self.winner:
            return f"{text}."
        if better_side and self.winner:
            return f"{text}, so it finds {printed(better_side)} better, unlike the interval."
        return f"{text}, so it {'separates' if better_side else 'does not separate'} them, unlike the interval."


def compare(a: Result | ResultRow, b: Result | ResultRow, *, on: str | None = None) -> HeadToHead:
    """Compare two entries by their difference, with an interval that holds among all entries, and by Wilcoxon's test.

    Each unit, such as an image, counts once, with its mean over the conditions under which both were measured. Units
    from one source, such as crops of a photograph, count as one. If the ranking is by the worst case, the worst attack
    on each unit counts for each entry, whether it knows the defense or not, as in the ranking. See
    `imharness.statistics.head_to_head`.

    Args:
        a, b: entries of one result or of two, as ``result["jpeg"]``; a result means its only object of your own, or
            else its first row.
        on: the name of a comparison, as ``result.comparisons`` lists them; by default the one of the main ranking.

    Raises a `UsageError` that names the argument, and `imharness.leaderboard.NotTestable` if the two share no unit.
    """
    on = None if on is None else text("on", on)
    sides = _side(a, "a", on), _side(b, "b", on)
    first, second = (side.label for side in sides)
    of_a, of_b = (side.comparison for side in sides)
    if of_a.id != of_b.id:
        raise UsageError(f"b: its comparison is {of_b.id}, but that of a is {of_a.id}; choose one with on=...")
    if of_a.better != of_b.better:
        raise UsageError("b: its measure has the opposite direction of that of a; compare results of one track.")
    joined, numbers = _joined(*sides)
    incomplete = any(side.label in side.comparison.incomplete for side in sides)
    gains, clusters, weights = _gains_of_first(joined, numbers, shared_only=incomplete)
    if np.isnan(gains).all():
        raise NotTestable(f"{first} and {second} share no unit that was measured under the same conditions")
    nearest = max(side.resolution() for side in sides)
    levels = [side.comparison.pairwise_alpha for side in sides if side.comparison.pairwise_alpha is not None]
    entries = max(len(side.comparison.entries) - len(side.comparison.incomplete) for side in sides)
    outcome = head_to_head.head_to_head(
        gains,
        clusters,
        weights,
        alpha=min(levels, default=1 - LEVEL),
        value_range=max(of_a.value_range, of_b.value_range),
        limit=limit_of(of_a),
        tests=max(entries * (entries - 1), 2),
        nearest=nearest,
    )
    result, other_result = _result_of(a), _result_of(b)
    rankings = result.rankings if result is other_result else ()
    ranking = next((ranking for ranking in rankings if ranking.comparison == of_a.id), None)
    difference, stated = _stated(ranking, outcome.difference, first, second)
    leads = _mean_leads(joined, numbers)
    return HeadToHead(
        difference,
        outcome.better,
        outcome.worse,
        outcome.tests,
        outcome.effect,
        first=first,
        second=second,
        measure=joined.measure,
        unit=joined.unit or "unit",
        ahead=sum(lead > nearest for lead in leads),
        met=len(leads),
        source=joined.cluster_unit or "source",
        doubts=tuple(doubt for of, label in ((a, first), (b, second)) for doubt in _doubts(of, label)),
        **stated,
    )


class _Side(NamedTuple):
    """One of the two entries: its label, a comparison that it takes part in, and that comparison's numbers.

    `numbers` are scores ``(entries, total)`` as `Comparison` describes them.
    """

    label: str
    comparison: Comparison
    numbers: npt.NDArray[np.floating]

    def resolution(self) -> float:
        """Return how near two scores of the entry are that may be equal; see `imharness.statistics.wilcoxon`."""
        row = self.comparison.entries.index(self.label)
        return float(resolution(self.numbers[[row]])[0])


def _side(of: Result | ResultRow, argument: str, on: str | None) -> _Side:
    comparison, numbers = _paired(of, argument, on)
    return _Side(_label(of, argument, comparison), comparison, numbers)


def _result_of(entry: Result | ResultRow) -> Result:
    return entry.result if isinstance(entry, ResultRow) else entry


def _gains_of_first(
    joined: Comparison, numbers: npt.NDArray[np.floating], *, shared_only: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.str_] | None, npt.NDArray[np.float64] | None]:
    """Return how much better the first of two entries is on each unit ``(units,)``, the units' clusters and weights.

    `shared_only`: leave out, under each condition, the units that only one of the two has.
    """
    where = places(joined)
    _, names, clusters = where
    if shared_only:
        numbers = np.where(np.isnan(numbers).any(axis=0), np.nan, numbers)
    leads = []
    for group in groups_of(joined, numbers, where):
        of_first, of_second = group.gains[:1], group.gains[1:]
        leads.append(group._replace(gains=of_first - of_second))
    return unit_gains(leads, len(names))[0], clusters, weights_of(joined, where)


def _mean_leads(joined: Comparison, numbers: npt.NDArray[np.floating]) -> list[float]:
    """Return the mean lead of the first of two entries under each condition in which they share a unit."""
    sign, means = 1 if joined.better == "higher" else -1, []
    for first, second in np.split(numbers, joined.starts()[1:-1], axis=1):  # one block (2, units) for each condition
        lead = sign * (first - second)
        shared = lead[np.isfinite(lead)]
        if len(shared):
            means.append(float(shared.mean()))
    return means


def _stated(
    ranking: Ranking | None, among_all: Interval, first: str, second: str
) -> tuple[Interval, dict[Literal["stated", "holds"], str]]:
    """Return the difference with the interval by which the ranking judges the two entries, and the ranking's verdict.

    The verdict is given as the fields `stated` and `holds` of `HeadToHead`; it is empty if the ranking says nothing of
    the two. The interval is then `among_all`, which holds for all pairs at once. The ranking judges an entry against no
    defense by the interval of its place. It judges a winner against each other entry without the other pairs, so that
    `among_all` may reach beyond 0; the end beyond 0 is then moved to 0.
    """
    verdict = ranking.stated(first, second) if ranking is not None else None
    if ranking is None or verdict is None:
        return among_all, {}
    defended = {second: first, first: second}.get(ranking.baseline, "")
    against = ranking.places[defended].against if defended in ranking.places else None
    if against is not None and against.low is not None and against.high is not None:
        low, high = (against.low, against.high) if defended == first else (-against.high, -against.low)
        holds = f"an interval that holds for all entries against {printed(ranking.baseline)} at once"
        return replace(among_all, low=low, high=high), {"stated": verdict, "holds": holds}
    low = max(among_all.low, 0.0) if verdict == first else among_all.low
    high = min(among_all.high, 0.0) if verdict == second else among_all.high
    holds = "of which the headline asks without the other pairs"
    return replace(among_all, low=low, high=high), {"stated": verdict, "holds": holds}


def _doubts(of: Result | ResultRow, label: str) -> list[str]:
    return [f"{label}: {line}." for line in _result_of(of).flags.get(label, ())]


def _paired(of: Result | ResultRow, argument: str, on: str | None) -> Paired:
    """Return the comparison `on` of a result, and its numbers.

    Without `on`, a result gives the comparison of its first ranking. An entry gives that of the ranking of the table
    that it was taken from, or else of the first ranking that has the entry.
    """
    result = _result_of(of)
    if not isinstance(result, Result):
        raise UsageError(f'{argument}: expected a result or an entry of one, as result["jpeg"], got {short(of)}.')
    comparisons = {comparison.id: (comparison, numbers) for comparison, numbers in result.paired}
    ranked = [ranking for ranking in result.rankings if ranking.comparison in comparisons]
    if isinstance(of, ResultRow):
        ranked = [ranking for ranking in ranked if of.label in ranking.places]
        ranked.sort(key=lambda ranking: ranking.table != of.table)
        having = [name for name, (comparison, _) in comparisons.items() if of.label in comparison.entries]
    else:
        having = []
    wanted = on or next((ranking.comparison for ranking in ranked), None) or next(iter([*having, *comparisons]), "")
    if wanted not in comparisons:
        raise UsageError(unknown_name(f"on: no comparison is called {short(wanted)}", wanted, comparisons))
    return comparisons[wanted]


def _label(of: Result | ResultRow, argument: str, comparison: Comparison) -> str:
    """Return the label of an entry; a result means its only object of the user's own, or else its first row."""
    if isinstance(of, ResultRow):
        label = of.label
    else:
        local_entries = [entry for entry in comparison.entries if entry.startswith(f"{LOCAL}/")]
        label = local_entries[0] if len(local_entries) == 1 else of.table().labels[0]
    if label not in comparison.entries:
        raise UsageError(f"{argument}: {label} takes no part in the comparison {comparison.id}.")
    return label


Facets = tuple[tuple[str, str], ...]
"""The facets of a condition as sorted pairs of name and value; conditions of two comparisons are equal by them."""


def _joined(*sides: _Side) -> Paired:
    """Return the entries of two comparisons as one comparison, with the conditions and units of both.

    Its numbers are ``(2, total)``, NaN where an entry lacks a unit.
    """
    conditions = dict.fromkeys(_facets(condition) for side in sides for condition in side.comparison.conditions)
    unit_sets, clusters, blocks = list[tuple[str, ...]](), list[tuple[str, ...]](), []
    for facets in conditions:
        scores = [_scores_under(facets, side) for side in sides]
        every_unit = np.concatenate([of_side.units for of_side in scores])
        every_cluster = np.concatenate([of_side.clusters for of_side in scores])
        names, first = np.unique(every_unit, return_index=True)
        block = np.full((len(sides), len(names)), np.nan)
        for row, of_side in zip(block, scores, strict=True):
            row[np.searchsorted(names, of_side.units)] = of_side.numbers
        unit_sets.append(tuple(names.tolist()))
        clusters.append(tuple(every_cluster[first].tolist()))
        blocks.append(block)
    comparison = sides[0].comparison
    joined = comparison.model_copy(
        update={
            "entries": tuple(side.label for side in sides),
            "incomplete": (),
            "unit_sets": tuple(unit_sets),
            "conditions": tuple(Condition(facets=dict(facets), units=i) for i, facets in enumerate(conditions)),
            "clusters": tuple(clusters) if comparison.clusters else (),
        }
    )
    return joined, np.concatenate(blocks, axis=1)


def _facets(condition: Condition) -> Facets:
    return tuple(sorted(condition.facets.items()))


class _Scores(NamedTuple):
    """The scores of an entry under one condition, with the names of their units and of the units' clusters ``(u,)``."""

    units: npt.NDArray[np.str_]
    clusters: npt.NDArray[np.str_]
    numbers: npt.NDArray[np.floating]


def _scores_under(facets: Facets, side: _Side) -> _Scores:
    """Return the scores of an entry under the condition with these facets; empty if it was not measured under it."""
    comparison = side.comparison
    positions = [i for i, condition in enumerate(comparison.conditions) if _facets(condition) == facets]
    if not positions:
        return _Scores(np.array([], dtype=str), np.array([], dtype=str), np.zeros(0))
    position = positions[0]
    unit_set = comparison.conditions[position].units
    units = np.array(comparison.unit_sets[unit_set])
    clusters = np.array(comparison.clusters[unit_set]) if comparison.clusters else units
    start = comparison.starts()[position]
    numbers = side.numbers[comparison.entries.index(side.label), start : start + len(units)]
    return _Scores(units, clusters, numbers)


def _shown(interval: Interval) -> str:
    return f"{interval.value:.4g}" + ("" if np.isnan(interval.low) else f" [{interval.low:.4g}, {interval.high:.4g}]")
