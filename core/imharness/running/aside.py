"""Calls a function in a process of its own: code that ends its process, or hangs, ends nothing else."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch

from imharness.running.local import processes, without_script
from imharness.running.memory import why_ended


class Answer(NamedTuple):
    """What came of an item: the answer of the function, in JSON, or why there is none."""

    item: str
    found: Any
    ended: str = ""


def each_aside(work: str, facts: Mapping[str, Any], items: Sequence[str], limit_s: float) -> Iterator[Answer]:
    """Yield the answer to each item, in their order.

    Args:
        work: names a function as ``module:function``. It is called in the process with `facts`, and returns a function
            of an item.
        facts: an object in JSON.
        items: what the function is called with. An item on which the process ends, or that takes more than `limit_s`
            seconds, has no answer, and a new process goes on with the next one.
    """
    left = list(items)
    while left:
        here, there = processes(True).Pipe()
        process = processes(True).Process(
            target=_serve, args=(there, work, dict(facts), left, dict(os.environ)), daemon=True
        )
        with without_script():
            process.start()
        there.close()
        while left:
            try:
                ended = "" if here.poll(limit_s) else f"took longer than {limit_s:g} s"
                found = None if ended else json.loads(here.recv_bytes())
            except (EOFError, OSError):
                process.join(5)
                found, ended = None, why_ended(process.exitcode)
            yield Answer(left.pop(0), found, ended)
            if ended:
                break
        here.close()
        process.kill()
        process.join()


def can_copy() -> bool:
    """Return whether this process can be copied: on Windows it cannot, and on macOS libraries do not survive it."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def in_copy(work: Callable[[], Any], limit_s: float) -> Answer:
    """Return the answer of a function in a copy of this process, which ends with it; the function may be a closure.

    Nothing that it changes changes here. The answer is in JSON. The copy has one thread and no terminal, and cannot use
    CUDA if this process does.
    """
    here, there = Pipe(duplex=False)
    with warnings.catch_warnings(action="ignore"):  # of other threads, which a copy does not have
        child = os.fork()
    if child == 0:
        try:
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                sys.stdout = sys.stderr = nowhere
                torch.set_num_threads(1)  # those of this process are not in the copy, and waiting for them never ends
                there.send_bytes(json.dumps(work()).encode())
        finally:
            os._exit(0)
    there.close()
    try:
        ended = "" if here.poll(limit_s) else f"took longer than {limit_s:g} s"
        return Answer("", None if ended else json.loads(here.recv_bytes()), ended)
    except (EOFError, OSError):
        return Answer("", None, "the copy of the process ended")
    finally:
        here.close()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _serve(
    pipe: Connection, work: str, facts: Mapping[str, Any], items: Sequence[str], environment: Mapping[str, str]
) -> None:
    os.environ.clear()  # the server's variables may be older
    os.environ.update(environment)
    entry = importlib.metadata.EntryPoint("aside", work, "")
    answer: Callable[[str], Any] = entry.load()(facts)
    for item in items:
        pipe.send_bytes(json.dumps(answer(item)).encode())
