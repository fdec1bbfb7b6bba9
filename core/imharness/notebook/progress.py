"""Shows how far an evaluation is: with a bar in a notebook or terminal, or regular lines in a log."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from imharness.cli import console
from imharness.cli.progress import BAR_EVERY_S, view_of
from imharness.running.schedule.state import RunState
from imharness.running.views import View


@contextmanager
def shown_progress(title: str, wanted: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many cells are done while the block runs; yields a function to call with (done, total)."""
    shown = _in_notebook(title) if wanted and in_notebook() else console.progress(title, shown=wanted)
    with shown as advance:
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
        self._opened = _in_notebook("run")
        self._advance = self._opened.__enter__()

    def show(self, state: RunState) -> None:
        self._advance(state.done + state.failed, state.total)

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def _in_notebook(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar in the output of a cell, and remove it at the end."""
    display: Any = sys.modules["IPython"].display
    handle = display.display(display.HTML(_bar(title, 0, 1)), display_id=True)
    try:
        yield lambda done, total: handle.update(display.HTML(_bar(title, done, total)))
    finally:
        handle.update(display.HTML(""))


def _bar(title: str, done: int, total: int) -> str:
    return f"{html.escape(title)} <progress value='{done}' max='{total}'></progress> {done:,} of {total:,} cells"
