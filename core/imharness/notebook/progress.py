"""Shows how far an evaluation is: with a bar in a notebook or terminal, or regular lines in a log."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from imharness.cli import console
from imharness.cli.progress import BAR_EVERY_S, elapsed_of, left_of, view_of
from imharness.running.schedule.state import RunState
from imharness.running.views import View, short


@contextmanager
def shown_progress(title: str, wanted: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many tasks are done while the block runs; yields a function to call with (done, total)."""
    if wanted and in_notebook():
        with _in_notebook() as show:
            yield lambda done, total: show(_bar(title, done, total))
    else:
        with console.progress(title, visible=wanted) as advance:
            yield advance


def view_of_run(wanted: bool) -> View:
    """Return the view of a run: a bar in a notebook, bars on a terminal, lines in a log, or nothing."""
    if wanted and in_notebook():
        return NotebookBar()
    return view_of(console.progress_form("auto", quiet=not wanted))


class NotebookBar:
    """Shows a run as a bar in the output of a notebook's cell, and removes it at the end."""

    every_s = BAR_EVERY_S

    def __init__(self) -> None:
        self._opened = _in_notebook()
        self._show = self._opened.__enter__()

    def show(self, state: RunState) -> None:
        tracks = ", ".join(short(track) for track in state.tracks)
        timing = ", ".join(phrase for phrase in (elapsed_of(state), left_of(state)) if phrase)
        self._show(_bar(tracks, state.done + state.failed, state.total, timing))

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def _in_notebook() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows HTML in the output of a cell, in place of the last; the block's end removes it."""
    display: Any = sys.modules["IPython"].display
    handle = display.display(display.HTML(""), display_id=True)
    try:
        yield lambda markup: handle.update(display.HTML(markup))
    finally:
        handle.update(display.HTML(""))


def _bar(title: str, done: int, total: int, timing: str = "") -> str:
    bar = f"{html.escape(title)} <progress value='{done}' max='{total}'></progress> {done:,} of {total:,} tasks"
    return f"{bar}, {html.escape(timing)}" if timing else bar
