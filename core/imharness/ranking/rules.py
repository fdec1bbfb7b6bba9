"""What a track hands to the contest, and what the rules make of the scores: the worst of each unit, and coverage.

Scores come in *settings*, one for each combination of facets such as data set, attack and attacker (`Blocks` calls them
conditions). In a setting c every entry has a number for each unit. A *gain* is a score whose sign was changed where
less is better: more gain is always better, and the worst attack is the one with the least gain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from imharness.documents.naming import NO_DEFENSE, display_name
from imharness.documents.tables import Value
from imharness.ranking.gates import Gate
from imharness.ranking.ranking import Column
from imharness.ranking.tables import mean_value, value_of
from imharness.results.blocks import Blocks, Lazy
from imharness.results.identity import HARNESS, owner_of
from imharness.statistics.bootstrap import interval
from imharness.statistics.nested import nested_interval

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Chosen:
    """What else is known where one attack is chosen for each entry, on other units than those that are reported.

    This is needed where an attack is right or wrong on a unit, as a membership test is: of many attacks that guess, one
    is nearly always right, so that the worst of each unit would show chance alone. The scores of the contest are then
    those of the chosen attacks.

    Attributes:
        tried: the scores under every attack that could be chosen; coverage is measured on these.
        kinds: the scores under the strongest attack of each attacker, for the columns ``unaware`` and ``aware``.
        broken_by: entry -> attack -> how often it was chosen, as a share in [0, 1], the largest first.
    """

    tried: Blocks
    kinds: Blocks
    broken_by: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class SecondaryMeasure:
    """A further measure of protection; nobody wins whom it shows to be worse than another candidate or no defense.

    `scores`: those of the same entries, by setting; the worst of each unit counts as in the contest. `protection`: the
    measure, as in `Contest`, with `wins` of its own.
    """

    scores: Blocks
    protection: Column


@dataclass(frozen=True)
class Words:
    """The words in which headlines of a ranking speak of its measure.

    Attributes:
        lead: what the winner does, such as "leaks least".
        amount: number of the measure -> text that is proportional to it, such as "57 %" for 0.57.
        of: what follows the amount, such as "of guesses right".
        limit: what no entry is shown to do, with the fields ``{bound}``, ``{plain}``, ``{of}`` and ``{without}``, such
            as "takes more than {bound} off the {plain} {of}".
        without: how the undefended entry is called after its number.
        briefly: the same where a headline is short of words.
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

    Attributes:
        scores: the measure ``protection.of`` of every entry on every unit, by setting.
        protection: the measure of protection; it needs a direction and `wins`. Its `cluster` is what is resampled.
        utility: a column whose `value` returns the utility of an entry where nobody attacks.
        undefended: the entry without a defense.
        words: the words in which headlines speak of the measure.
        gates: what a winner has to keep, see `Gate`.
        over: the facets over which the worst of each unit is taken. The mean is taken over the other facets.
        attack: the facet that names the attack.
        attacker: the facet that says what the attacker knows.
        unaware: the value of `attacker` for one who does not know the defense.
        share: which share of the undefended utility a winner may lose, in [0, 1]; as in the gate on utility.
        controls: control -> why it never wins.
        matched: control -> the only entry that has to be better than it, such as for early stopping at the accuracy of
            that entry. Every entry has to be better than each other control.
        flags: entry -> why its number is only an upper bound.
        references: the controls that no entry has to be better than, because they stand for an attacker who knows
            nothing of the data.
        baseline: the entry that all others are compared with in "better than no defense"; by default `undefended`.
        secondary_measures: further measures of protection, which were fixed before the scores were known.
        proxies: what stands in for something real, such as small networks for published ones; shown to readers.
        unknown: entry -> why it has no number at all.
        met: a measure of `scores` that is 1 where an entry met the attack. An entry may meet an attack and have no
            number, as of an attack that did not converge: that says nothing of the entry. Without this measure, every
            missing number makes its entry incomplete.
        balanced: a facet whose values, such as families of distortions, all weigh the same in means, however many
            units they have. No unit may have two of its values.
        alike: facets of a setting -> which attack it is, apart from what the attacker knows. The columns "unaware" and
            "aware" are means over the attacks that were run by both kinds of attackers. By default two attacks are
            the same if all facets but `attacker` are.
        chosen: what else is known where one attack was chosen for each entry on other units.
        void: why no entry can be judged, as the headline says it; all entries are then flagged.
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
        """What `compared_with` is called: "no defense", or its name where the track compares with another entry."""
        return display_name(self.baseline) if self.baseline else NO_DEFENSE

    @property
    def sign(self) -> int:
        """1 where more protection is better, else -1."""
        return 1 if self.protection.better == "higher" else -1

    @cached_property
    def gains(self) -> Sequence[Floats]:
        """The gains ``(entries, units)`` of each setting, NaN where a score is not finite; computed at each access."""
        return self._gains_of(self.scores)

    @cached_property
    def known(self) -> tuple[npt.NDArray[np.bool_], ...]:
        """Where an entry has a number, or met the attack without one: ``(entries, units)`` of each setting."""
        masks = [~np.isnan(block) for block in self.gains]
        if self.met:
            masks = [mask | (self.scores.values[self.met][c] == 1) for c, mask in enumerate(masks)]
        return tuple(masks)

    @cached_property
    def settings(self) -> list[int]:
        """The positions of the settings that every entry should have, see `common`."""
        return self._common(self.known)

    def on_common_units(self) -> Contest:
        """Return the contest with only those units of each setting that every entry should have, see `common`.

        So an entry that was measured on further units makes no other entry incomplete.
        """
        masks = [common(self.scores.entries, mask.T) for mask in self.known]
        chosen = self.chosen
        if chosen is not None:
            tried_masks = [common(chosen.tried.entries, ~np.isnan(block).T) for block in self._gains_of(chosen.tried)]
            chosen = replace(chosen, tried=chosen.tried.masked(tried_masks))
        if all(mask.all() for mask in masks):
            return self if chosen is None else replace(self, chosen=chosen)
        scores = self.scores.masked(masks)
        if chosen is not None:
            names = np.unique(np.concatenate([units.astype(str) for units in scores.units]))
            kinds_masks = [np.isin(units.astype(str), names) for units in chosen.kinds.units]
            chosen = replace(chosen, kinds=chosen.kinds.masked(kinds_masks))
        return replace(self, scores=scores, chosen=chosen)

    @cached_property
    def names(self) -> list[str]:
        """The names of all units in the `settings`, sorted."""
        return sorted({str(name) for c in self.settings for name in self.scores.units[c]})

    @cached_property
    def places(self) -> list[npt.NDArray[np.int64]]:
        """The positions of the units of each of the `settings` among `names`."""
        return [self._at(self.scores.units[c]) for c in self.settings]

    @cached_property
    def clusters(self) -> npt.NDArray[np.str_] | None:
        """The cluster of each unit ``(units,)``; None where units are independent."""
        return self._fact(self.protection.cluster)

    def _fact(self, name: str) -> npt.NDArray[np.str_] | None:
        """Return a fact of each unit ``(units,)``, or the unit's name where it has none; None without a name."""
        if not name:
            return None
        facts = np.array(self.names, dtype=object)
        for c, at in zip(self.settings, self.places, strict=True):
            facts[at] = self.scores.clusters(name, c)
        return facts.astype(str)

    @cached_property
    def nested(self) -> Mapping[str, tuple[str, str]]:
        """Name of a unit -> its group and the stratum of that; empty where units are not in groups."""
        groups, strata = (self._fact(name) for name in (self.protection.group, self.protection.stratum))
        if groups is None:
            return {}
        if strata is None:
            strata = np.full(len(groups), "")
        return dict(zip(self.names, zip(groups.tolist(), strata.tolist(), strict=True), strict=True))

    @cached_property
    def weights(self) -> Floats | None:
        """The weight of each unit ``(units,)``, 1 on average; None where all weigh the same."""
        if not self.balanced:
            return None
        levels = np.empty(len(self.names), dtype=object)
        for c, at in zip(self.settings, self.places, strict=True):
            levels[at] = self.scores.conditions[c][self.balanced]
        _, codes, sizes = np.unique(levels.astype(str), return_inverse=True, return_counts=True)
        return None if len(set(sizes)) < 2 else np.asarray(len(levels) / len(sizes) / sizes[codes])

    def mean(self, numbers: Floats) -> Value:
        """Return the mean of numbers ``(units,)`` as a value of a table, with its interval; only finite ones count."""
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
        """The gain of each unit under the worst attack ``(entries, units)``, the mean over the other facets, or NaN."""
        return mean_of(self._worst_by_group.gains) if self.settings else np.zeros((len(self.scores.entries), 0))

    @cached_property
    def same(self) -> tuple[int, ...]:
        """For each of the `settings` the number of its attack; the same attack by both kinds of attackers has one."""
        return self._attack_numbers([self.scores.conditions[c] for c in self.settings])

    def _attack(self, facets: Mapping[str, str]) -> object:
        """Return which attack a setting is, apart from what the attacker knows; see `alike`."""
        if self.alike is not None:
            return self.alike(facets)
        return tuple((name, value) for name, value in sorted(facets.items()) if name != self.attacker)

    def _attack_numbers(self, conditions: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        """Return the number of the attack of each setting, counted from 0 in the order of first appearance."""
        numbering: dict[object, int] = {}
        return tuple(numbering.setdefault(self._attack(facets), len(numbering)) for facets in conditions)

    @cached_property
    def against(self) -> Mapping[bool, Floats]:
        """The mean gain of each unit under attacks that know the defense (True) and under those that do not (False).

        ``against[aware]`` has the shape ``(entries, units)``, NaN where there is no number. For each entry and unit,
        only the attacks count that were run both ways, so that the two means are over the same attacks. If one of the
        two kinds of attackers was run on no entry, all attacks of the other kind count.
        """
        if self.chosen is None:
            blocks, settings, gains, attack_numbers = self.scores, self.settings, self.gains, self.same
        else:
            blocks, attacks = self.chosen.kinds, {self._attack(self.scores.conditions[c]) for c in self.settings}
            settings = [c for c, facets in enumerate(blocks.conditions) if self._attack(facets) in attacks]
            gains = self._gains_of(blocks)
            attack_numbers = self._attack_numbers([blocks.conditions[c] for c in settings])
        # The first axis of the arrays below is what the attacker knows: 0 nothing, 1 the defense.
        knows = {c: int(blocks.conditions[c][self.attacker] != self.unaware) for c in settings}
        kinds = sorted(set(knows.values()))
        total = np.zeros((2, len(blocks.entries), len(self.names)))  # sums over attacks of the mean gain under each
        attack_count = np.zeros(total.shape[1:], dtype=np.int64)  # how many attacks count, for each entry and unit
        for attack in dict.fromkeys(attack_numbers):
            sums, count = np.zeros((2, *total.shape))
            for c, number in zip(settings, attack_numbers, strict=True):
                if number == attack:
                    at = self._at(blocks.units[c])
                    sums[knows[c]][:, at] += np.nan_to_num(gains[c])
                    count[knows[c]][:, at] += ~np.isnan(gains[c])
            both_ways = np.all(count[kinds] > 0, axis=0)
            total += np.where(both_ways, sums / np.maximum(count, 1), 0.0)
            attack_count += both_ways
        means = np.divide(total, attack_count, out=np.full(total.shape, np.nan), where=attack_count > 0)
        nothing = np.full(attack_count.shape, np.nan)
        return {aware: means[int(aware)] if int(aware) in kinds else nothing for aware in (False, True)}

    def _at(self, units: npt.NDArray[np.object_]) -> npt.NDArray[np.int64]:
        """Return the positions of units among `names`."""
        return np.searchsorted(np.array(self.names), units.astype(str))

    @cached_property
    def _worst_by_group(self) -> _Worst:
        """The worst gain of each unit in each group; a group has all settings that differ in the facets `over` alone.

        Of settings with the same gain, the one that comes first counts as the worst.
        """
        conditions = self.scores.conditions
        keys = [
            tuple((name, value) for name, value in conditions[c].items() if name not in self.over)
            for c in self.settings
        ]
        group_of = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        shape = (len(group_of), len(self.scores.entries), len(self.names))
        worst, setting = np.full(shape, np.nan), np.full(shape, -1, np.int32)
        for key, c, at in zip(keys, self.settings, self.places, strict=True):
            gain, i = self.gains[c], group_of[key]
            worst_before = worst[i][:, at]
            is_worse = np.isnan(worst_before) & ~np.isnan(gain) | (gain < worst_before)
            worst[i][:, at] = np.where(is_worse, gain, worst_before)
            setting[i][:, at] = np.where(is_worse, c, setting[i][:, at])
        return _Worst(worst, setting)

    def coverage(self, row: int) -> float:
        """Return the share of units and settings for which an entry has a number, or met the attack without one."""
        covered = [mask[row] for mask in self._covered]
        return float(np.concatenate(covered).mean()) if covered else 0.0

    def lacking(self, measure: SecondaryMeasure) -> dict[str, float]:
        """Return entry -> the share of the numbers of a secondary measure that it has, for entries that lack some.

        The share is in [0, 1); 1 would be every unit in every setting that every entry should have, see `common`.
        """
        met = self.met if self.met in measure.scores.values else ""
        by_measure = replace(self, scores=measure.scores, protection=measure.protection, met=met, chosen=None)
        by_measure = by_measure.on_common_units()
        having = {label: by_measure.coverage(row) for row, label in enumerate(by_measure.scores.entries)}
        shares = {label: having.get(label, 0.0) for label in self.scores.entries}
        return {label: share for label, share in shares.items() if share < 1}

    @cached_property
    def _covered(self) -> list[npt.NDArray[np.bool_]]:
        """Where entries have a number, or met the attack without one, ``(entries, units)`` of each setting."""
        if self.chosen is None:
            return [self.known[c] for c in self.settings]
        masks = [~np.isnan(block) for block in self._gains_of(self.chosen.tried)]
        return [masks[c] for c in self._common(masks)]

    def _common(self, masks: Sequence[npt.NDArray[np.bool_]]) -> list[int]:
        """Return the positions of the settings that every entry should have, see `common`.

        `masks`: where entries have a number ``(entries, units)``, for each setting.
        """
        had = np.array([mask.any(axis=1) for mask in masks]).reshape(len(masks), len(self.scores.entries))
        return np.flatnonzero(common(self.scores.entries, had)).tolist()

    def _gains_of(self, scores: Blocks) -> Sequence[Floats]:
        """Return the gains of other scores, in the form of `gains`."""
        blocks = scores.values[self.protection.of or self.protection.key]

        def gains(c: int) -> Floats:
            block = blocks[c].astype(np.float64)
            return np.where(np.isfinite(block), self.sign * block, np.nan)

        return Lazy(len(blocks), gains)

    def broken_by(self, row: int) -> dict[str, float]:
        """Return for each attack the share of units and groups on which it was the worst, the largest first."""
        if self.chosen is not None:
            return dict(self.chosen.broken_by.get(self.scores.entries[row], {}))
        worst_settings = self._worst_by_group.setting[:, row].ravel()
        counts = np.bincount(worst_settings[worst_settings >= 0], minlength=len(self.scores.conditions))
        totals: dict[str, int] = {}
        for facets, count in zip(self.scores.conditions, counts.tolist(), strict=True):
            if count:
                totals[facets[self.attack]] = totals.get(facets[self.attack], 0) + count
        shares = {name: count / int(counts.sum()) for name, count in sorted(totals.items())}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))


class _Worst(NamedTuple):
    """The worst gain ``(groups, entries, units)``, NaN without one, and the position of its setting, or -1."""

    gains: Floats
    setting: npt.NDArray[np.int32]


def is_own(entry: str) -> bool:
    """Say whether everything in an entry, such as ``harness/lenet + harness/ats``, is the harness's own."""
    return all(owner_of(component) == HARNESS for component in entry.split(" + "))


def own_among(entries: Iterable[str]) -> list[str]:
    """Return the entries that are the harness's own, or all entries where none is.

    An entry that others are compared with, such as the undefended one, is taken from these, so that no submission can
    bring it along.
    """
    every = list(entries)
    return [entry for entry in every if is_own(entry)] or every


def common(entries: Sequence[str], had: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which settings, or units, every entry should have: those that half of the harness's own entries have.

    So submitted entries, however many, neither take an attack out of a contest nor add one to it. Where no entry of
    the harness has a number, all entries are asked instead. The name of a component of the harness begins with
    ``harness/``, which no other package may use.

    Args:
        entries: the labels of the entries.
        had: whether an entry has a number, bool ``(m, entries)`` for m settings or units.

    Returns:
        bool ``(m,)``: at least half of the entries that decide have a number.
    """
    first_party = np.isin(entries, own_among(entries))
    deciding = first_party if (first_party & had.any(axis=0)).any() else np.ones_like(first_party)
    mask: npt.NDArray[np.bool_] = had[:, deciding].mean(axis=1) >= 0.5
    return mask


def mean_of(blocks: Floats) -> Floats:
    """Return the mean over the first axis without NaN; NaN where there is no number."""
    count = (~np.isnan(blocks)).sum(axis=0)
    means: Floats = np.full(blocks.shape[1:], np.nan)
    np.divide(np.nansum(blocks, axis=0), count, out=means, where=count > 0)
    return means


def number(value: Value) -> float:
    """Return the number of a value of a table, NaN without one."""
    return np.nan if value.value is None else value.value
