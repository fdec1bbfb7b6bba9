"""The scores behind a comparison, and what is computed from them once and shown in several places."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from imharness.ranking.comparisons import unit_means
from imharness.results.boards import Board
from imharness.results.comparisons import Comparison
from imharness.results.identity import digest
from imharness.results.told import groups_of, places, told_of, unit_gains
from imharness.statistics.clusters import coded
from imharness.statistics.differences import Differences


class Scores:
    """A comparison of a board with its scores.

    `vectors` are ``(entries, total)``: the scores of each entry, condition after condition, NaN where there is none; of
    float32, or of float64 where that is too coarse. `source` is a digest of both.
    """

    def __init__(self, board: Board, comparison: Comparison, vectors: npt.NDArray[np.floating]) -> None:
        self.comparison, self.vectors = comparison, vectors
        self.source = digest([board.numbers.sha256 if board.numbers else "", comparison.model_dump(mode="json")])

    @cached_property
    def told(self) -> Differences:
        """All entries against each other."""
        return told_of(self.comparison, self.vectors)

    @cached_property
    def order(self) -> list[int]:
        """The entries, the best mean first, those that are incomplete last."""
        own, where = self.comparison, places(self.comparison)
        gains = unit_gains(groups_of(own, self.vectors, where), len(where[1]))
        known = ~np.isnan(gains)
        size = np.maximum(known.sum(axis=1), 1)
        mean = np.where(known.any(axis=1), np.where(known, gains, 0.0).sum(axis=1) / size, -np.inf)
        return sorted(range(len(mean)), key=lambda i: (own.entries[i] in own.incomplete, -mean[i], own.entries[i]))

    @cached_property
    def means(self) -> npt.NDArray[np.float64]:
        """Mean over the conditions for each unit, ``(entries, units)``."""
        return unit_means(self.comparison, self.vectors)

    @cached_property
    def independent(self) -> npt.NDArray[np.float64]:
        """The mean of each cluster, which a test counts once, ``(entries, clusters)``, NaN where an entry has no unit.

        Where the units are independent, they are `means` themselves.
        """
        return self.by_cluster(self.means)

    @property
    def independent_unit(self) -> str:
        """The name of what tests count once, such as "photograph", or "image" where images are independent."""
        own = self.comparison
        return (own.cluster_unit or "source") if own.clusters else own.unit

    def by_cluster(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the means of rows ``(k, units)`` over the units of each cluster, ``(k, clusters)``, NaN left out."""
        _, _, clusters = places(self.comparison)
        if clusters is None:
            return rows
        codes, count = coded(clusters)
        known = ~np.isnan(rows)
        sums, sizes = np.zeros((len(rows), count)), np.zeros((len(rows), count))
        for i, row in enumerate(rows):
            sums[i] = np.bincount(codes[known[i]], row[known[i]], count)
            sizes[i] = np.bincount(codes[known[i]], minlength=count)
        return np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=sizes > 0)


def scores_of(board: Board, numbers: Mapping[str, npt.NDArray[np.floating]]) -> list[Scores]:
    """Return the comparisons of a board whose scores are in the store."""
    return [Scores(board, c, numbers[c.id]) for c in board.comparisons if c.id in numbers]
