"""What a task prints, warns and logs, kept beside its result, with bounded size and without control characters.

A log is ``logs/ab/<key>.json`` in the store of the task. It is not part of the result: no key, row or seal depends on
it, and a run continues if a log cannot be written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import re
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TextIO

from pydantic import BaseModel, ConfigDict

from imharness.errors import StoreError
from imharness.reading.text import stripped, warning_text
from imharness.results.storage.files import Files

FOLDER = "logs"
FIRST, LAST = 16_384, 49_152
"""How many characters at the beginning and at the end of a longer log are kept."""
EVERY_S = 5.0
"""Seconds between two writes of the log of a running task."""
_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\))")
_RETURN = re.compile(r"\r\n?")


class TaskLog(BaseModel):
    """The log of the last attempt at a task that printed anything. `updated` is when it was written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    host: str
    pid: int
    started: str
    updated: str
    text: str


class Lines:
    """A text that grows; only the beginning and the end of a long one are kept. Threads may add to it at once."""

    def __init__(self) -> None:
        self._first, self._last = list[str](), deque[str]()
        self._room, self._size, self.dropped = FIRST, 0, 0

    def add(self, text: str) -> None:
        """Add a text at the end."""
        if self._room > 0:
            head, text = text[: self._room], text[self._room :]
            self._room -= len(head)
            self._first.append(head)
        if len(text) > LAST:
            self.dropped += len(text) - LAST
            text = text[-LAST:]
        if text:
            self._last.append(text)
            self._size += len(text)
        while self._last and self._size - len(self._last[0]) >= LAST:
            gone = len(self._last.popleft())
            self._size -= gone
            self.dropped += gone

    def __str__(self) -> str:
        """Return the text without characters that a terminal would interpret."""
        cut = f"\n... {self.dropped:,} characters are left out ...\n" if self.dropped else ""
        whole = "".join(self._first) + cut + "".join(list(self._last))
        whole = _RETURN.sub("\n", _SEQUENCE.sub("", whole))
        return "\n".join(map(stripped, whole.split("\n")))

    def __bool__(self) -> bool:
        return bool(self._first)


class _Kept:
    """Collects the output of this process while a task runs, and writes it into a store from time to time."""

    def __init__(self, store: Files, key: str) -> None:
        self._store, self._key, self._started = store, key, _now()
        self._lines, self._over = Lines(), threading.Event()
        self._writer: threading.Thread | None = None
        self._others = {*threading.enumerate()} - {threading.current_thread()}

    def hear(self, text: str) -> None:
        """Add output of this process, except that of threads that ran before the task."""
        if threading.current_thread() not in self._others:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a text."""
        if not text or self._over.is_set():
            return
        self._lines.add(text)
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_often, name="log of a task", daemon=True)
            self._writer.start()

    def close(self) -> None:
        """Write the log if there was any output."""
        self._over.set()
        if self._writer is not None:
            self._writer.join()
            self._write()

    def _write_often(self) -> None:
        while not self._over.wait(EVERY_S):
            self._write()

    def _write(self) -> None:
        log = TaskLog(
            key=self._key,
            host=platform.node(),
            pid=os.getpid(),
            started=self._started,
            updated=_now(),
            text=str(self._lines),
        )
        with contextlib.suppress(StoreError):
            self._store.replace(_file(self._key), log)


class _Tee:
    """A stream that keeps what is written to it and passes it on."""

    def __init__(self, behind: TextIO, log: _Kept) -> None:
        self._behind, self._log = behind, log

    def write(self, text: str) -> int:
        self._log.hear(text)
        return self._behind.write(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


class _Handler(logging.Handler):
    """Keeps what is logged, and shows it on the error stream if no other handler does."""

    def __init__(self, behind: TextIO, log: _Kept) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self._behind, self._log, self._alone = behind, log, not logging.root.handlers

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
            self._log.hear(line)
            if self._alone:
                self._behind.write(line)
        except Exception:  # as every handler of logging does: a log ends no task, and logging says what failed
            self.handleError(record)


_open_logs: list[_Kept] = []
_shown_warnings: set[str] = set()


@contextlib.contextmanager
def keeping(store: Files, key: str) -> Iterator[None]:
    """Keep the output of this process while the block runs as the log of a task.

    This includes ``sys.stdout`` and ``sys.stderr``, Python's warnings and `logging`, the traceback of an exception that
    ends the block, and texts given to `log_output`. All output is also passed on to where it went before; a warning
    only once per process. The log does not include what libraries in C write to the file descriptors, or the output of
    threads that ran before.
    """
    log, streams = _Kept(store, key), (sys.stdout, sys.stderr)
    handler = _Handler(streams[1], log)

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        log.hear(text)
        short = warning_text(message, category, filename, lineno, line)
        if short not in _shown_warnings:
            _shown_warnings.add(short)
            (file or streams[1]).write(short)

    _open_logs.append(log)
    logging.root.addHandler(handler)
    try:
        with (
            contextlib.redirect_stdout(_Tee(streams[0], log)),
            contextlib.redirect_stderr(_Tee(streams[1], log)),
            warnings.catch_warnings(),
        ):
            warnings.showwarning = show
            yield
    except BaseException:
        log.add(traceback.format_exc())
        raise
    finally:
        logging.root.removeHandler(handler)
        _open_logs.remove(log)
        log.close()


def log_output(text: str) -> None:
    """Add the output of another process, which need not be trusted, to the log of the task that runs here, if any."""
    for log in _open_logs:
        log.add(text)


def log_of(store: Files, key: str) -> TaskLog | None:
    """Return the log of a task, or None if it printed nothing; raises `DamagedError` if the log is damaged."""
    return store.current(_file(key), TaskLog)


def keys_of_logs(store: Files, start: str) -> list[str]:
    """Return the sorted keys of tasks with a log that start with these digits."""
    folder = f"{FOLDER}/{start[:2]}" if len(start) >= 2 else FOLDER
    names = (name.rpartition("/")[2] for name in store.names(folder))
    return sorted(key for key in names if key.startswith(start))


def _file(key: str) -> str:
    return f"{FOLDER}/{key[:2]}/{key}.json"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
