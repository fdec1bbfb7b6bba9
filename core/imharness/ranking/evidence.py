"""Evidence against entries as a further attack of a contest: what anybody handed in, within the budget of an attack.

RobustBench lets a stronger evaluation lower an entry's best-known value (Croce et al., "RobustBench: a standardized
adversarial robustness benchmark", 2021, section 3). Here evidence is one more attack of its group, against which every
entry has a number: the worst that was handed in against it, and otherwise the worst of the leaderboard's own attacks.
So nobody's value changes but that of the entry that was broken, no entry lacks an attack, and it counts by image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imharness.ranking.rules import Contest, Floats
from imharness.results.blocks import Array, Blocks, Lazy, Names

EVIDENCE_ATTACK = "evidence"
"""The name of the attack, and of the values of what else an attacker takes the worst over."""


@dataclass(frozen=True)
class Evidence:
    """What was handed in against an entry.

    `group`: facets of the settings against which it counts, among those that an attacker takes no worst over, such as
    data set and metric.
    `units`: sorted names ``(n,)``. `values`: measure -> numbers ``(n,)``, NaN where one is not known. `sure` ``(n,)``:
    the contest's measure as far as it is more than noise; a unit counts where this is worse than all that is known.
    """

    group: Mapping[str, str]
    entry: str
    units: Names
    values: Mapping[str, Floats]
    sure: Floats


def with_evidence(rules: Contest, evidence: Sequence[Evidence]) -> Contest:
    """Return the contest with what was handed in; evidence on other units, groups or entries is left out."""
    scores, groups = rules.scores, dict[tuple[tuple[str, str], ...], list[int]]()
    for c in rules.settings if evidence else ():
        fixed = {name: value for name, value in scores.conditions[c].items() if name not in rules.over}
        groups.setdefault(tuple(sorted(fixed.items())), []).append(c)
    for facets, settings in groups.items():
        handed = [item for item in evidence if item.group.items() <= dict(facets).items()]
        if handed:
            scores = _joined(scores, *_setting(rules, settings, handed))
    return rules if scores is rules.scores else replace(rules, scores=scores)


def _setting(
    rules: Contest, settings: Sequence[int], handed: Sequence[Evidence]
) -> tuple[Mapping[str, str], Names, dict[str, Array], dict[str, Array]]:
    """Return facets, units, numbers and facts of the further setting; the last in order, so that ties are not its."""
    blocks, measure = rules.scores, rules.protection.of or rules.protection.key
    names = np.unique(np.concatenate([blocks.units[c].astype(str) for c in settings]))
    worst = np.full((len(blocks.entries), len(names)), np.nan)
    about = {fact: np.full(len(names), None, dtype=object) for fact in blocks.about}
    for c in settings:
        at = np.searchsorted(names, blocks.units[c].astype(str))
        worst[:, at] = np.fmin(worst[:, at], rules.gains[c])
        for fact, fact_column in about.items():
            fact_column[at] = blocks.about[fact][c]
    values = {name: np.full(worst.shape, np.nan) for name in blocks.values}
    for item in handed:
        if item.entry not in blocks.entries:
            continue
        row, selected = blocks.entries.index(item.entry), np.isin(item.units.astype(str), names)
        at = np.searchsorted(names, item.units[selected].astype(str))
        sure = rules.sign * item.sure[selected]
        lower = sure < worst[row, at]
        at, selected = at[lower], np.flatnonzero(selected)[lower]
        worst[row, at] = rules.sign * item.values[measure][selected]
        for name in item.values.keys() & values.keys():
            values[name][row, at] = item.values[name][selected]
    values[measure] = rules.sign * worst
    kinds = [blocks.conditions[c][rules.attacker] for c in settings]
    aware = next((kind for kind in kinds if kind != rules.unaware), kinds[0])
    facets = {name: EVIDENCE_ATTACK if name in rules.over else v for name, v in blocks.conditions[settings[0]].items()}
    facts = {fact: column.astype(blocks.about[fact][settings[0]].dtype) for fact, column in about.items()}
    return {**facets, rules.attacker: aware}, names.astype(object), values, facts


def _joined(
    blocks: Blocks, facets: Mapping[str, str], names: Names, values: Mapping[str, Array], about: Mapping[str, Array]
) -> Blocks:
    return Blocks(
        blocks.entries,
        (*blocks.conditions, facets),
        (*blocks.units, names),
        {name: _longer(array, values[name]) for name, array in blocks.values.items()},
        {fact: (*arrays, about[fact]) for fact, arrays in blocks.about.items()},
    )


def _longer(before: Sequence[Array], last: Array) -> Lazy:
    """Return arrays with one more at their end; the others are made when they are asked for, as before."""
    return Lazy(len(before) + 1, lambda c: last if c == len(before) else before[c])
