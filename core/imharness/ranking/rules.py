"""What a track hands to the contest, and what the rules make of the scores: the worst of each unit, and coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from imharness.ranking.gates import Gate
from imharness.ranking.ranking import Column
from imharness.ranking.tables import mean_value, value_of
from imharness.results.blocks import Blocks, Lazy
from imharness.results.identity import HARNESS, owner_of
from imharness.results.naming import NO_DEFENSE, display_name
from imharness.results.tables import Value
from imharness.statistics.bootstrap import interval
from imharness.statistics.nested import nested_interval

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Chosen:
    """What was tried where one attack is chosen for each entry on other units than the reported ones.

    Where an attack is right or wrong on a unit, one of many that guess is nearly always right: the worst of each unit
    would be chance. The contest's scores are then those of the chosen attacks. `tried`: the measure under every attack
    that could be chosen; what an entry lacks here counts as not covered. `kinds`: the measure under the strongest
    attack of each attacker, for the columns ``unaware`` and ``aware``. `broken_by`: entry -> attack -> how often it was
    chosen, as a share, the largest first.
    """

    tried: Blocks
    kinds: Blocks
    broken_by: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class SecondaryMeasure:
    """A further measure of protection by which a winner has to be better.

    `scores`: of the same entries, by setting; the worst of each unit counts as in the contest. `protection`: the
    measure, as in `Contest`, with `wins` of its own.
    """

    scores: Blocks
    protection: Column


@dataclass(frozen=True)
class Words:
    """How the headlines of a ranking speak of what is measured.

    `lead`: what the first one does ("leaks least"). `amount`: a number of the measure as text ("57 %"), a multiple of
    the number; `of`: what follows it ("of guesses right"). `without`: the undefended entry in words, and `briefly`.
    `limit`: what no entry does more of, with the fields ``{bound}``, ``{plain}``, ``{of}`` and ``{without}`` ("takes
    more than {bound} off the {plain} {of}").
    """

    lead: str
    amount: Callable[[float], str]
    of: str
    limit: str
    without: str = "without a defense"
    briefly: str = "without"


@dataclass(frozen=True)
class Contest:
    """What a track ranks its entries by.

    `scores`: the measure ``protection.of`` of every entry on every unit, by setting. The worst of each unit is taken
    over the facets `over`; of these, `attack` names the attack and `attacker` what it knows, `unaware` being the value
    for "nothing". `protection` needs a direction and `wins`; its `cluster` is what is resampled. `utility`: a column
    whose `value` returns what each entry has where nobody attacks. `undefended`: the entry that the others are held
    against. `gates`: what a winner has to keep, see `Gate`; `share`: of the undefended utility, what it may lose, as
    the gate on utility has it. `controls`: entry -> why it is never crowned. `references`: those among them that no
    entry has to be better than, because they stand for an attacker who has nothing to go by. `flags`: entry -> why its
    number is an upper bound. `secondary_measures`: further measures of protection by which a winner has to be better,
    fixed beforehand, each with scores of the same entries. `proxies`: what stands in for something real. `unknown`:
    entry -> why it has no number at all. `chosen`: where one attack was chosen for each entry on other units.

    `met`: a measure that is 1 where an entry met the attack, if it can have done so without a number: an attack that
    did not converge says nothing of a defense, which yet withheld nothing. By default every number that is missing
    counts against its entry. `balanced`: a facet whose values, such as families of distortions, weigh the same in all
    means however many units they have; no unit may have two of them. `alike`: facets -> which attack it is, apart from
    what the attacker knows; "unaware" and "aware" are means over the attacks of which there are both.

    `baseline`: the entry that all are compared with in "better than no defense", by default `undefended`. `words`: how
    headlines speak of the measure. `matched`: control -> the only entry that it was made for and stands
    against, such as early stopping at the accuracy of that entry. `void`: why no entry can be judged, as the headline
    says it; all of them are flagged then.
    """

    scores: Blocks
    protection: Column
    utility: Column
    undefended: str
    words: Words
    gates: Sequence[Gate]
    over: tuple[str, ...] = ("attack", "attacker")
    attack: str = "attack"
    attacker: str = "attacker"
    unaware: str = "fixed"
    share: float = 0.05
    controls: Mapping[str, str] = field(default_factory=dict)
    matched: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    references: frozenset[str] = frozenset()
    baseline: str = ""
    secondary_measures: Sequence[SecondaryMeasure] = ()
    proxies: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    met: str = ""
    balanced: str = ""
    alike: Callable[[Mapping[str, str]], object] | None = None
    chosen: Chosen | None = None
    void: str = ""

    @property
    def compared_with(self) -> str:
        """The entry that stands for no defense."""
        return self.baseline or self.undefended

    @property
    def baseline_name(self) -> str:
        """What that entry is called: "no defense", or its name where the track compares with another one."""
        return display_name(self.baseline) if self.baseline else NO_DEFENSE

    @property
    def sign(self) -> int:
        """1 where more protection is better, else -1."""
        return 1 if self.protection.better == "higher" else -1

    @cached_property
    def gains(self) -> Sequence[Floats]:
        """The scores, turned so that more is better: ``(entries, units)`` of each setting, NaN where not finite.

        They are made whenever they are asked for.
        """
        return self._turned(self.scores)

    @cached_property
    def known(self) -> tuple[npt.NDArray[np.bool_], ...]:
        """Where an entry has a number, or met an attack that says nothing: ``(entries, units)`` of each setting."""
        met = self.scores.values[self.met] if self.met else None
        return tuple(
            ~np.isnan(block) if met is None else ~np.isnan(block) | (met[c] == 1) for c, block in enumerate(self.gains)
        )

    @cached_property
    def settings(self) -> list[int]:
        """The settings that every entry should have, see `common`."""
        return self._common(self.known)

    def on_common_units(self) -> Contest:
        """Return the contest on the units that every entry should have, see `common`: those of each setting.

        So whoever measures an entry on further units takes nobody's place.
        """
        masks = [common(self.scores.entries, mask.T) for mask in self.known]
        chosen = self.chosen
        if chosen is not None:
            tried = [common(chosen.tried.entries, ~np.isnan(block).T) for block in self._turned(chosen.tried)]
            chosen = replace(chosen, tried=chosen.tried.masked(tried))
        if all(mask.all() for mask in masks):
            return self if chosen is None else replace(self, chosen=chosen)
        scores = self.scores.masked(masks)
        if chosen is not None:
            names = np.unique(np.concatenate([units.astype(str) for units in scores.units]))
            kinds = [np.isin(units.astype(str), names) for units in chosen.kinds.units]
            chosen = replace(chosen, kinds=chosen.kinds.masked(kinds))
        return replace(self, scores=scores, chosen=chosen)

    @cached_property
    def names(self) -> list[str]:
        """All units, sorted."""
        return sorted({str(name) for c in self.settings for name in self.scores.units[c]})

    @cached_property
    def places(self) -> list[npt.NDArray[np.int64]]:
        """The positions of the units of each of the `settings` among `names`."""
        return [self._at(self.scores.units[c]) for c in self.settings]

    @cached_property
    def clusters(self) -> npt.NDArray[np.str_] | None:
        """The cluster of each unit; None where units are independent."""
        return self._fact(self.protection.cluster)

    def _fact(self, name: str) -> npt.NDArray[np.str_] | None:
        if not name:
            return None
        facts = np.array(self.names, dtype=object)
        for c, at in zip(self.settings, self.places, strict=True):
            facts[at] = self.scores.clusters(name, c)
        return facts.astype(str)

    @cached_property
    def nested(self) -> Mapping[str, tuple[str, str]]:
        """The group of each unit and its stratum, by the name of the unit; empty where units are not in groups."""
        groups, strata = (self._fact(name) for name in (self.protection.group, self.protection.stratum))
        if groups is None:
            return {}
        if strata is None:
            strata = np.full(len(groups), "")
        return dict(zip(self.names, zip(groups.tolist(), strata.tolist(), strict=True), strict=True))

    @cached_property
    def weights(self) -> Floats | None:
        """The weight of each unit, 1 on average; None where all weigh the same."""
        if not self.balanced:
            return None
        levels = np.empty(len(self.names), dtype=object)
        for c, at in zip(self.settings, self.places, strict=True):
            levels[at] = self.scores.conditions[c][self.balanced]
        _, codes, sizes = np.unique(levels.astype(str), return_inverse=True, return_counts=True)
        return None if len(set(sizes)) < 2 else np.asarray(len(levels) / len(sizes) / sizes[codes])

    def mean(self, numbers: Floats) -> Value:
        """Return the mean of numbers ``(units,)`` as a value of a table; NaN and infinity are left out."""
        finite, weights = np.isfinite(numbers), self.weights
        if self.nested and finite.any():
            groups, strata = np.array([self.nested[name] for name in self.names])[finite].T
            return value_of(nested_interval(numbers[finite], groups, strata))
        if weights is None or not finite.any():
            return mean_value(numbers, self.clusters)
        w, x = weights[finite], (weights * numbers)[finite]
        clusters = None if self.clusters is None else self.clusters[finite]
        return value_of(interval(lambda drawn: x[drawn].sum(axis=1) / w[drawn].sum(axis=1), len(x), clusters))

    @cached_property
    def worst(self) -> Floats:
        """The gain of each unit under the worst attack ``(entries, units)``, mean over the other facets, or NaN."""
        return mean_of(self._groups[0]) if self.settings else np.zeros((len(self.scores.entries), 0))

    @cached_property
    def same(self) -> tuple[int, ...]:
        """Which attack each of the `settings` is, apart from what the attacker knows, as a number."""
        return self._same([self.scores.conditions[c] for c in self.settings])

    def _attack(self, facets: Mapping[str, str]) -> object:
        if self.alike is not None:
            return self.alike(facets)
        return tuple((name, value) for name, value in sorted(facets.items()) if name != self.attacker)

    def _same(self, conditions: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        numbering: dict[object, int] = {}
        return tuple(numbering.setdefault(self._attack(facets), len(numbering)) for facets in conditions)

    @cached_property
    def against(self) -> Mapping[bool, Floats]:
        """The mean gain of each unit under attacks that know the defense, and under those that do not, or NaN.

        Of each entry and unit those attacks count that were run both ways; where no attack of the other kind was run on
        anybody, all of this kind count. ``against[aware]`` has the shape ``(entries, units)``.
        """
        if self.chosen is None:
            blocks, settings, gains, same = self.scores, self.settings, self.gains, self.same
        else:
            blocks, attacks = self.chosen.kinds, {self._attack(self.scores.conditions[c]) for c in self.settings}
            settings = [c for c, facets in enumerate(blocks.conditions) if self._attack(facets) in attacks]
            gains, same = self._turned(blocks), self._same([blocks.conditions[c] for c in settings])
        kinds = {blocks.conditions[c][self.attacker] != self.unaware for c in settings}
        total = np.zeros((2, len(blocks.entries), len(self.names)))
        both = np.zeros(total.shape[1:], dtype=np.int64)
        for attack in dict.fromkeys(same):
            sums, count = np.zeros((2, *total.shape))
            for c, number in zip(settings, same, strict=True):
                if number == attack:
                    aware, at = int(blocks.conditions[c][self.attacker] != self.unaware), self._at(blocks.units[c])
                    sums[aware][:, at] += np.nan_to_num(gains[c])
                    count[aware][:, at] += ~np.isnan(gains[c])
            met = np.all(count[[int(aware) for aware in kinds]] > 0, axis=0)
            total += np.where(met, sums / np.maximum(count, 1), 0.0)
            both += met
        means = np.divide(total, both, out=np.full(total.shape, np.nan), where=both > 0)
        return {aware: means[int(aware)] if aware in kinds else np.full(both.shape, np.nan) for aware in (False, True)}

    def _at(self, units: npt.NDArray[np.object_]) -> npt.NDArray[np.int64]:
        """Return the positions of units among `names`."""
        return np.searchsorted(np.array(self.names), units.astype(str))

    @cached_property
    def _groups(self) -> tuple[Floats, npt.NDArray[np.int32]]:
        """The worst gain ``(groups, entries, units)``, a group being the settings that differ in `over` alone, and the
        position of the setting it is of."""
        conditions = self.scores.conditions
        keys = [tuple((f, v) for f, v in conditions[c].items() if f not in self.over) for c in self.settings]
        group = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        shape = (len(group), len(self.scores.entries), len(self.names))
        worst, which = np.full(shape, np.nan), np.full(shape, -1, np.int32)
        for key, c, at in zip(keys, self.settings, self.places, strict=True):
            gain, i = self.gains[c], group[key]
            here = worst[i][:, at]
            worse = np.isnan(here) & ~np.isnan(gain) | (gain < here)
            worst[i][:, at] = np.where(worse, gain, here)
            which[i][:, at] = np.where(worse, c, which[i][:, at])
        return worst, which

    def coverage(self, row: int) -> float:
        """Return the share of units and settings for which an entry has a number, or met what says nothing."""
        covered = [mask[row] for mask in self._covered]
        return float(np.concatenate(covered).mean()) if covered else 0.0

    @cached_property
    def _covered(self) -> list[npt.NDArray[np.bool_]]:
        """Return where entries have a number, or met what says nothing, for each setting that counts."""
        if self.chosen is None:
            return [self.known[c] for c in self.settings]
        masks = [~np.isnan(block) for block in self._turned(self.chosen.tried)]
        return [masks[c] for c in self._common(masks)]

    def _common(self, masks: Sequence[npt.NDArray[np.bool_]]) -> list[int]:
        had = np.array([mask.any(axis=1) for mask in masks]).reshape(len(masks), len(self.scores.entries))
        return np.flatnonzero(common(self.scores.entries, had)).tolist()

    def _turned(self, scores: Blocks) -> Sequence[Floats]:
        """Return the measure of protection in other scores as `gains` has it."""
        blocks = scores.values[self.protection.of or self.protection.key]

        def turned(c: int) -> Floats:
            block = blocks[c].astype(np.float64)
            return np.where(np.isfinite(block), self.sign * block, np.nan)

        return Lazy(len(blocks), turned)

    def broken_by(self, row: int) -> dict[str, float]:
        """Return for each attack the share of units and groups on which it was the worst, the largest first."""
        if self.chosen is not None:
            return dict(self.chosen.broken_by.get(self.scores.entries[row], {}))
        which = self._groups[1][:, row].ravel()
        counts = np.bincount(which[which >= 0], minlength=len(self.scores.conditions))
        totals: dict[str, int] = {}
        for facets, count in zip(self.scores.conditions, counts.tolist(), strict=True):
            if count:
                totals[facets[self.attack]] = totals.get(facets[self.attack], 0) + count
        shares = {name: count / int(counts.sum()) for name, count in sorted(totals.items())}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))


def is_own(entry: str) -> bool:
    """Say whether everything in an entry, such as ``harness/lenet + harness/ats``, is the harness's own."""
    return all(owner_of(component) == HARNESS for component in entry.split(" + "))


def own_among(entries: Iterable[str]) -> list[str]:
    """Return the entries that are the harness's own, or all where there is none.

    What stands for all others, such as the undefended entry or the metric of a trial, is taken from these, so that
    nobody brings it along.
    """
    every = list(entries)
    return [entry for entry in every if is_own(entry)] or every


def common(entries: Sequence[str], had: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which settings, or units, count: those that at least half of the harness's own entries have.

    So submitted entries, however many, neither take an attack out of a contest nor add one to it. Where no entry of
    the harness has a number, half of all decide. `had`: ``(settings or units, entries)``. The name of a component of
    the harness begins with ``harness/``, which no other package may use.
    """
    first_party = np.isin(entries, own_among(entries))
    deciding = first_party if (first_party & had.any(axis=0)).any() else np.ones_like(first_party)
    mask: npt.NDArray[np.bool_] = had[:, deciding].mean(axis=1) >= 0.5
    return mask


def mean_of(blocks: Floats) -> Floats:
    """Return the mean over the first axis, NaN left out; NaN where there is nothing else."""
    count = (~np.isnan(blocks)).sum(axis=0)
    means: Floats = np.full(blocks.shape[1:], np.nan)
    np.divide(np.nansum(blocks, axis=0), count, out=means, where=count > 0)
    return means


def number(value: Value) -> float:
    """Return the number of a value of a table, NaN without one."""
    return np.nan if value.value is None else value.value
