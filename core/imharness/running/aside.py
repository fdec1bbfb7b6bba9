"""Calls a function in a process of its own, item by item: code that ends its process, or hangs, ends nothing else."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

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


def _serve(
    pipe: Connection, work: str, facts: Mapping[str, Any], items: Sequence[str], environment: Mapping[str, str]
) -> None:
    os.environ.clear()  # the server's variables may be older
    os.environ.update(environment)
    entry = importlib.metadata.EntryPoint("aside", work, "")
    answer: Callable[[str], Any] = entry.load()(facts)
    for item in items:
        pipe.send_bytes(json.dumps(answer(item)).encode())
