"""`compare`: compares two entries on the units that both were measured on. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from imharness.errors import UsageError, unknown_name
from imharness.notebook.arguments import real, shown, text
from imharness.notebook.result import Paired, Result, ResultRow
from imharness.ranking.comparisons import places
from imharness.results.comparisons import Comparison
from imharness.results.identity import LOCAL
from imharness.results.tables import several
from imharness.statistics import NotTestable, head_to_head
from imharness.statistics.bootstrap import Interval
from imharness.statistics.clusters import FEWEST

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class HeadToHead(head_to_head.HeadToHead):
    """How the entry `first` compares with `second` by `measure`, at the significance level `alpha`.

    `difference` and `effect` are positive if the first is better; see `imharness.statistics.head_to_head`.
    """

    first: str
    second: str
    measure: str
    unit: str
    alpha: float
    source: str = "source"
    """What units come from, such as "photograph"."""

    @property
    def winner(self) -> str:
        """The label of the entry that is significantly better, or "" if the data cannot tell."""
        return self.first if self.better < self.alpha else self.second if self.worse < self.alpha else ""

    @property
    def untold(self) -> str:
        """Why the data cannot be tested, or "" if they can."""
        found = self.difference
        independent = found.n if found.clusters is None else found.clusters
        if independent < FEWEST and not self.winner:
            what = self.unit if found.clusters is None else self.source
            return f"{several(independent, what)}, but a test needs at least {FEWEST}"
        return f"the two differ on no {self.unit}" if np.isnan(self.better) else ""

    def __repr__(self) -> str:
        head = f"{self.first} against {self.second} by {self.measure}"
        if self.untold:
            return f"{head}: cannot tell: {self.untold}. Advantage of the first {_shown(self.difference)}."
        sources = (
            f" of {several(self.difference.clusters, self.source)}" if self.difference.clusters is not None else ""
        )
        claim = f"{self.winner} is better" if self.winner else "this data cannot tell which is better"
        return (
            f"{head}: {claim} (alpha {self.alpha:g}, "
            f"p {self.better:.3g} that the first is not better, {self.worse:.3g} that the second is not). "
            f"Advantage of the first {_shown(self.difference)}, rank-biserial correlation {_shown(self.effect)}, "
            f"{several(self.difference.n, self.unit)}{sources}; better in {self.wins} of {self.tested} conditions, "
            f"worse in {self.losses}."
        )


def compare(a: Result | ResultRow, b: Result | ResultRow, *, on: str | None = None, alpha: float = 0.05) -> HeadToHead:
    """Compare two entries by the paired Wilcoxon signed-rank test, one-sided both ways, with intervals.

    Each unit, such as an image, counts once, with its mean over the conditions under which both were measured. Units
    from one source, such as crops of a photograph, count as one. If the ranking is by the worst case, the worst attack
    on each unit counts for each entry, whether it knows the defense or not, as in the ranking. See
    `imharness.statistics.head_to_head`.

    Args:
        a, b: entries of one result or of two, as ``result["jpeg"]``; a result means its only object of your own, or
            else its first row.
        on: the name of a comparison, as ``result.comparisons`` lists them; by default the one of the main ranking.
        alpha: the significance level.

    Raises a `UsageError` that names the argument, and `imharness.stats.NotTestable` if the two share no unit.
    """
    alpha, on = real("alpha", alpha, "a number between 0 and 1"), None if on is None else text("on", on)
    if not 0 < alpha < 1:
        raise UsageError(f"alpha: expected a number between 0 and 1, got {alpha}.")
    one, other = _paired(a, "a", on), _paired(b, "b", on)
    first, second = _label(a, "a", one[0]), _label(b, "b", other[0])
    if one[0].id != other[0].id:
        raise UsageError(f"b: its comparison is {other[0].id}, but that of a is {one[0].id}; choose one with on=...")
    if one[0].better != other[0].better:
        raise UsageError("b: its measure has the opposite direction of that of a; compare results of one track.")
    mine, theirs = _scores(a, one, first), _scores(b, other, second)
    names, here, there = np.intersect1d(mine.units, theirs.units, return_indices=True)
    gains = [own[here] - theirs.values[key][there] for key, own in mine.values.items() if key in theirs.values]
    if not any(np.isfinite(gain).any() for gain in gains):
        raise NotTestable(f"{first} and {second} share no unit that was measured under the same conditions")
    sources = {**mine.sources, **theirs.sources}
    clusters = [sources.get(name, name) for name in names] if sources else None
    found = head_to_head.head_to_head(
        gains, [np.arange(len(names))] * len(gains), tests=1, alpha=alpha, clusters=clusters
    )
    facts: dict[str, Any] = {field.name: getattr(found, field.name) for field in fields(found)}
    return HeadToHead(
        **facts, first=first, second=second, measure=one[0].measure, unit=one[0].unit or "unit", alpha=alpha,
        source=one[0].cluster_unit or "source",
    )  # fmt: skip


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


@dataclass(frozen=True)
class _Scores:
    """The scores of one entry, higher is better: condition -> float64 ``(units,)``, NaN where there is none."""

    units: npt.NDArray[np.str_]
    values: Mapping[str, Floats]
    sources: Mapping[str, str]
    """Unit -> its cluster; empty if units are independent."""


def _scores(of: Result | ResultRow, paired: Paired, label: str) -> _Scores:
    """Return the scores of an entry; if a ranking uses them, the worst of each unit over the ranking's `over`."""
    comparison, numbers = paired
    rankings = (of.result if isinstance(of, ResultRow) else of).rankings
    over = next((ranking.over for ranking in rankings if ranking.comparison == comparison.id), ())
    sets, names, clusters = places(comparison)
    starts, row = comparison.starts(), numbers[comparison.entries.index(label)].astype(np.float64)
    sign, values = 1 if comparison.better == "higher" else -1, dict[str, Floats]()
    for i, condition in enumerate(comparison.conditions):
        key = ", ".join(f"{name}={value}" for name, value in sorted(condition.facets.items()) if name not in over)
        worst, at = values.setdefault(key, np.full(len(names), np.nan)), sets[condition.units]
        worst[at] = np.fmin(worst[at], sign * row[starts[i] : starts[i + 1]])
    sources = {} if clusters is None else dict(zip(names, map(str, clusters), strict=True))
    return _Scores(np.array(names), values, sources)


def _shown(interval: Interval) -> str:
    return f"{interval.value:.4g}" + ("" if np.isnan(interval.low) else f" [{interval.low:.4g}, {interval.high:.4g}]")
