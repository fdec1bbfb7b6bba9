"""The scores behind a comparison, and numbers that are computed from them for several pages.

These are the mean of each entry under the worst attack, in all settings or in some, and the means in every condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from imharness.documents.comparisons import Comparison
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.pairwise import groups_of, pairwise_intervals, places, unit_gains
from imharness.documents.rankings import Ranking
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.ranking.tables import value_of
from imharness.results.identity import digest
from imharness.statistics.bootstrap import mean_intervals
from imharness.statistics.differences import Differences


class Scores:
    """A comparison of a leaderboard with its scores.

    `vectors` ``(entries, total)``: the scores of each entry, condition after condition, NaN where there is none; in
    float32, or in float64 where float32 is too coarse. `source`: a digest of the comparison and its scores.
    """

    def __init__(self, leaderboard: Leaderboard, comparison: Comparison, vectors: npt.NDArray[np.floating]) -> None:
        self.comparison, self.vectors = comparison, vectors
        self.source = digest(
            [leaderboard.numbers.sha256 if leaderboard.numbers else "", comparison.model_dump(mode="json")]
        )

    @cached_property
    def differences(self) -> Differences:
        """The differences of all pairs of entries, with simultaneous intervals."""
        return pairwise_intervals(self.comparison, self.vectors)

    @cached_property
    def order(self) -> list[int]:
        """The positions of the entries: the best mean over units first, those that are incomplete last."""
        comparison, where = self.comparison, places(self.comparison)
        gains = unit_gains(groups_of(comparison, self.vectors, where), len(where[1]))
        mask = ~np.isnan(gains)
        size = np.maximum(mask.sum(axis=1), 1)
        mean = np.where(mask.any(axis=1), np.where(mask, gains, 0.0).sum(axis=1) / size, -np.inf)
        return sorted(
            range(len(mean)),
            key=lambda i: (comparison.entries[i] in comparison.incomplete, -mean[i], comparison.entries[i]),
        )


def scores_of(leaderboard: Leaderboard, numbers: Mapping[str, npt.NDArray[np.floating]]) -> list[Scores]:
    """Return the comparisons of a leaderboard whose scores are in the store."""
    return [Scores(leaderboard, c, numbers[c.id]) for c in leaderboard.comparisons if c.id in numbers]


Floats = npt.NDArray[np.float64]


def worst_case(
    comparison: Comparison, vectors: npt.NDArray[np.floating], ranking: Ranking, conditions: Sequence[int]
) -> Floats:
    """Return the mean over units of each entry's score under the worst attack, ``(entries,)``, NaN where it has none.

    For each unit, the worst score over the facets ``ranking.over`` is taken, then the mean over the other facets.
    `vectors`: ``(entries, total)``. `conditions`: positions of the settings that count.
    """
    sets, names, _ = places(comparison)
    starts = comparison.starts()
    sign = 1 if comparison.better == "higher" else -1
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for c in conditions:
        facets = comparison.conditions[c].facets.items()
        groups.setdefault(tuple((k, v) for k, v in facets if k not in ranking.over), []).append(c)
    total, count = np.zeros((2, len(comparison.entries), len(names)))
    for group in groups.values():
        worst = np.full(total.shape, np.nan)
        for c in group:
            block = sign * vectors[:, starts[c] : starts[c + 1]].astype(np.float64)
            columns = sets[comparison.conditions[c].units]
            worst[:, columns] = np.fmin(worst[:, columns], np.where(np.isfinite(block), block, np.nan))
        mask = ~np.isnan(worst)
        total += np.where(mask, worst, 0.0)
        count += mask
    with np.errstate(invalid="ignore"):
        by_unit = total / count
    return np.asarray(sign * _mean(by_unit))


def setting_means(comparison: Comparison, vectors: npt.NDArray[np.floating]) -> Floats:
    """Return the mean over units in each setting, ``(entries, conditions)``, NaN where an entry has none.

    `vectors`: ``(entries, total)``.
    """
    starts = comparison.starts()
    means = [_mean(vectors[:, a:b].astype(np.float64)) for a, b in pairwise(starts)]
    return np.stack(means, axis=1) if means else np.zeros((len(comparison.entries), 0))


def _mean(rows: Floats) -> Floats:
    mask = np.isfinite(rows)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(mask, rows, 0.0).sum(axis=1) / mask.sum(axis=1))


CONDITIONS = "conditions-"
"""Prefix of the ids of these tables."""


def with_conditions(leaderboard: Leaderboard, scores: Sequence[Scores]) -> Leaderboard:
    """Return the leaderboard with further tables that have a row for each entry and condition.

    There is a table for each kind of entry and each set of facets.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Scores]] = {}
    for score_set in scores:
        if score_set.comparison.conditions:
            groups.setdefault(
                (score_set.comparison.entry, tuple(score_set.comparison.conditions[0].facets)), []
            ).append(score_set)
    other_tables = [table for table in leaderboard.tables if not table.id.startswith(CONDITIONS)]
    kinds = [entry for entry, _ in groups]
    earlier = [kinds[:i].count(entry) for i, entry in enumerate(kinds)]
    condition_tables = [_table(*key, count, group) for count, (key, group) in zip(earlier, groups.items(), strict=True)]
    return leaderboard.model_copy(update={"tables": (*other_tables, *condition_tables)})


def _table(entry: str, facets: tuple[str, ...], earlier: int, group: Sequence[Scores]) -> Table:
    """Return the table of a kind of entry; `earlier`: how many tables of this kind, with other facets, precede it."""
    columns: dict[str, ColumnSpec] = {}
    rows: dict[tuple[str, ...], dict[str, Value]] = {}  # by the entry's label, followed by the values of `facets`
    families: dict[str, str] = {}
    for scores in group:
        comparison = scores.comparison
        columns[comparison.measure] = ColumnSpec(
            key=comparison.measure,
            label=comparison.measure,
            description=comparison.description,
            better=comparison.better,
            decimals=comparison.decimals,
            unit=comparison.unit,
            cluster_unit=comparison.cluster_unit,
        )
        families |= comparison.families
        starts = comparison.starts()
        for i, condition in enumerate(comparison.conditions):
            block = scores.vectors[:, starts[i] : starts[i + 1]].astype(np.float64)
            clusters = comparison.clusters[condition.units] if comparison.clusters else None
            for label, interval in zip(comparison.entries, mean_intervals(block, clusters), strict=True):
                if interval is not None:
                    rows.setdefault((label, *condition.facets.values()), {})[comparison.measure] = value_of(interval)
    varying_facets = [facet for i, facet in enumerate(facets) if len({key[i + 1] for key in rows}) > 1]
    table_rows = [
        Row(
            label=key[0],
            values=values,
            facets={
                entry: key[0],
                **({"family": families[key[0]]} if key[0] in families else {}),
                **{facet: key[facets.index(facet) + 1] for facet in varying_facets},
            },
        )
        for key, values in sorted(rows.items())
    ]
    kind = "-".join(entry.split())
    return Table(
        id=f"{CONDITIONS}{kind}" + (f"-{earlier + 1}" if earlier else ""),
        title=f"Every condition, by {entry}" + (f", by {', '.join(facets)}" if earlier else ""),
        caption="One row for each entry in each condition: the mean over units, with a bootstrap interval that "
        "resamples the units, or the sources that they come from.",
        entry=entry,
        columns=tuple(columns.values()),
        rows=tuple(table_rows),
    )
