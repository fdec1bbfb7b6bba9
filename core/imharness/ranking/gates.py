"""Gates: what an entry has to keep in order to win, such as utility. Each gate is a test of non-inferiority.

A gate has a threshold: the least that an entry must keep. On every independent unit the gate measures how far the entry
lies above the threshold, paired with the undefended entry. The interval of the mean gives the answer:

- "passes": the interval lies above 0.
- "fails": the interval lies below 0. The intervals of all entries of a leaderboard hold at once, so "fails" is true of
  every entry of which it is said.
- "doubtful": that interval has 0 in it, but the entry's own interval, as if there were no other entries, lies below 0.
  The more entries there are, the longer are the intervals that hold at once; without this answer, whoever adds
  entries to a leaderboard would let one win that costs too much.
- "undecided": both intervals have 0 in them.

Only "passes" and "undecided" let an entry win.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from imharness.documents.rankings import Kept, State
from imharness.statistics.clusters import FEWEST
from imharness.statistics.differences import Floats
from imharness.statistics.means import JACKKNIFED, Means, means

_RIGHT = 1e-9
"""A number this near to 0 or 1 is a wrong or a right answer."""


@dataclass(frozen=True)
class Gate:
    """Something that an entry must keep to win.

    Attributes:
        label: what is to be kept, such as "test accuracy".
        least: the threshold in words, such as "within 5% of no defense".
        above: entry -> how far each independent unit lies above the threshold, ``(k,)``, in the unit of the measure;
            the mean of these numbers is tested. Empty where the entry was not measured on every unit; None for an
            entry that the gate does not test.
        decimals: with how many decimals numbers are printed.
        among: from how many entries the undefended one was chosen, by the numbers that the gate tests; 1 where it was
            fixed beforehand. Intervals are corrected for this choice.
        values: entry -> all numbers that a unit of it can add, if there are only a few, such as for right and wrong
            answers; else nothing. With these, intervals hold for rare losses, too.
        fewest: with fewer units than this there is no interval.
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

    Args:
        label: the name of the utility.
        undefended: the entry that the others are compared with, for `Gate.least`.
        share: how much of the undefended utility may be lost, in [0, 1].
        pair_of: entry -> what each independent unit adds to the utility of the entry and to that of the undefended one,
            ``(k,)`` each, on the same units and metrics; None where the entry was not measured on all of them.
        better: "higher", or "lower" if less of the utility is better.
        decimals, among: as in `Gate`.
        jackknifed: whether the numbers of `pair_of` are those of `imharness.leaderboard.jackknife`.
        answers: whether the numbers of `pair_of` are answers, 1 where they are right and 0 where they are wrong. Units
            that average several answers are recognised, and have intervals as other numbers do.
    """
    direction = -1 if better == "lower" else 1  # utilities times this number: more is better

    @cache
    def both(entry: str) -> Floats | None:
        pair = pair_of(entry)
        return None if pair is None else direction * np.asarray(pair, dtype=np.float64)

    def beyond(defended: Floats, plain: Floats, sign: float) -> Floats:
        """Return how far utilities lie above the threshold, which is ``plain - share * abs(plain)``."""
        return np.asarray(defended - plain + share * sign * plain)

    def above(entry: str) -> Floats:
        pair = both(entry)
        return np.zeros(0) if pair is None else beyond(pair[0], pair[1], _sign(pair[1]))

    def values(entry: str) -> Sequence[float]:
        pair = both(entry)
        if not answers or pair is None:
            return ()
        are_answers = np.isclose(pair * (pair - direction), 0.0, atol=_RIGHT).all()  # each number is 0 or `direction`
        if not are_answers:
            return ()
        defended, plain = np.meshgrid((0.0, direction), (0.0, direction))
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
    """Return the sign of the undefended utility ``(k,)``: 1, -1 or 0."""
    return float(np.sign(plain.mean() if len(plain) else 0.0))


def kept(gates: Sequence[Gate], entries: Sequence[str], undefended: str) -> Mapping[str, tuple[Kept, ...]]:
    """Return entry -> the answer of each gate, in the order of `gates`; the undefended entry has none."""
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
    """Return the answer of a gate for entry i. `alone`: the intervals as if there were no other entries."""
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
