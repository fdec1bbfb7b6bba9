"""Results of some defenses under some conditions, from which a number of a table is computed."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from imharness.leaderboard import Blocks, Lazy, Value, jackknife, mean_spearman, mean_value, missing, value_of
from imharness_iqa.tables.correlation import FEWEST, correlations, joined
from imharness_iqa.tables.naming import Some, apart

Sources = Mapping[str, tuple[str, str]]
"""Name of a unit -> the photograph that it is made of, and its data set, without the subset."""
SUMS = 64
"""How many sums over conditions, of all defenses and images, are kept."""


@dataclass(frozen=True)
class Part:
    """Results of some defenses under some conditions. A unit is an image.

    Attributes:
        blocks: the results of all defenses and conditions. They have the measure ``score``, and as facts of units
            ``mos``, NaN if nobody judged the image, and ``sign``: +1 where a higher score is better, else -1.
        rows: the positions of the defenses among the entries of the blocks.
        conditions: the positions of the conditions in the blocks.
        places: for each condition of the blocks, the position of each of its units among all units, which are sorted.
        photographs: for each of all units, the photograph that it is made of.
        datasets: for each of all units, its data set, without the fields that draw a subset.
    """

    blocks: Blocks
    rows: Sequence[int]
    conditions: Sequence[int]
    places: Sequence[np.ndarray]
    photographs: np.ndarray
    datasets: np.ndarray
    known: dict[Any, Any] = field(default_factory=dict, compare=False)
    """Intermediate results, by what they are of; every `Part` of the same blocks shares them."""

    @classmethod
    def whole(cls, blocks: Blocks, sources: Sources) -> "Part":
        """Return the part with all defenses and conditions."""
        different = apart(blocks.units)
        names = sorted({name for units in different for name in units})
        index = {name: i for i, name in enumerate(names)}
        indices = {id(units): np.array([index[name] for name in units], dtype=int) for units in different}
        places = [indices[id(units)] for units in blocks.units]
        photographs, datasets = (np.array([sources[name][i] for name in names], dtype=object) for i in (0, 1))
        return cls(blocks, range(len(blocks.entries)), range(len(blocks.conditions)), places, photographs, datasets)

    def of(self, *defenses: str) -> "Part":
        """Return the part of some defenses; those that have no results are left out."""
        return replace(self, rows=[row for row in self.rows if self.blocks.entries[row] in defenses])

    def where(self, **facets: str | Collection[str]) -> "Part":
        """Return the part under the conditions with these facets, or with one of several values."""
        wanted = {name: {value} if isinstance(value, str) else set(value) for name, value in facets.items()}
        conditions = self.blocks.conditions
        chosen = [c for c in self.conditions if all(conditions[c][name] in values for name, values in wanted.items())]
        return replace(self, conditions=chosen)

    def of_blocks(self, blocks: Blocks) -> "Part":
        """Return the same part of other blocks, which have the same entries, conditions and units."""
        return replace(self, blocks=blocks, known={})

    def on(self, photographs: Collection[str]) -> "Part":
        """Return the part of the images that were made of some photographs, with blocks of these images alone."""
        wanted = np.isin(self.photographs.astype(str), list(photographs))
        masks = [wanted[places] for places in self.places]
        old_blocks, some = self.blocks, Some()
        blocks = Blocks(
            old_blocks.entries,
            old_blocks.conditions,
            tuple(some(units, mask) for units, mask in zip(old_blocks.units, masks, strict=True)),
            {name: _columns(arrays, masks) for name, arrays in old_blocks.values.items()},
            {name: _columns(arrays, masks) for name, arrays in old_blocks.about.items()},
        )
        places = [some(places, mask) for places, mask in zip(self.places, masks, strict=True)]
        return replace(self, blocks=blocks, places=places, known={})

    def dataset(self, c: int) -> str:
        """Return the data set of a condition that has images, without the subset."""
        return str(self.datasets[self.places[c][0]])

    def values(self, facet: str) -> list[str]:
        """Return the values of a facet under which there are results, sorted."""
        return sorted({self.blocks.conditions[c][facet] for c, _ in self.lines()})

    def lines(self, measure: str = "score") -> list[tuple[int, int]]:
        """Return (condition, row) for every condition and defense that have a number of a measure."""
        had = self._had(measure)
        return [(self.conditions[i], self.rows[j]) for i, j in np.argwhere(had).tolist()]

    def _had(self, measure: str) -> np.ndarray:
        """Return bool ``(conditions, rows)``: whether a defense has any number of a measure under a condition."""
        if ("had", measure) not in self.known:
            blocks = self.blocks.values[measure]
            had = np.array([~np.isnan(block).all(axis=1) for block in blocks], dtype=bool)
            self.known["had", measure] = had.reshape(len(blocks), len(self.blocks.entries))
        return np.asarray(self.known["had", measure][np.ix_(list(self.conditions), list(self.rows))])

    def blocks_of(self, *measures: str) -> Blocks:
        """Return this part of some measures as blocks, without the entries and conditions that have no result."""
        had = self._had("score")
        rows = [row for row, some in zip(self.rows, had.any(axis=0), strict=True) if some]
        conditions = [c for c, some in zip(self.conditions, had.any(axis=1), strict=True) if some]
        score = self.blocks.values["score"]
        has_score = [~np.isnan(score[c][rows]).all(axis=0) for c in conditions]  # of each condition ``(units,)``
        chosen, some = list(zip(conditions, has_score, strict=True)), Some()

        def part(name: str) -> Lazy:
            arrays = self.blocks.values[name]
            return Lazy(len(chosen), lambda i: _some(arrays[chosen[i][0]], rows, chosen[i][1]))

        return Blocks(
            tuple(self.blocks.entries[row] for row in rows),
            tuple(self.blocks.conditions[c] for c in conditions),
            tuple(some(self.blocks.units[c], mask) for c, mask in chosen),
            {name: part(name) for name in measures},
            {"photograph": tuple(some(self.photographs, some(self.places[c], mask)) for c, mask in chosen)},
        )

    def by_image(self, measure: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of each image over conditions and defenses, where it is finite, and its photograph."""
        total, count = (array[list(self.rows)].sum(axis=0) for array in self._sums(measure))
        mask = count > 0
        return total[mask] / count[mask], self.photographs if mask.all() else self.photographs[mask]

    def _sums(self, measure: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum of each image over the conditions, and how many are finite ``(entries, images)``."""
        key = ("sums", measure, tuple(self.conditions))
        if key not in self.known:
            shape = (len(self.blocks.entries), len(self.photographs))
            total, count = np.zeros(shape), np.zeros(shape, dtype=np.int32)
            for c in self.conditions:
                numbers = self.blocks.values[measure][c]
                mask = np.isfinite(numbers)
                at = slice(None) if len(self.places[c]) == len(self.photographs) else self.places[c]
                total[:, at] += np.where(mask, numbers, 0)
                count[:, at] += mask
            older = [other for other in self.known if other[0] == "sums"]
            for other in older[: len(older) + 1 - SUMS]:
                del self.known[other]
            self.known[key] = total, count
        sums: tuple[np.ndarray, np.ndarray] = self.known[key]
        return sums

    def mean(self, measure: str) -> Value:
        """Return the mean of a measure: each image counts once, with its mean over conditions and defenses."""
        has_result = self._had("score").any() or self._had(measure).any()
        return mean_value(*self.by_image(measure)) if has_result else missing("no result")

    def correlation(self, method: str = "spearman", *, measure: str = "score", resampled: bool = False) -> Value:
        """Return the correlation of scores with opinion scores, mean over conditions and defenses.

        The sign of scores of which less is better is reversed. In each condition the images that have a score count;
        conditions with fewer than three of them, or with the same score for all, are left out. Each data set is
        resampled separately, by photograph; the intervals are joined as those of independent numbers. `resampled`: add
        an interval, which only rank correlation has.
        """
        values = self._resampled(measure) if resampled else self._correlated(method, measure)
        if values:
            return joined(values)
        if not self.lines(measure):
            return missing("no result")
        judged = any(np.isfinite(self.blocks.about["mos"][c]).any() for c, _ in self.lines(measure))
        return missing(
            f"in every condition all images have the same score, or fewer than {FEWEST} have one"
            if judged
            else "nobody judged these images"
        )

    def correlations_beside(self, label: str, other: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Return what each photograph adds to the mean rank correlation of a defense and of another one, ``(k,)`` each.

        Both correlations are over the conditions that the first defense has, and over the judged images that the other
        one has there. None if the first one lacks such an image, or if a correlation is not defined, with all
        photographs or with all but one, as where all scores are equal. See `imharness.leaderboard.jackknife`.
        """
        label_rows, other_rows = (
            [row for row in self.rows if self.blocks.entries[row] == name] for name in (label, other)
        )
        met = [c for c, _ in replace(self, rows=label_rows).lines()]
        both = [*label_rows, *other_rows]
        scores = [self._scores("score", c)[both] for c in met] if label_rows and other_rows else []
        judged = [np.isfinite(block[1]) for block in scores]
        if not scores or any(np.isnan(block[0][mask]).any() for block, mask in zip(scores, judged, strict=True)):
            return None
        units = np.unique(np.concatenate([self.places[c][mask] for c, mask in zip(met, judged, strict=True)]))

        def mean(chosen: np.ndarray) -> np.ndarray:
            """Return both mean correlations ``(2,)`` over some of the units."""
            remaining = np.zeros(len(self.photographs), dtype=bool)
            remaining[units[chosen]] = True
            coefficients = []
            for c, block, mask in zip(met, scores, judged, strict=True):
                at = mask & remaining[self.places[c]]
                mos = self.blocks.about["mos"][c][at].astype(float)
                coefficients.append(correlations(block[:, at], mos, "spearman"))
            return np.mean(coefficients, axis=0)

        estimates = jackknife(mean, self.photographs[units]) if len(units) else np.full((2, 1), np.nan)
        return None if np.isnan(estimates).any() else (estimates[0], estimates[1])

    def left(self, measure: str = "score") -> tuple[Value, Value]:
        """Return the number of conditions that `correlation` takes the mean of, and the mean number of their images."""
        counts = [self._judged(measure, c)[rows].sum(axis=1) for c, _, rows in self._defined("spearman", measure)]
        if not counts:
            return missing("no result"), missing("no result")
        each = np.concatenate(counts)
        return Value(value=float(len(each))), Value(value=float(each.mean()))

    def _defined(self, method: str, measure: str) -> Iterator[tuple[int, np.ndarray, list[int]]]:
        """Yield each condition with a correlation: its position, the correlations, and the rows of their defenses."""
        mos = self.blocks.about["mos"]
        for c in self.conditions:
            if (method, measure, c) not in self.known:
                coefficients = correlations(self._scores(measure, c), mos[c].astype(float), method)
                self.known[method, measure, c] = coefficients
            each = self.known[method, measure, c][list(self.rows)]
            defined = ~np.isnan(each)
            if defined.any():
                yield c, each[defined], [row for row, flag in zip(self.rows, defined, strict=True) if flag]

    def _judged(self, measure: str, c: int) -> np.ndarray:
        """Return bool ``(entries, units)``: which judged images have a score."""
        if ("judged", measure, c) not in self.known:
            finite = np.isfinite(self._scores(measure, c))
            self.known["judged", measure, c] = np.broadcast_to(True, finite.shape) if finite.all() else finite
        return np.asarray(self.known["judged", measure, c])

    def _scores(self, measure: str, c: int) -> np.ndarray:
        """Return scores of all defenses, higher is better ``(entries, units)``; NaN where nobody judged the image."""
        mos, sign = self.blocks.about["mos"][c], self.blocks.about["sign"][c]
        return np.asarray(np.where(np.isfinite(mos), sign * self.blocks.values[measure][c].astype(float), np.nan))

    def _correlated(self, method: str, measure: str) -> list[tuple[int, Value]]:
        """Return for each data set how many correlations there are, and their mean."""
        each = dict[str, list[np.ndarray]]()  # data set -> correlations of each condition
        seen = dict[str, np.ndarray]()  # data set -> mask of the units that take part
        for c, coefficients, rows in self._defined(method, measure):
            name = self.dataset(c)
            each.setdefault(name, []).append(coefficients)
            mask = seen.setdefault(name, np.zeros(len(self.photographs), dtype=bool))
            mask[self.places[c][self._judged(measure, c)[rows].any(axis=0)]] = True
        means = {name: np.concatenate(arrays) for name, arrays in each.items()}
        return [
            (len(array), Value(value=float(array.mean()), n=int(seen[name].sum()))) for name, array in means.items()
        ]

    def _resampled(self, measure: str) -> list[tuple[int, Value]]:
        """Return what `_correlated` does, for rank correlations, with intervals; equal scores are resampled once."""
        datasets: dict[str, list[tuple[int, np.ndarray]]] = {}  # data set -> (condition, scores of the defenses)
        mos, sign = self.blocks.about["mos"], self.blocks.about["sign"]
        for c, _, rows in self._defined("spearman", measure):
            signed = sign[c] * self.blocks.values[measure][c][rows]
            datasets.setdefault(self.dataset(c), []).append((c, np.where(np.isfinite(mos[c]), signed, np.nan)))
        results = []
        for of_dataset in datasets.values():
            # of each condition the units with a score, then the scores of all conditions over all of these units
            present = [self.places[c][np.isfinite(scores).any(axis=0)] for c, scores in of_dataset]
            units = np.unique(np.concatenate(present))
            blocks = [np.full((len(scores), len(units)), np.nan) for _, scores in of_dataset]
            labels = np.zeros(len(units))
            for block, (c, scores), places in zip(blocks, of_dataset, present, strict=True):
                mask, at = np.isin(self.places[c], places), np.searchsorted(units, places)
                block[:, at], labels[at] = scores[:, mask], mos[c][mask]
            all_scores = np.concatenate(blocks)  # (correlations, units)
            key = "resampled", hashlib.sha256(all_scores.tobytes() + units.tobytes()).digest()
            if key not in self.known:
                interval = mean_spearman(all_scores, labels, self.photographs[units])
                self.known[key] = len(all_scores), value_of(interval)
            results.append(self.known[key])
        return results


def _some(block: np.ndarray, rows: Sequence[int], columns: np.ndarray) -> np.ndarray:
    """Return some rows and, by a mask, columns of a block; the block itself if that is all of it."""
    chosen = block if list(rows) == list(range(len(block))) else block[rows]
    return chosen if columns.all() else chosen[:, columns]


def _columns(blocks: Sequence[np.ndarray], masks: Sequence[np.ndarray]) -> Lazy:
    """Return some of the columns of each block."""
    return Lazy(len(masks), lambda c: blocks[c][..., masks[c]])
