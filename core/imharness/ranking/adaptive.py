"""What changes when attackers know an entry: how far its measure moves, and whether the worst attack breaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.ranking.findings import measured
from imharness.ranking.rules import Contest, Floats
from imharness.results.rankings import Broken, Moved
from imharness.statistics.differences import contributions
from imharness.statistics.means import means

HALF = 0.5
"""An attack breaks an entry if it leaves less than this share of what the entry seems to protect."""


def moved(rules: Contest, entries: Sequence[int]) -> Mapping[int, Moved]:
    """Return how far knowledge moves each entry, over the attacks that were run both ways; intervals hold at once."""
    before, after = (rules.sign * rules.against[aware] for aware in (False, True))
    able = [i for i in entries if not np.isnan(after[i] - before[i]).all()]
    unit_values = _parts(rules, (after - before)[able])
    intervals = means(unit_values, len(able))
    return {
        i: Moved(
            before=_mean(rules, np.where(np.isnan(after[i]), np.nan, before[i])),
            after=_mean(rules, np.where(np.isnan(before[i]), np.nan, after[i])),
            change=measured(intervals, at),
            alpha=intervals.alpha,
            contributions=_known(unit_values[at]),
        )
        for at, i in enumerate(able)
    }


def broken(rules: Contest, entries: Sequence[int]) -> Mapping[int, Broken]:
    """Return what the worst attack leaves of each entry's advantage over no defense; intervals hold at once."""
    if rules.undefended not in rules.scores.entries:
        return {}
    plain, unaware = rules.scores.entries.index(rules.undefended), rules.against[False]
    seems, holds = unaware - unaware[plain], rules.worst - rules.worst[plain]
    able = [i for i in entries if i != plain and not np.isnan(seems[i] + holds[i]).all()]
    rest = holds - HALF * seems
    unit_values = _parts(rules, np.concatenate([seems[able], rest[able]]))
    intervals = means(unit_values, 2 * len(entries))
    results = {}
    for at, i in enumerate(able):
        is_broken = bool(intervals.above[at] and intervals.below[len(able) + at])
        results[i] = Broken(
            seems=measured(intervals, at),
            holds=_mean(rules, holds[i]),
            rest=measured(intervals, len(able) + at),
            attack=next(iter(rules.broken_by(i)), "") if is_broken else "",
            contributions=(_known(unit_values[at]), _known(unit_values[len(able) + at])),
        )
    return results


def _parts(rules: Contest, rows: Floats) -> list[Floats]:
    return list(contributions(rows, rules.clusters, rules.weights)) if len(rows) else []


def _known(unit_values: Floats) -> tuple[float, ...]:
    return tuple(unit_values[~np.isnan(unit_values)].tolist())


def _mean(rules: Contest, numbers: Floats) -> float:
    return float(np.nanmean(contributions(numbers[None], rules.clusters, rules.weights)))
