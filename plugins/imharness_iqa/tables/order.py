"""How far an attack moves an image among the others, which no rescaling of the scores changes.

D^D divides the movement of a score by the range of the metric. A defense that squeezes all scores, to c + eps f(x),
makes D^D small without protecting: images keep the same order, and the same attacks reverse it. In units of the spread
of clean scores it gains nothing; but a map that is steep among clean scores and flat above them, where attacks lead,
gains there, too. So protection is measured by pairs: of the other images, the share whose order with the attacked image
changes. This depends on comparisons of scores alone, which no strictly increasing map changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from imharness_iqa.tables.naming import Naming
from imharness_iqa.tables.part import Part

Key = tuple[str, str]
"""The data set, without its subset, and the metric."""
RESOLVED = 1e-5
"""The smallest spread of scores that counts, as a share of the metric's range.

It is 80 steps of float32 or more, if no score is larger than the range is wide.
"""


@dataclass(frozen=True)
class Others:
    """Scores of clean images ``(m,)``, ascending, which attacked images are compared with.

    `photographs` ``(m,)``: the number of the photograph of each.
    """

    scores: np.ndarray
    photographs: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, photographs: np.ndarray) -> "Others":
        """Return these scores without NaN and infinity."""
        positions = np.flatnonzero(np.isfinite(scores))
        order = positions[np.argsort(scores[positions], kind="stable")]
        return cls(scores[order], photographs[order])

    def spread(self) -> float:
        """Return the interquartile range, or NaN where scores are of fewer than two photographs."""
        if len(set(self.photographs.tolist())) < 2:
            return np.nan
        low, high = np.quantile(self.scores, (0.25, 0.75))
        return float(high - low)

    def passed(self, start: np.ndarray, end: np.ndarray, photographs: np.ndarray) -> np.ndarray:
        """Return for each of n attacked images the share of these scores whose order with it has changed ``(n,)``.

        `start`, `end` ``(n,)``: the scores of the images before and after the attack. `photographs` ``(n,)``: the
        number of the photograph of each; scores of the same photograph are not compared. The order with a score that
        equals `start` or `end` has changed. NaN where a score is missing, or there is nothing to compare it with.
        """
        m, kinds = len(self.scores), int(max([0, *self.photographs, *photographs])) + 1
        # the scores from start to end, both included, stand at first, ..., last - 1
        first = np.searchsorted(self.scores, np.minimum(start, end), side="left")
        last = np.searchsorted(self.scores, np.maximum(start, end), side="right")
        # how many of these are of the same photograph: the same among keys that sort by photograph, then by position
        by_photograph = np.sort(self.photographs * (m + 1) + np.arange(m))
        same_photograph = np.searchsorted(by_photograph, photographs * (m + 1) + last)
        same_photograph -= np.searchsorted(by_photograph, photographs * (m + 1) + first)
        compared = m - np.bincount(self.photographs, minlength=kinds)[photographs]
        passed = np.where(start == end, 0, last - first - same_photograph)
        unknown = ~np.isfinite(start) | ~np.isfinite(end) | (compared == 0)
        return np.where(unknown, np.nan, passed / np.maximum(compared, 1))


@dataclass(frozen=True)
class Ruler:
    """Measures how far attacks move images, by the scores of clean images behind each defense, f(D(x)).

    Images of one photograph, such as two crops, are not compared with each other.
    """

    units: Mapping[Key, np.ndarray]
    """The names of all units ``(m,)``, sorted."""
    photographs: Mapping[Key, np.ndarray]
    """The number of the photograph of each unit ``(m,)``."""
    others: Mapping[Key, Mapping[str, Others]]
    """Scores by the label of a defense."""
    naming: Naming

    @classmethod
    def of(cls, clean: Part) -> "Ruler":
        """Return the ruler of clean scores; subsets that were drawn from one data set count as one."""
        blocks, naming = clean.blocks, Naming()
        _, codes = np.unique(clean.photographs.astype(str), return_inverse=True)
        groups: dict[Key, list[int]] = {}
        for c in clean.conditions:
            if len(blocks.units[c]):
                key = clean.dataset(c), blocks.conditions[c]["metric"]
                groups.setdefault(key, []).append(c)
        units = {key: naming.joined(blocks.units[c] for c in members) for key, members in groups.items()}
        photographs, others = dict[Key, np.ndarray](), dict[Key, dict[str, Others]]()
        for key, group in groups.items():
            scores = np.full((len(blocks.entries), len(units[key])), np.nan)
            photographs[key] = np.zeros(len(units[key]), dtype=np.int64)
            for c in group:
                positions = naming.where(blocks.units[c], units[key])
                at = slice(None) if positions is None else positions[1]
                scores[:, at] = np.fmax(scores[:, at], blocks.values["score"][c])
                photographs[key][at] = codes[clean.places[c]]
            others[key] = {
                blocks.entries[i]: Others.of(scores[i], photographs[key])
                for i in clean.rows
                if np.isfinite(scores[i]).any()
            }
        return cls(units, photographs, others, naming)

    def spreads(self, key: Key, entries: Sequence[str], span: float) -> np.ndarray:
        """Return the interquartile range of clean scores behind each defense ``(entries,)``.

        NaN where it is below `RESOLVED` of the metric's range `span`, or images are of one photograph: then there is no
        order that could be protected.
        """
        by_label = self.others.get(key, {})
        spreads = np.array([by_label[label].spread() if label in by_label else np.nan for label in entries])
        return np.where(spreads >= RESOLVED * span, spreads, np.nan)

    def reversed_shares(
        self, key: Key, entries: Sequence[str], names: np.ndarray, clean: np.ndarray, attacked: np.ndarray
    ) -> np.ndarray:
        """Return the share of images of other photographs whose order with each image an attack on it changes, %.

        `names` ``(units,)``: the images. `clean`, `attacked`: their scores behind each defense ``(entries, units)``;
        the result is NaN where one is missing. Two scores that are equal before or after the attack count as changed,
        so that an entry gains nothing by making scores equal.
        """
        shares = np.full(clean.shape, np.nan)
        if key not in self.others:
            return shares
        where = self.naming.where(names, self.units[key])
        at = slice(None) if where is None else where[0]
        photographs = self.photographs[key] if where is None else self.photographs[key][where[1]]
        for i, label in enumerate(entries):
            if label in self.others[key]:
                shares[i, at] = 100 * self.others[key][label].passed(clean[i, at], attacked[i, at], photographs)
        return shares
