"""Who is shown how far a run is, and how often: showing it takes a small share of the run's time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from imharness.running.schedule.state import RunState

SHARE = 0.05
"""Of the time of a run, what each thing that is done about it, again and again, may take in its main thread."""
NOTICED_S = 0.05
"""What takes less is not worth being put off."""


def pause_after(took: float) -> float:
    """Return the seconds to wait until something is done again that took so many: counting 10^6 tasks takes long."""
    return took / SHARE if took > NOTICED_S else 0.0


class View(Protocol):
    """Shows a run. `every_s`: how often it wants to be told."""

    every_s: float

    def show(self, state: RunState) -> None:
        """Show how far a run is."""

    def close(self) -> None:
        """End the show."""


class Nothing:
    """Shows nothing."""

    every_s = float("inf")

    def show(self, state: RunState) -> None:
        pass

    def close(self) -> None:
        pass


def _silent(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Watcher:
    """Who is told how a run goes.

    Args:
        view: shows how far it is; `others`, too.
        note: gets a line when the first tables of a track are there.
        warn: gets a line for what went wrong and ends nothing.
        listeners: name -> who is told of new tables, beside the plugins; see `open_listeners`.
    """

    view: View = field(default_factory=Nothing)
    others: Sequence[View] = ()
    note: Callable[[str], None] = _silent
    warn: Callable[[str], None] = _silent
    listeners: Mapping[str, object] = field(default_factory=dict)


def short(name: str) -> str:
    """Return a track or an entry without its owner."""
    return name.partition("/")[2] or name
