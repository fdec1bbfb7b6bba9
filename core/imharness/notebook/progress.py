"""How far an evaluation is: a bar in a notebook or terminal, a line now and then in a log."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from imharness.cli import console
from imharness.running.sweep import RunResult

Watch = Callable[[RunResult, Mapping[str, float]], None]


@contextmanager
def shown_progress(title: str, total: int, wanted: bool) -> Iterator[Watch]:
    """Show how many of `total` cells are done while the block runs; the value is the `watch` of `execute`."""
    shown = _in_notebook(title) if wanted and in_notebook() else console.progress(title, shown=wanted)
    with shown as advance:
        yield lambda outcome, running: advance(len(outcome.done) + len(outcome.failed), total)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def _in_notebook(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar in the output of a cell, and take it away in the end."""
    display: Any = sys.modules["IPython"].display
    handle = display.display(display.HTML(_bar(title, 0, 1)), display_id=True)
    try:
        yield lambda done, total: handle.update(display.HTML(_bar(title, done, total)))
    finally:
        handle.update(display.HTML(""))


def _bar(title: str, done: int, total: int) -> str:
    return f"{html.escape(title)} <progress value='{done}' max='{total}'></progress> {done:,} of {total:,} cells"
