"""Notices if a user's object draws from global randomness, which the seed of an evaluation does not reach.

The states of the generators of torch, numpy and Python are compared before and after each call, which takes about ten
microseconds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from imharness.testing.audit import random_states

HOW = {
    "defense": "take the random streams as its last argument, imharness.defense(..., random=True), and draw from them",
    "attack": "draw from the random streams, its last argument",
}
"""Kind of object -> how it should get its randomness."""
OTHERWISE = "draw from a generator of its own with a fixed seed"
DRAWS = " draws from the global randomness of "
_calls: list[_Call] = []
"""The calls that are going on, one inside the other."""
_drew: dict[str, str] = {}
"""Label of an object that drew -> the warning about it."""
_drew_in_task: dict[str, str] = {}
"""The same for the task that is being computed."""


class _Call:
    """One call of a user's object; `drew` has the generators that it advanced, as `random_states` names them."""

    def __init__(self) -> None:
        self.before, self.drew = random_states(), dict[str, None]()

    def look(self) -> None:
        """Note which generators have advanced since the last look."""
        now = random_states()
        self.drew.update(dict.fromkeys(name for name, state in now.items() if state != self.before.get(name, state)))
        self.before = now


@contextmanager
def watched(kind: str, label: str) -> Iterator[None]:
    """Notice whether the block draws from global randomness; a draw of another object inside it counts for that one."""
    outer = _calls[-1] if _calls else None
    if outer is not None:
        outer.look()
    call = _Call()
    _calls.append(call)
    try:
        yield
    finally:
        _calls.remove(call)
        call.look()
        if outer is not None:
            outer.before = call.before
        if call.drew:
            _drew[label] = _drew_in_task[label] = (
                f"{label}{DRAWS}{' and '.join(call.drew)}, which no seed reaches: "
                f"computed again, its numbers may differ. Let it {HOW.get(kind, OTHERWISE)}."
            )


def say_who_drew() -> list[str]:
    """Warn about each object that has drawn since the last call, and return their labels."""
    notes = dict(_drew)
    _drew.clear()
    for line in notes.values():
        warnings.warn(line, stacklevel=3)
    return list(notes)


def notes_of_task() -> list[str]:
    """Return the notes for the record of a task that has ended: a line for each object that drew in it."""
    notes = list(_drew_in_task.values())
    _drew_in_task.clear()
    return notes


def noted(notes: Iterable[str], labels: Iterable[str]) -> set[str]:
    """Return the labels of the objects that drew according to the notes of a record."""
    lines = list(notes)
    return {label for label in labels if any(line.startswith(f"{label}{DRAWS}") for line in lines)}
