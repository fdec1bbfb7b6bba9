"""How a run is shown while it is going on: bars on a terminal, lines in a log, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

from rich.markup import escape
from rich.progress import TaskID, TextColumn

from imharness.cli import console
from imharness.running.schedule.state import RunState
from imharness.running.views import Nothing, View, short

BAR_EVERY_S = 0.5
NOTE_WIDTH = 60
LEAST_S = 90.0
"""A lower bound of fewer seconds is not shown: the first task of each step also prepares, which the others do not."""
NAMED = 4
"""A line names at most this many running tasks, those that have run longest."""


def view_of(form: str) -> View:
    """Return the view that shows a run in one of the forms of `console.progress_form`."""
    views: dict[str, Callable[[], View]] = {"bar": Bars, "plain": Lines, "json": JsonLines, "none": Nothing}
    return views[form]()


class Lines(Nothing):
    """Prints a line regularly, and one at the end."""

    every_s = console.LINE_EVERY_S

    def show(self, state: RunState) -> None:
        console.note(line_of(state))


class JsonLines(Nothing):
    """Prints the state as one line of JSON regularly."""

    every_s = console.LINE_EVERY_S

    def show(self, state: RunState) -> None:
        console.note(json.dumps(state.model_dump(mode="json"), ensure_ascii=False))


class Bars:
    """Shows a bar for each track, with its running tasks, and one for all tracks."""

    every_s = BAR_EVERY_S

    def __init__(self) -> None:
        self._rows = console.bars(TextColumn("{task.fields[note]}"))
        self._ids: dict[str, TaskID] = {}
        self._rows.start()

    def show(self, state: RunState) -> None:
        for track, counts in state.tracks.items():
            busy = [running.task for running in state.running if running.track == track]
            self._row(short(track), counts.done, counts.total, shortened(", ".join(busy)))
        remarks = [elapsed_of(state), left_of(state), *([f"{state.failed} failed"] if state.failed else [])]
        self._row("all", state.done, state.total, ", ".join(remark for remark in remarks if remark))

    def _row(self, name: str, done: int, total: int, note: str) -> None:
        if name not in self._ids:
            self._ids[name] = self._rows.add_task(escape(name), total=total, note="")
        self._rows.update(self._ids[name], completed=done, total=total, note=escape(note))

    def close(self) -> None:
        self._rows.stop()


def line_of(state: RunState) -> str:
    """Return one line that says how far a run is, what is left, what failed and what it is computing."""
    tracks = ", ".join(f"{short(track)} {counts.done:,}/{counts.total:,}" for track, counts in state.tracks.items())
    phrases = [f"{elapsed_of(state)}: {state.done:,} of {state.total:,} tasks ({tracks})", left_of(state)]
    if state.failed:
        phrases.append(f"{state.failed:,} failed")
    if state.running:
        longest = sorted(state.running, key=lambda running: -running.seconds)[:NAMED]
        more = [f"{len(state.running) - NAMED:,} more"] if len(state.running) > NAMED else []
        phrases.append("now " + "; ".join([*(f"{now.task} ({now.seconds:.0f} s)" for now in longest), *more]))
    return ", ".join(phrase for phrase in phrases if phrase)


def elapsed_of(state: RunState) -> str:
    """Return how long a run has been going on, as in 04:05, 01:04:05 or, after two days, 48:04:05."""
    gone = datetime.fromisoformat(state.updated) - datetime.fromisoformat(state.started)
    minutes, seconds = divmod(round(gone.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}".removeprefix("00:")


def left_of(state: RunState) -> str:
    """Return the remaining time in words, or the state of a run that has ended."""
    if state.state != "running":
        return state.state
    if state.done + state.failed == state.total:
        return "making tables and pages"
    if state.left_s is None or (state.at_least and state.left_s < LEAST_S):
        return "time left not known yet"
    if state.at_least:
        return f"time left not known yet, at least {duration(state.left_s)}"
    return f"about {duration(state.left_s)} left"


def duration(seconds: float) -> str:
    """Return a time in words, as in 40 s, 12 min or 3 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60:,} h {minutes % 60:02} min"


def shortened(text: str) -> str:
    """Return a text cut to fit beside a bar."""
    return text if len(text) <= NOTE_WIDTH else f"{text[: NOTE_WIDTH - 1]}…"
