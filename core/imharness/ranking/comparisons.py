"""Long rows of per-unit scores -> what is compared pairwise: win rates, marks of a ranking, rows by condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from imharness.ranking.tables import value_of, win_table
from imharness.results.records import ColumnSpec, Comparison, Condition, Row, Table, Value
from imharness_statistics import NotTestable
from imharness_statistics.bootstrap import mean_intervals
from imharness_statistics.head_to_head import HeadToHead, head_to_head, pooled
from imharness_statistics.wilcoxon import adjust, wilcoxon_greater
from imharness_statistics.win_rates import ALPHA, WinRates, win_rates

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PairedScores:
    """Scores of entries on the same units, condition by condition; what a track hands over for pairwise tests.

    `values`: one float32 array ``(entries, units)`` per condition, NaN where there is no number.
    """

    id: str
    title: str
    about: str
    """What winning means: "lower D"."""
    entry: str
    measure: str
    description: str
    better: Literal["higher", "lower"]
    entries: tuple[str, ...]
    conditions: tuple[Mapping[str, str], ...]
    units: tuple[tuple[str, ...], ...]
    values: tuple[Floats, ...]
    decimals: int = 3
    unit: str = "image"
    families: Mapping[str, str] = field(default_factory=dict)
    table: str = ""
    column: str = ""
    rates: WinRates = field(init=False, compare=False)

    def __post_init__(self) -> None:
        wide = [block.astype(np.float64) for block in self.values]
        object.__setattr__(self, "rates", win_rates(wide, higher_wins=self.better == "higher"))

    def wins(self) -> Table:
        """Return the win-rate matrix."""
        return win_table(self.id, self.title, self.entry, self.entries, self.rates, self.about)

    def stored(self) -> tuple[Comparison, Floats]:
        """Return the comparison as data, and its numbers ``(entries, total)``."""
        sets = {units: place for place, units in enumerate(dict.fromkeys(self.units))}
        comparison = Comparison(
            id=self.id, title=self.title, entry=self.entry, measure=self.measure, description=self.description,
            better=self.better, decimals=self.decimals, unit=self.unit, entries=self.entries,
            families={label: self.families[label] for label in self.entries if label in self.families},
            conditions=tuple(
                Condition(facets=facets, units=sets[units])
                for facets, units in zip(self.conditions, self.units, strict=True)
            ),
            unit_sets=tuple(sets), tests=self.rates.comparisons, alpha=ALPHA, table=self.table, column=self.column,
        )  # fmt: skip
        return comparison, np.concatenate([*self.values, np.zeros((len(self.entries), 0), np.float32)], axis=1)


def compare(
    comparison: Comparison,
    numbers: Floats,
    first: str,
    second: str,
    conditions: Sequence[int] | None = None,
) -> HeadToHead:
    """Return two entries of a stored comparison head to head, over all conditions or those at some positions."""
    advantages, units, _ = _advantages(comparison, numbers, first, second, conditions)
    return head_to_head(advantages, units, tests=comparison.tests, alpha=comparison.alpha)


def _advantages(
    comparison: Comparison, numbers: Floats, first: str, second: str, conditions: Sequence[int] | None
) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int64]], int]:
    sets, n = _places(comparison)
    starts, sign = comparison.starts(), 1 if comparison.better == "higher" else -1
    a, b = (numbers[comparison.entries.index(label)].astype(np.float64) for label in (first, second))
    chosen = range(len(comparison.conditions)) if conditions is None else conditions
    found = [sign * (a[starts[i] : starts[i + 1]] - b[starts[i] : starts[i + 1]]) for i in chosen]
    return found, [sets[comparison.conditions[i].units] for i in chosen], n


def _places(comparison: Comparison) -> tuple[list[npt.NDArray[np.int64]], int]:
    """Return, for each unit set, the places of its units among all units sorted by name, and how many there are."""
    names = sorted({unit for units in comparison.unit_sets for unit in units})
    place = {name: i for i, name in enumerate(names)}
    return [np.array([place[name] for name in units], dtype=np.int64) for units in comparison.unit_sets], len(names)


def not_worse(comparison: Comparison, numbers: Floats, best: str) -> tuple[str, ...]:
    """Return the entries that the best one does not beat: Wilcoxon over units, Bonferroni over its rivals."""
    rivals = [label for label in comparison.entries if label != best]
    kept = []
    for label in rivals:
        advantages, units, n = _advantages(comparison, numbers, best, label, None)
        d = pooled(advantages, units, n)
        try:
            p = float(wilcoxon_greater(d[None])[0])
        except NotTestable:
            continue
        if not p * len(rivals) < comparison.alpha:
            kept.append(label)
    return tuple(kept)


def by_condition(scores: Sequence[PairedScores]) -> list[Table]:
    """Return one table per kind of entry with a row per (entry, condition) and a column per measure."""
    groups: dict[tuple[str, tuple[str, ...]], list[PairedScores]] = {}
    for paired in scores:
        if paired.conditions:
            groups.setdefault((paired.entry, tuple(paired.conditions[0])), []).append(paired)
    return [_conditions_table(entry, facets, group) for (entry, facets), group in groups.items()]


def _conditions_table(entry: str, facets: tuple[str, ...], group: Sequence[PairedScores]) -> Table:
    columns: dict[str, ColumnSpec] = {}
    rows: dict[tuple[str, ...], dict[str, Value]] = {}
    families: dict[str, str] = {}
    for paired in group:
        columns[paired.measure] = ColumnSpec(
            key=paired.measure, label=paired.measure, description=paired.description, better=paired.better,
            decimals=paired.decimals,
        )  # fmt: skip
        families |= paired.families
        for condition, block in zip(paired.conditions, paired.values, strict=True):
            for label, found in zip(paired.entries, mean_intervals(block.astype(np.float64)), strict=True):
                if found is not None:
                    rows.setdefault((label, *condition.values()), {})[paired.measure] = value_of(found)
    shown = [facet for i, facet in enumerate(facets) if len({key[i + 1] for key in rows}) > 1]
    made = [
        Row(
            label=key[0],
            values=values,
            facets={
                entry: key[0],
                **({"family": families[key[0]]} if key[0] in families else {}),
                **{facet: key[facets.index(facet) + 1] for facet in shown},
            },
        )
        for key, values in sorted(rows.items())
    ]
    return Table(
        id=f"conditions-{'-'.join(entry.split())}",
        title=f"Every condition, by {entry}",
        caption="One row for each entry in each condition: the mean over units, with the interval of a bootstrap over "
        "them.",
        entry=entry,
        columns=tuple(columns.values()),
        rows=tuple(made),
    )


@dataclass(frozen=True)
class Pairwise:
    """All entries of a comparison against each other, every unit counted once with its mean over the conditions.

    `means`: ``(entries,)``; `p`: ``(entries, entries)``, one-sided, that the row is better than the column, not
    corrected, NaN where not testable; `order`: entries, the best mean first.
    """

    means: npt.NDArray[np.float64]
    p: npt.NDArray[np.float64]
    order: list[int]

    def beats(self, alpha: float) -> npt.NDArray[np.bool_]:
        """Return where the row is significantly better, Bonferroni-corrected over all pairs that can be tested."""
        return np.nan_to_num(adjust(self.p), nan=1.0) < alpha


def pairwise(comparison: Comparison, numbers: Floats) -> Pairwise:
    """Test every entry of a stored comparison against every other one."""
    size, starts = len(comparison.entries), comparison.starts()
    sets, n = _places(comparison)
    sign = 1 if comparison.better == "higher" else -1
    own = np.array([_mean_by_unit(numbers[i : i + 1], comparison, starts, sets, n)[0] for i in range(size)])
    known = ~np.isnan(own)
    means = np.divide(np.where(known, own, 0).sum(axis=1), known.sum(axis=1), out=np.full(size, np.nan),
                      where=known.any(axis=1))  # fmt: skip
    p = np.full((size, size), np.nan)
    for i in range(size):
        gains = sign * (numbers[i].astype(np.float64) - numbers.astype(np.float64))
        pooled_gains = _mean_by_unit(gains, comparison, starts, sets, n).astype(np.float32).astype(np.float64)
        for j in range(size):
            d = pooled_gains[j][~np.isnan(pooled_gains[j])]
            if i != j and len(d):
                p[i, j] = wilcoxon_greater(d[None])[0]
    order = sorted(range(size), key=lambda i: (np.isnan(means[i]), -sign * means[i], comparison.entries[i]))
    return Pairwise(means, p, order)


def _mean_by_unit(
    rows: npt.NDArray[np.floating],
    comparison: Comparison,
    starts: Sequence[int],
    sets: Sequence[npt.NDArray[np.int64]],
    n: int,
) -> npt.NDArray[np.float64]:
    """Return ``(k, n)``: the mean of each unit over the conditions that have a number, NaN where none has."""
    total, count = np.zeros((len(rows), n)), np.zeros((len(rows), n))
    for i, condition in enumerate(comparison.conditions):
        block = rows[:, starts[i] : starts[i + 1]]
        known = ~np.isnan(block)
        total[:, sets[condition.units]] += np.where(known, block, 0)
        count[:, sets[condition.units]] += known
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def unit_means(comparison: Comparison, numbers: Floats) -> npt.NDArray[np.float64]:
    """Return ``(entries, units)``: each unit's mean over the conditions, NaN where an entry has no number."""
    sets, n = _places(comparison)
    return _mean_by_unit(numbers, comparison, comparison.starts(), sets, n)
