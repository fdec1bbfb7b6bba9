"""The only module that prints: tables and progress for people, JSON for machines.

Characters that a terminal would interpret are removed from all texts, wherever they come from.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from imharness.reading.text import stripped
from imharness.results.version import SCHEMA

PIPED_WIDTH = 200
"""The width of tables that go to a file or another program, in characters, unless COLUMNS says otherwise."""

PROGRESS = ("auto", "bar", "plain", "json", "none")
LINE_EVERY_S = 30.0
"""Seconds between two lines of progress in a log."""
INDENT = "    "

_piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
out = Console(highlight=False, width=PIPED_WIDTH if _piped else None)
err = Console(stderr=True, highlight=False)


def _shown(text: str) -> str:
    return escape(stripped(text))


def say(text: str) -> None:
    """Print one line of plain text."""
    out.print(_shown(text), soft_wrap=True)


def screen(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines, each with a style that a terminal shows and a pipe leaves out."""
    for text, style in lines:
        out.print(_shown(text), style=style, soft_wrap=True)


def warn(text: str) -> None:
    """Print one line to the error stream."""
    err.print(f"[yellow]warning:[/] {_shown(text)}", soft_wrap=True)


def emit(facts: Mapping[str, object]) -> None:
    """Print facts as one JSON object; see `document`."""
    out.file.write(document(facts))


def document(facts: Mapping[str, object]) -> str:
    """Return facts as one JSON object, which begins with the version of its format."""
    return _json({"schema_version": SCHEMA, **facts}) + "\n"


def emit_each(name: str, facts: Iterable[object]) -> None:
    """Print facts as the list `name` of one JSON object, each fact as soon as it is known."""
    out.file.write(f'{{"schema_version": {SCHEMA}, "{name}": [')
    between = ""
    for fact in facts:
        out.file.write(f"{between}\n{_json(fact)}")
        between = ","
    out.file.write("\n]}\n" if between else "]}\n")


def _json(fact: object) -> str:
    return stripped(json.dumps(fact, indent=2, ensure_ascii=False, default=str))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: with borders on a terminal, and elsewhere a line for each row, in columns, for other programs.

    A terminal that is too narrow for the borders shows the lines. Columns that do not fit beside the others, the widest
    first, stand below each row, as "heading: text". Words are never broken.
    """
    texts = [[" ".join(str(text).split()) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    if out.is_terminal and sum(widths) + 3 * len(widths) + 1 <= out.width:
        grid = Table(title=_shown(title), title_justify="left", header_style="bold")
        for column in columns:
            grid.add_column(_shown(column))
        for row in rows:
            grid.add_row(*(_shown(str(text)) for text in row))
        out.print(grid)
        return
    say(title)
    beside = _fitting(widths) if out.is_terminal else list(range(len(widths)))
    below = [i for i in range(len(widths)) if i not in beside]

    def print_columns(line: Sequence[str]) -> None:
        wrapped("  ".join(line[i].ljust(widths[i]) for i in beside).rstrip())

    if any(columns):
        print_columns(columns)
    for line in texts:
        print_columns(line)
        for heading, text in ((columns[i], line[i]) for i in below if line[i]):
            wrapped(f"{heading}: {text}" if heading else text, INDENT)


def _fitting(widths: Sequence[int]) -> list[int]:
    """Return the positions of the columns that fit beside each other: the first, and all but the widest others."""
    beside = list(range(len(widths)))
    while len(beside) > 1 and sum(widths[i] + 2 for i in beside) - 2 > out.width:
        beside.remove(max(beside[1:], key=lambda i: widths[i]))
    return beside


def wrapped(text: str, indent: str = "") -> None:
    """Print a line; on a terminal that is too narrow, several: broken between words."""
    whole = indent + text
    if not out.is_terminal or len(whole) <= out.width:
        say(whole)
        return
    further = indent + INDENT if indent else ""
    for line in textwrap.wrap(
        text,
        out.width,
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        say(line)


def note(text: str) -> None:
    """Print one plain line to the error stream."""
    err.print(_shown(text), soft_wrap=True)


def progress_form(wanted: str, *, quiet: bool = False) -> str:
    """Return how to show progress, as one of `PROGRESS`: "auto" becomes a bar on a terminal and lines in a log.

    If `quiet`, "auto" becomes "none".
    """
    if wanted != "auto":
        return wanted
    return "none" if quiet else "bar" if err.file.isatty() else "plain"


def bars(*columns: ProgressColumn) -> Progress:
    """Return rows of progress for the error stream: a description, a bar, done and total, then these columns."""
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *columns, console=err)


@contextmanager
def progress(title: str, *, visible: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Show progress on the error stream while the block runs; yields a function to call with (done, total).

    A terminal shows a bar with an estimate; a log gets a line every `LINE_EVERY_S` seconds.
    """
    form = progress_form("auto", quiet=not visible)
    if form == "plain":
        with _lines(title) as advance:
            yield advance
    elif form == "bar":
        with bars(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()) as rows:
            task = rows.add_task(escape(title), total=None)
            yield lambda done, total: rows.update(task, completed=done, total=total)
    else:
        yield lambda done, total: None


@contextmanager
def _lines(title: str) -> Iterator[Callable[[int, int], None]]:
    """Print regularly how far the block is, even while it does not report progress itself."""
    start, over, state = time.monotonic(), threading.Event(), [""]

    def say_so() -> None:
        while not over.wait(LINE_EVERY_S):
            note(f"{title}{state[0]}, {time.monotonic() - start:.0f} s")

    def advance(done: int, total: int) -> None:
        state[0] = f": {done:,} of {total:,}"

    speaker = threading.Thread(target=say_so, daemon=True)
    speaker.start()
    try:
        yield advance
    finally:
        over.set()
        speaker.join()
