"""What changes when attackers know an entry: by how much its measure changes, and whether the worst attack breaks it.

All intervals are simultaneous over the entries that are asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.documents.rankings import Broken, Moved
from imharness.ranking.findings import measured
from imharness.ranking.rules import Contest, Floats
from imharness.statistics.differences import contributions
from imharness.statistics.means import means

HALF = 0.5
"""An attack breaks an entry if it leaves less than this share of the protection that the entry seems to give."""


def moved(rules: Contest, entries: Sequence[int]) -> Mapping[int, Moved]:
    """Return entry -> how its measure changes once attackers know it, over the attacks that were run both ways.

    An entry is missing where no unit has a number from both kinds of attackers.
    """
    before, after = (rules.sign * rules.against[aware] for aware in (False, True))
    with_both = [i for i in entries if not np.isnan(after[i] - before[i]).all()]
    unit_values = _by_independent_unit(rules, (after - before)[with_both])
    intervals = means(unit_values, len(with_both))
    return {
        i: Moved(
            before=_mean(rules, np.where(np.isnan(after[i]), np.nan, before[i])),
            after=_mean(rules, np.where(np.isnan(before[i]), np.nan, after[i])),
            change=measured(intervals, at),
            alpha=intervals.alpha,
            contributions=_without_nan(unit_values[at]),
        )
        for at, i in enumerate(with_both)
    }


def broken(rules: Contest, entries: Sequence[int]) -> Mapping[int, Broken]:
    """Return entry -> how much of its advantage over no defense the worst attack leaves.

    `seems` is the advantage against attackers who do not know the entry, `holds` the one under the worst attack, and
    `rest` is ``holds - HALF * seems``. The entry is broken if `seems` is shown to be above 0 and `rest` below 0.
    """
    if rules.undefended not in rules.scores.entries:
        return {}
    plain, unaware = rules.scores.entries.index(rules.undefended), rules.against[False]
    seems, holds = unaware - unaware[plain], rules.worst - rules.worst[plain]
    rest = holds - HALF * seems
    with_both = [i for i in entries if i != plain and not np.isnan(seems[i] + holds[i]).all()]
    # The first intervals are those of `seems`, one for each entry; those of `rest` follow in the same order.
    unit_values = _by_independent_unit(rules, np.concatenate([seems[with_both], rest[with_both]]))
    intervals = means(unit_values, 2 * len(entries))
    results = {}
    for at_seems, i in enumerate(with_both):
        at_rest = len(with_both) + at_seems
        is_broken = bool(intervals.above[at_seems] and intervals.below[at_rest])
        results[i] = Broken(
            seems=measured(intervals, at_seems),
            holds=_mean(rules, holds[i]),
            rest=measured(intervals, at_rest),
            attack=next(iter(rules.broken_by(i)), "") if is_broken else "",
            contributions=(_without_nan(unit_values[at_seems]), _without_nan(unit_values[at_rest])),
        )
    return results


def _by_independent_unit(rules: Contest, rows: Floats) -> list[Floats]:
    """Return what each independent unit adds to the mean of each row ``(rows, units)``: one array ``(k,)`` a row."""
    return list(contributions(rows, rules.clusters, rules.weights)) if len(rows) else []


def _without_nan(unit_values: Floats) -> tuple[float, ...]:
    return tuple(unit_values[~np.isnan(unit_values)].tolist())


def _mean(rules: Contest, numbers: Floats) -> float:
    """Return the mean of numbers ``(units,)`` over independent units, weighted as the contest weights them."""
    return float(np.nanmean(contributions(numbers[None], rules.clusters, rules.weights)))
