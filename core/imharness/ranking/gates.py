"""What a winner has to keep: a test of non-inferiority for each entry, with four answers.

How far an entry lies above the least that it must keep is measured on every independent unit, paired with the
undefended entry. It passes where the interval of the mean lies above 0, fails where it lies below, and otherwise the
data do not show which. The intervals of all entries of a leaderboard hold at once, so that "fails" is true of all of
whom it is said. The more entries there are, the longer are these intervals, and whoever adds entries would open the
gate for one that costs too much. So the question who may win is asked of each entry alone: it is "doubtful" where its
own interval, as if there were no others, lies below 0, and "undecided" where that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from imharness.results.rankings import Kept, State
from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import Floats
from imharness.statistics.means import JACKKNIFED, Means, means

_RIGHT = 1e-9
"""A number this near to 0 or 1 is a wrong or a right answer."""


@dataclass(frozen=True)
class Gate:
    """Something that an entry must keep to win.

    `above`: what each independent unit adds to how far an entry lies above the least that it must keep ``(k,)``; empty
    where it was not measured on every unit, None for entries that it does not ask. `least`: that least, in words.
    `among`: among how many entries the one was chosen, on the same numbers, that others are held against. `values`:
    all numbers that a unit of an entry can add, where these are few, such as those of right and wrong answers, or
    none: rare losses then have an interval that holds. `fewest`: how many units an interval needs at least.
    """

    label: str
    least: str
    above: Callable[[str], Floats | None]
    decimals: int = 3
    among: int = 1
    values: Callable[[str], Sequence[float]] = lambda entry: ()
    fewest: int = FEWEST


def share_of(
    label: str,
    undefended: str,
    share: float,
    pair_of: Callable[[str], tuple[npt.ArrayLike, npt.ArrayLike] | None],
    *,
    better: str = "higher",
    decimals: int = 3,
    among: int = 1,
    jackknifed: bool = False,
    answers: bool = False,
) -> Gate:
    """Return the gate on utility: an entry must not lose more than a `share` of what the undefended one has.

    `pair_of`: what each independent unit adds to the utility of an entry and to that of the undefended one, ``(k,)``
    each, on the same units and metrics; None where the entry was not measured on all of them. `jackknifed`: whether
    `imharness.leaderboard.jackknife` made what units add. `answers`: whether units are answers, 1 where they are right
    and 0 where they are wrong, unless several of one unit were averaged.
    """
    way = -1 if better == "lower" else 1

    @cache
    def both(entry: str) -> Floats | None:
        pair = pair_of(entry)
        return None if pair is None else way * np.asarray(pair, dtype=np.float64)

    def beyond(defended: Floats, plain: Floats, sign: float) -> Floats:
        return np.asarray(defended - plain + share * sign * plain)

    def above(entry: str) -> Floats:
        pair = both(entry)
        return np.zeros(0) if pair is None else beyond(pair[0], pair[1], _sign(pair[1]))

    def values(entry: str) -> Sequence[float]:
        pair = both(entry)
        if not answers or pair is None or not np.isclose(pair * (pair - way), 0.0, atol=_RIGHT).all():
            return ()
        defended, plain = np.meshgrid((0.0, way), (0.0, way))
        return [float(x) for x in beyond(defended.ravel(), plain.ravel(), _sign(pair[1]))]

    return Gate(
        label,
        f"within {share:.0%} of {undefended}",
        above,
        decimals,
        among,
        values,
        JACKKNIFED if jackknifed else FEWEST,
    )


def _sign(plain: Floats) -> float:
    return float(np.sign(plain.mean() if len(plain) else 0.0))


def kept(gates: Sequence[Gate], entries: Sequence[str], undefended: str) -> Mapping[str, tuple[Kept, ...]]:
    """Return what each entry keeps, gate by gate; the undefended entry is asked nothing."""
    answers: dict[str, list[Kept]] = {entry: [] for entry in entries}
    for gate in gates:
        above = {entry: gate.above(entry) for entry in entries if entry != undefended}
        measured = {entry: array for entry, array in above.items() if array is not None}
        numbers, values = list(measured.values()), [gate.values(entry) for entry in measured]
        intervals = means(numbers, gate.among * len(measured), values, gate.fewest)
        alone = means(numbers, gate.among, values, gate.fewest)
        for i, entry in enumerate(measured):
            fields = {"contributions": tuple(measured[entry].tolist()), "values": tuple(values[i])}
            answers[entry].append(_answer(gate, intervals, alone, i).model_copy(update=fields))
    return {entry: tuple(entry_answers) for entry, entry_answers in answers.items()}


def state_of(answers: Sequence[Kept]) -> State:
    """Return the answer to all gates together: the worst of them."""
    order: tuple[State, ...] = ("fails", "not measured", "doubtful", "undecided")
    return next((state for state in order if any(answer.state == state for answer in answers)), "passes")


def _answer(gate: Gate, intervals: Means, alone: Means, i: int) -> Kept:
    units = int(intervals.units[i])
    facts = {
        "label": gate.label,
        "least": gate.least,
        "decimals": gate.decimals,
        "units": units,
        "alpha": intervals.alpha,
    }
    if not units:
        return Kept(state="not measured", **facts)
    unsure: State = "doubtful" if alone.below[i] else "undecided"
    state: State = "passes" if intervals.above[i] else "fails" if intervals.below[i] else unsure
    ends = {} if np.isnan(intervals.low[i]) else {"low": float(intervals.low[i]), "high": float(intervals.high[i])}
    return Kept(state=state, value=float(intervals.value[i]), needed=intervals.needed_for(i), **ends, **facts)
