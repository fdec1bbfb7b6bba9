"""Evidence against entries, such as attacked images that somebody handed in, as a further attack of a contest.

RobustBench lets a stronger evaluation lower an entry's best-known value (Croce et al., "RobustBench: a standardized
adversarial robustness benchmark", 2021, section 3). Here evidence is one more attack, called `EVIDENCE_ATTACK`. Every
entry has a number against it on every unit: the number that was handed in, if that is worse than all others, or else
the worst number of the leaderboard's own attacks. So the evidence changes only the value of the entry that it was
handed in against, no entry lacks an attack, and evidence counts image by image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from imharness.ranking.rules import Contest, Floats
from imharness.results.blocks import Array, Blocks, Lazy, Names

EVIDENCE_ATTACK = "evidence"
"""The name of the attack, and the value of every other facet over which the worst is taken."""


@dataclass(frozen=True)
class Evidence:
    """What was handed in against an entry.

    Attributes:
        group: facet -> value, such as data set and metric; the evidence counts in settings with these facets. Facets
            over which the worst is taken, such as the attack, are not among them.
        entry: the label of the entry.
        units: the sorted names of the units ``(n,)``.
        values: measure -> numbers ``(n,)``, NaN where a number is not known.
        sure: the contest's measure as far as it is more than noise ``(n,)``, such as the end of an interval over
            several draws. Evidence on a unit counts only where this is worse than all other numbers of the unit.
    """

    group: Mapping[str, str]
    entry: str
    units: Names
    values: Mapping[str, Floats]
    sure: Floats


def with_evidence(rules: Contest, evidence: Sequence[Evidence]) -> Contest:
    """Return the contest with one more setting for each group of settings that evidence was handed in against.

    A group has all settings that differ only in the facets `Contest.over`, such as the attack. Evidence on units,
    groups or entries that the contest does not have is left out.
    """
    scores, groups = rules.scores, dict[tuple[tuple[str, str], ...], list[int]]()
    for c in rules.settings if evidence else ():
        fixed = {name: value for name, value in scores.conditions[c].items() if name not in rules.over}
        groups.setdefault(tuple(sorted(fixed.items())), []).append(c)
    for facets, settings in groups.items():
        items = [item for item in evidence if item.group.items() <= dict(facets).items()]
        if items:
            scores = _joined(scores, _setting(rules, settings, items))
    return rules if scores is rules.scores else replace(rules, scores=scores)


class _Setting(NamedTuple):
    """One setting of scores: its facets, its n units, a block ``(entries, n)`` for each measure, facts ``(n,)``."""

    facets: Mapping[str, str]
    units: Names
    values: Mapping[str, Array]
    about: Mapping[str, Array]


def _setting(rules: Contest, settings: Sequence[int], items: Sequence[Evidence]) -> _Setting:
    """Return the further setting of a group. `settings`: those of the group; `items`: the evidence against it."""
    blocks, measure = rules.scores, rules.protection.of or rules.protection.key
    # 1. The units of the group, with the worst gain of each entry on each unit, and the facts about the units.
    units = np.unique(np.concatenate([blocks.units[c].astype(str) for c in settings]))
    worst = np.full((len(blocks.entries), len(units)), np.nan)
    about = {fact: np.full(len(units), None, dtype=object) for fact in blocks.about}
    for c in settings:
        at = np.searchsorted(units, blocks.units[c].astype(str))
        worst[:, at] = np.fmin(worst[:, at], rules.gains[c])
        for fact, fact_column in about.items():
            fact_column[at] = blocks.about[fact][c]
    # 2. The numbers of the evidence take their place where they are worse; other measures have numbers only there.
    values = {name: np.full(worst.shape, np.nan) for name in blocks.values}
    for item in items:
        if item.entry not in blocks.entries:
            continue
        row = blocks.entries.index(item.entry)
        in_item = np.flatnonzero(np.isin(item.units.astype(str), units))  # positions of the shared units in the item
        at = np.searchsorted(units, item.units[in_item].astype(str))  # and among the units of the group
        is_worse = rules.sign * item.sure[in_item] < worst[row, at]
        in_item, at = in_item[is_worse], at[is_worse]
        worst[row, at] = rules.sign * item.values[measure][in_item]
        for name in item.values.keys() & values.keys():
            values[name][row, at] = item.values[name][in_item]
    values[measure] = rules.sign * worst
    # 3. Its facets: an attacker who knows the defense, if the group has one.
    first = blocks.conditions[settings[0]]
    attackers = [blocks.conditions[c][rules.attacker] for c in settings]
    facets = {name: EVIDENCE_ATTACK if name in rules.over else value for name, value in first.items()}
    facets[rules.attacker] = next((kind for kind in attackers if kind != rules.unaware), attackers[0])
    facts = {fact: column.astype(blocks.about[fact][settings[0]].dtype) for fact, column in about.items()}
    return _Setting(facets, units.astype(object), values, facts)


def _joined(blocks: Blocks, setting: _Setting) -> Blocks:
    """Return scores with one more setting.

    It is the last one, so that where it is no worse than an attack of the leaderboard, that attack counts as the worst.
    """
    return Blocks(
        blocks.entries,
        (*blocks.conditions, setting.facets),
        (*blocks.units, setting.units),
        {name: _longer(arrays, setting.values[name]) for name, arrays in blocks.values.items()},
        {fact: (*arrays, setting.about[fact]) for fact, arrays in blocks.about.items()},
    )


def _longer(before: Sequence[Array], last: Array) -> Lazy:
    """Return arrays with one more at their end; the others are made when they are asked for, as before."""
    return Lazy(len(before) + 1, lambda c: last if c == len(before) else before[c])
