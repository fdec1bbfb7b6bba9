"""Calls a function in a process of its own: code that ends its process, or hangs, ends nothing else."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import torch

from imharness.running.local import processes, without_script
from imharness.running.memory import why_ended


class Answer(NamedTuple):
    """What a call of the function with an `item` gave: its `result`, in JSON, or why there is none in `ended`."""

    item: str
    result: Any
    ended: str = ""


def each_aside(address: str, facts: Mapping[str, Any], items: Sequence[str], limit_s: float) -> Iterator[Answer]:
    """Call a function in another process with each item, and yield the answers in the order of the items.

    If the process ends while it works on an item, or takes more than `limit_s` seconds, that item has no result, and a
    new process goes on with the next one. The start of a process counts to the seconds of its first item.

    Args:
        address: a maker of the function, as ``module:maker``. The process calls it with `facts`, and it returns the
            function.
        facts: an object in JSON.
        items: the function is called with one of them at a time.
        limit_s: the longest that an item may take, in seconds.
    """
    remaining = list(items)
    while remaining:
        here, there = processes(True).Pipe()
        process = processes(True).Process(
            target=_serve, args=(there, address, dict(facts), remaining, dict(os.environ)), daemon=True
        )
        with without_script():
            process.start()
        there.close()
        while remaining:
            try:
                ended = "" if here.poll(limit_s) else f"took longer than {limit_s:g} s"
                reply = None if ended else json.loads(here.recv_bytes())
            except (EOFError, OSError):
                process.join(5)
                reply, ended = None, why_ended(process.exitcode)
            yield Answer(remaining.pop(0), reply, ended)
            if ended:
                break
        here.close()
        process.kill()
        process.join()


def can_copy() -> bool:
    """Return whether this process can be copied: on Windows it cannot, and on macOS libraries do not survive it."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def in_copy(job: Callable[[], Any], limit_s: float) -> Answer:
    """Return the answer of a function in a copy of this process; the copy ends with the function.

    The function may be a closure and returns JSON. What it changes stays unchanged in this process. The copy has one
    thread and no terminal, and cannot use CUDA if this process does.
    """
    copy = _copied(job)
    try:
        if not copy.pipe.poll(limit_s):
            return Answer("", None, f"took longer than {limit_s:g} s")
        return copy.answer("")
    finally:
        copy.end()


def in_copies(job: Callable[[str], Any], items: Sequence[str], workers: int) -> Iterator[Answer]:
    """Yield the answer to each item as it comes, from copies of this process, as `in_copy` makes them.

    Args:
        job: called with an item in a copy of its own.
        workers: how many copies there are at once, at least 1. They end with this process, and with the iterator.
    """
    waiting, running = list(items), dict[Any, tuple[str, _Copy]]()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                item = waiting.pop(0)
                copy = _copied(partial(job, item))
                running[copy.pipe] = (item, copy)
            for pipe in wait(list(running)):
                item, copy = running.pop(pipe)
                answer = copy.answer(item)
                copy.end()
                yield answer
    finally:
        for _, copy in running.values():
            copy.end()


class _Copy(NamedTuple):
    """A copy of this process.

    Args:
        process: its number.
        pipe: where its answer comes from.
        alive: our end of a pipe on which nothing is sent; when it closes, the copy knows that we have ended.
    """

    process: int
    pipe: Connection
    alive: Connection

    def answer(self, item: str) -> Answer:
        """Wait for the answer to an item."""
        try:
            return Answer(item, json.loads(self.pipe.recv_bytes()))
        except (EOFError, OSError):
            return Answer(item, None, "the copy of the process ended")

    def end(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.pipe.close()
        self.alive.close()


def _copied(job: Callable[[], Any]) -> _Copy:
    """Start a copy of this process that sends the answer of a function."""
    here, there = Pipe(duplex=False)
    watched, alive = Pipe(duplex=False)
    with warnings.catch_warnings(action="ignore"):  # of other threads, which a copy does not have
        child = os.fork()
    if child == 0:
        try:
            alive.close()
            threading.Thread(target=_end_with, args=(watched,), daemon=True).start()
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                sys.stdout = sys.stderr = nowhere
                torch.set_num_threads(1)  # those of this process are not in the copy, and waiting for them never ends
                there.send_bytes(json.dumps(job()).encode())
        finally:
            os._exit(0)
    there.close()
    watched.close()
    return _Copy(child, here, alive)


def _end_with(watched: Connection) -> None:
    """End this process when the process at the other end of the pipe has ended or closed it."""
    with suppress(EOFError, OSError):
        watched.recv_bytes()
    os._exit(1)


def _serve(
    pipe: Connection, address: str, facts: Mapping[str, Any], items: Sequence[str], environment: Mapping[str, str]
) -> None:
    """In the other process of `each_aside`: make the function, and send what it returns for each item."""
    os.environ.clear()  # the server's variables may be older
    os.environ.update(environment)
    make = importlib.metadata.EntryPoint("aside", address, "").load()
    answer: Callable[[str], Any] = make(facts)
    for item in items:
        pipe.send_bytes(json.dumps(answer(item)).encode())
