"""What a winner has to keep: a test of non-inferiority for each entry, with four answers.

How far an entry lies above the least that it must keep is measured on every independent unit, paired with the
undefended entry. It passes where the interval of the mean lies above 0, fails where it lies below, and otherwise the
data do not show which. The intervals of all entries of a board hold at once, so that "fails" is true of all of whom it
is said. The more entries there are, the longer are these intervals, and whoever adds entries would open the gate for
one that costs too much. So the question who may win is asked of each entry alone: it is "doubtful" where its own
interval, as if there were no others, lies below 0, and "not told" where that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from imharness.results.rankings import Kept, State
from imharness.statistics.differences import Floats, Told
from imharness.statistics.means import means


@dataclass(frozen=True)
class Gate:
    """Something that an entry must keep to win.

    `above`: what each independent unit adds to how far an entry lies above the least that it must keep ``(k,)``; empty
    where it was not measured on every unit, None for entries that it does not ask. `least`: that least, in words.
    `among`: among how many entries the one was chosen, on the same numbers, that others are held against.
    """

    label: str
    least: str
    above: Callable[[str], Floats | None]
    decimals: int = 3
    among: int = 1


def share_of(
    label: str,
    undefended: str,
    share: float,
    parts: Callable[[str], tuple[npt.ArrayLike, npt.ArrayLike] | None],
    *,
    better: str = "higher",
    decimals: int = 3,
    among: int = 1,
) -> Gate:
    """Return the gate on utility: an entry must not lose more than a `share` of what the undefended one has.

    `parts`: what each independent unit adds to the utility of an entry and to that of the undefended one, ``(k,)``
    each, on the same units and metrics; None where the entry was not measured on all of them.
    """
    way = -1 if better == "lower" else 1

    def above(entry: str) -> Floats:
        found = parts(entry)
        if found is None:
            return np.zeros(0)
        own, plain = (way * np.asarray(x, dtype=np.float64) for x in found)
        return np.asarray(own - plain + share * np.sign(plain.mean() if len(plain) else 0.0) * plain)

    return Gate(label, f"within {share:.0%} of {undefended}", above, decimals, among)


def kept(gates: Sequence[Gate], entries: Sequence[str], undefended: str) -> Mapping[str, tuple[Kept, ...]]:
    """Return what each entry keeps, gate by gate; the undefended entry is asked nothing."""
    found: dict[str, list[Kept]] = {entry: [] for entry in entries}
    for gate in gates:
        parts = {entry: gate.above(entry) for entry in entries if entry != undefended}
        asked = {entry: own for entry, own in parts.items() if own is not None}
        told = means(list(asked.values()), gate.among * len(asked))
        alone = means(list(asked.values()), gate.among)
        for i, entry in enumerate(asked):
            found[entry].append(_answer(gate, told, alone, i))
    return {entry: tuple(own) for entry, own in found.items()}


def state_of(answers: Sequence[Kept]) -> State:
    """Return the answer to all gates together: the worst of them."""
    order: tuple[State, ...] = ("fails", "not measured", "doubtful", "not told")
    return next((state for state in order if any(own.state == state for own in answers)), "passes")


def _answer(gate: Gate, told: Told, alone: Told, i: int) -> Kept:
    units = int(told.units[i])
    facts = {"label": gate.label, "least": gate.least, "decimals": gate.decimals, "units": units}
    if not units:
        return Kept(state="not measured", **facts)
    unsure: State = "doubtful" if alone.below[i] else "not told"
    state: State = "passes" if told.above[i] else "fails" if told.below[i] else unsure
    ends = {} if np.isnan(told.half[i]) else {"low": float(told.low[i]), "high": float(told.high[i])}
    return Kept(state=state, value=float(told.value[i]), needed=told.needed_for(i), **ends, **facts)
