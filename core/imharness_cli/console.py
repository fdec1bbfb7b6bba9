"""The one module that prints: rich tables and progress for people, JSON for machines.

What a terminal would interpret is taken out of all texts, wherever they come from.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from imharness_files.text import stripped

EVERY_S = 20.0
"""Time between two lines of progress in a log."""
PIPED_WIDTH = 200
"""Columns of a table that goes to a file or another program, unless COLUMNS says otherwise."""

_piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
out = Console(highlight=False, width=PIPED_WIDTH if _piped else None)
err = Console(stderr=True, highlight=False)


def _shown(text: str) -> str:
    return escape(stripped(text))


def say(text: str) -> None:
    """Print one line of plain text."""
    out.print(_shown(text), soft_wrap=True)


def warn(text: str) -> None:
    """Print one line to the error stream."""
    err.print(f"[yellow]warning:[/] {_shown(text)}", soft_wrap=True)


def emit(facts: object) -> None:
    """Print facts as one JSON document."""
    out.file.write(stripped(json.dumps(facts, indent=2, ensure_ascii=False, default=str)) + "\n")


def emit_each(facts: Iterable[object]) -> None:
    """Print facts as one JSON list, each as soon as it is known."""
    between = "["
    for fact in facts:
        out.file.write(f"{between}\n{stripped(json.dumps(fact, indent=2, ensure_ascii=False, default=str))}")
        between = ","
    out.file.write("\n]\n" if between == "," else "[]\n")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; every cell is plain text."""
    grid = Table(title=_shown(title), title_justify="left", header_style="bold")
    for column in columns:
        grid.add_column(_shown(column), overflow="fold")
    for row in rows:
        grid.add_row(*(_shown(str(cell)) for cell in row))
    out.print(grid)


@contextmanager
def progress(title: str, *, shown: bool = True, logged: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with an estimate on the error stream while the block runs; call the value with (done, total).

    `logged`: where the error stream is no terminal, print a line every `EVERY_S` seconds.
    """
    if logged and shown and not err.is_terminal:
        with _lines(title) as advance:
            yield advance
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not (shown and err.is_terminal)) as bar:
        task = bar.add_task(escape(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _lines(title: str) -> Iterator[Callable[[int, int], None]]:
    """Print every now and then how far the block is, also while it does not say so itself."""
    start, over, state = time.monotonic(), threading.Event(), [""]

    def say_so() -> None:
        while not over.wait(EVERY_S):
            err.print(_shown(f"{title}{state[0]}, {time.monotonic() - start:.0f} s"), soft_wrap=True)

    def advance(done: int, total: int) -> None:
        state[0] = f", {done:,} of {total:,}"

    speaker = threading.Thread(target=say_so, daemon=True)
    speaker.start()
    try:
        yield advance
    finally:
        over.set()
        speaker.join()
