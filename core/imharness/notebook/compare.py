"""`compare`: compares two entries on the units that both were measured on. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imharness.errors import UsageError, unknown_name
from imharness.exports.sheets import printed
from imharness.notebook.arguments import shown, text
from imharness.notebook.result import Paired, Result, ResultRow
from imharness.results.comparisons import Comparison, Condition
from imharness.results.identity import LOCAL
from imharness.results.tables import several
from imharness.results.told import groups_of, places, unit_gains, weights_of
from imharness.statistics import NotTestable, head_to_head
from imharness.statistics.bootstrap import LEVEL, Interval
from imharness.statistics.clusters import FEWEST
from imharness.statistics.win_rates import ALPHA


@dataclass(frozen=True, repr=False)
class HeadToHead(head_to_head.HeadToHead):
    """How the entry `first` compares with `second` by `measure`.

    `difference` and `effect` are positive if the first is better; see `imharness.statistics.head_to_head`. The mean of
    the first is better in `ahead` of the `met` conditions that both have.
    """

    first: str
    second: str
    measure: str
    unit: str
    ahead: int
    met: int
    source: str = "source"
    """What units come from, such as "photograph"."""
    doubts: tuple[str, ...] = ()
    """Why the numbers of one of the two are not to be trusted; see `Result.flags`."""

    @property
    def winner(self) -> str:
        """The label of the entry that is better by the interval, or "" if the data cannot tell or a check failed."""
        if self.doubts:
            return ""
        return self.first if self.difference.low > 0 else self.second if self.difference.high < 0 else ""

    @property
    def untold(self) -> str:
        """Why the data cannot tell anything, or "" if they can."""
        found = self.difference
        independent = found.n if found.clusters is None else found.clusters
        if independent < FEWEST:
            what = self.unit if found.clusters is None else self.source
            return f"{several(independent, what)}, but an interval needs at least {FEWEST}"
        return f"the two differ on no {self.unit}" if np.isnan(self.better) else ""

    def __repr__(self) -> str:
        head = f"{printed(self.first)} against {printed(self.second)} by {self.measure}"
        if self.doubts:
            return (
                f"{head}: no claim is made. {' '.join(self.doubts)} Advantage of the first {_shown(self.difference)}."
            )
        if self.untold:
            return f"{head}: cannot tell: {self.untold}. Advantage of the first {_shown(self.difference)}."
        sources = (
            f" of {several(self.difference.clusters, self.source)}" if self.difference.clusters is not None else ""
        )
        claim = f"{printed(self.winner)} is better" if self.winner else "this data cannot tell which is better"
        return (
            f"{head}: {claim}. Advantage of the first {_shown(self.difference)}, an interval that holds for all "
            f"entries of the table at once, {several(self.difference.n, self.unit)}{sources}. {self._tested} Rank-"
            f"biserial correlation {self.effect:.2f}; ahead in {self.ahead} of {several(self.met, 'condition')}."
        )

    @property
    def _tested(self) -> str:
        """The result of Wilcoxon's test, and whether it contradicts the interval."""
        side, p = ("first", self.better) if self.better <= self.worse else ("second", self.worse)
        text = f"Wilcoxon's test that the {side} is better: p {p:.3g}, {self.corrected(p):.3g} for {self.tests} tests"
        found = (self.first if side == "first" else self.second) if self.corrected(p) < ALPHA else ""
        if found == self.winner:
            return f"{text}."
        if found and self.winner:
            return f"{text}, so it finds {printed(found)} better, unlike the interval."
        return f"{text}, so {'it tells' if found else 'it does not tell'} them apart, unlike the interval."


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

    Raises a `UsageError` that names the argument, and `imharness.stats.NotTestable` if the two share no unit.
    """
    on = None if on is None else text("on", on)
    one, other = _paired(a, "a", on), _paired(b, "b", on)
    first, second = _label(a, "a", one[0]), _label(b, "b", other[0])
    if one[0].id != other[0].id:
        raise UsageError(f"b: its comparison is {other[0].id}, but that of a is {one[0].id}; choose one with on=...")
    if one[0].better != other[0].better:
        raise UsageError("b: its measure has the opposite direction of that of a; compare results of one track.")
    joined, numbers = _joined((one, first), (other, second))
    where = places(joined)
    alike = first in one[0].incomplete or second in other[0].incomplete
    groups = groups_of(joined, np.where(np.isnan(numbers).any(axis=0), np.nan, numbers) if alike else numbers, where)
    n = len(where[1])
    gains = unit_gains([group._replace(gains=group.gains[:1] - group.gains[1:]) for group in groups], n)[0]
    if np.isnan(gains).all():
        raise NotTestable(f"{first} and {second} share no unit that was measured under the same conditions")
    tails = [own.tail for own, _ in (one, other) if own.tail is not None]
    entries = max(len(own.entries) - len(own.incomplete) for own, _ in (one, other))
    found = head_to_head.head_to_head(
        gains,
        where[2],
        weights_of(joined, where),
        tail=min(tails, default=1 - LEVEL),
        reach=max(one[0].reach, other[0].reach),
        tests=max(entries * (entries - 1), 2),
    )
    sign, starts = 1 if joined.better == "higher" else -1, joined.starts()
    means = [sign * (block[0] - block[1]) for block in np.split(numbers, starts[1:-1], axis=1)]
    means = [known.mean() for own in means if len(known := own[np.isfinite(own)])]
    return HeadToHead(
        found.difference,
        found.better,
        found.worse,
        found.tests,
        found.effect,
        first=first,
        second=second,
        measure=joined.measure,
        unit=joined.unit or "unit",
        ahead=sum(mean > 0 for mean in means),
        met=len(means),
        source=joined.cluster_unit or "source",
        doubts=tuple(doubt for of, label in ((a, first), (b, second)) for doubt in _doubts(of, label)),
    )


def _doubts(of: Result | ResultRow, label: str) -> list[str]:
    result = of.result if isinstance(of, ResultRow) else of
    return [f"{label}: {line}." for line in result.flags.get(label, ())]


def _paired(of: Result | ResultRow, argument: str, on: str | None) -> Paired:
    """Return the comparison of a result that was asked for."""
    result = of.result if isinstance(of, ResultRow) else of
    if not isinstance(result, Result):
        raise UsageError(f'{argument}: expected a result or an entry of one, as result["jpeg"], got {shown(of)}.')
    known = {comparison.id: (comparison, numbers) for comparison, numbers in result.paired}
    wanted = on or next((r.comparison for r in result.rankings if r.comparison in known), None) or next(iter(known), "")
    if wanted not in known:
        raise UsageError(unknown_name(f"on: no comparison is called {shown(wanted)}", wanted, known))
    return known[wanted]


def _label(of: Result | ResultRow, argument: str, comparison: Comparison) -> str:
    if isinstance(of, ResultRow):
        label = of.label
    else:
        own = [entry for entry in comparison.entries if entry.startswith(f"{LOCAL}/")]
        label = own[0] if len(own) == 1 else of.table().labels[0]
    if label not in comparison.entries:
        raise UsageError(f"{argument}: {label} takes no part in the comparison {comparison.id}.")
    return label


def _joined(*sides: tuple[Paired, str]) -> Paired:
    """Return two entries of two comparisons as one comparison, with the conditions and units of both."""
    keys = dict.fromkeys(_key(condition) for (own, _), _ in sides for condition in own.conditions)
    units, clusters, rows = list[tuple[str, ...]](), list[tuple[str, ...]](), []
    for key in keys:
        parts = [_part(paired, label, key) for paired, label in sides]
        names, first = np.unique(np.concatenate([own for own, _, _ in parts]), return_index=True)
        block = np.full((len(sides), len(names)), np.nan)
        for row, (own, _, numbers) in zip(block, parts, strict=True):
            row[np.searchsorted(names, own)] = numbers
        units.append(tuple(names.tolist()))
        clusters.append(tuple(np.concatenate([own for _, own, _ in parts])[first].tolist()))
        rows.append(block)
    comparison = sides[0][0][0]
    joined = comparison.model_copy(
        update={
            "entries": tuple(label for _, label in sides),
            "incomplete": (),
            "unit_sets": tuple(units),
            "conditions": tuple(Condition(facets=dict(key), units=i) for i, key in enumerate(keys)),
            "clusters": tuple(clusters) if comparison.clusters else (),
        }
    )
    return joined, np.concatenate(rows, axis=1)


def _key(condition: Condition) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(condition.facets.items()))


def _part(
    paired: Paired, label: str, key: tuple[tuple[str, str], ...]
) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.str_], npt.NDArray[np.floating]]:
    """Return the units of an entry under a condition, their clusters, and its numbers; all empty without it."""
    own, numbers = paired
    c = next((c for c, condition in enumerate(own.conditions) if _key(condition) == key), None)
    if c is None:
        return np.array([], dtype=str), np.array([], dtype=str), np.zeros(0)
    chosen = own.conditions[c].units
    units = np.array(own.unit_sets[chosen])
    start = own.starts()[c]
    row = numbers[own.entries.index(label), start : start + len(units)]
    return units, np.array(own.clusters[chosen]) if own.clusters else units, row


def _shown(interval: Interval) -> str:
    return f"{interval.value:.4g}" + ("" if np.isnan(interval.low) else f" [{interval.low:.4g}, {interval.high:.4g}]")
