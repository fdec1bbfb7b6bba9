"""Who is shown how far a run is, and how often, so that showing it takes a small share of the run's time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from imharness.running.schedule.state import RunState

SHARE = 0.05
"""The share of a run's time that each repeated activity, such as showing its state, may take in the main thread."""
NOTICED_S = 0.05
"""Seconds; an activity that takes less is never delayed."""


def pause_after(took: float) -> float:
    """Return how many seconds to wait before repeating an activity that took `took` seconds.

    Counting 10^6 tasks, for example, takes long.
    """
    return took / SHARE if took > NOTICED_S else 0.0


class View(Protocol):
    """Shows a run. `every_s` is the number of seconds between two states that it wants."""

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
    """Who is informed about a run.

    Args:
        view: shows how far the run is.
        others: further views.
        note: gets a line when the first tables of a track are ready.
        warn: gets a line for each problem that does not end the run.
        listeners: name -> a listener that is told about new tables, in addition to plugins; see `open_listeners`.
    """

    view: View = field(default_factory=Nothing)
    others: Sequence[View] = ()
    note: Callable[[str], None] = _silent
    warn: Callable[[str], None] = _silent
    listeners: Mapping[str, object] = field(default_factory=dict)


def short(name: str) -> str:
    """Return a track or an entry without its owner."""
    return name.partition("/")[2] or name
