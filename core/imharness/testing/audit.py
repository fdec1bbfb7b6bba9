"""Watches what a component does besides its work: global randomness, network, processes, files."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from imharness.errors import ContractError

ATTEMPTS = {
    "socket.connect": "tried to open a network connection",
    "socket.bind": "tried to open a network connection",
    "socket.getaddrinfo": "tried to look up a host name",
    "socket.__new__": "tried to open a socket",
    "subprocess.Popen": "tried to start a program",
    "os.system": "tried to start a program",
    "os.exec": "tried to start a program",
    "os.posix_spawn": "tried to start a program",
    "os.fork": "tried to fork",
    "os.forkpty": "tried to fork",
    "os.kill": "tried to end a process",
}
"""Audit events that no component has a reason to cause -> what they mean."""
RANDOM_STATE = "the global random state of"
"""What a message about global randomness begins with."""
_HARMLESS = ("socket.__new__", "os.kill")
"""Events that libraries cause without reaching anything; only the sandbox notes them."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_watched: dict[int, list[str]] = {}
_installed = False


def path_of(arguments: tuple[Any, ...]) -> str:
    """Return the path in an audit event of a file, as it was given, or an empty string."""
    named = bool(arguments) and isinstance(arguments[0], str | bytes | os.PathLike)
    return os.fsdecode(arguments[0]) if named else ""


def opens_to_write(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether an audit event opens a file for writing."""
    return event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & _WRITING)


def nobodys_business(path: str, folder: str) -> bool:
    """Return whether anybody may write to a path: a temporary file in `folder`, a device or byte code."""
    return path.startswith((folder, "/dev/")) or "__pycache__" in path


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    seen = _watched.get(threading.get_ident()) if _watched else None
    if seen is None:
        return
    if event in ATTEMPTS and event not in _HARMLESS:
        seen.append(event)
    elif opens_to_write(event, arguments):
        path = path_of(arguments)
        if path and not nobodys_business(path, tempfile.gettempdir()):
            seen.append(f"writing {path}")


@contextmanager
def watched() -> Iterator[list[str]]:
    """Yield a list that fills with forbidden actions of this thread; only Python code is seen, not native code."""
    global _installed
    tempfile.gettempdir()  # the first call writes a file under a lock; inside the hook it would wait for itself
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    seen: list[str] = []
    _watched[threading.get_ident()] = seen
    try:
        yield seen
    finally:
        _watched.pop(threading.get_ident(), None)


@contextmanager
def unwatched() -> Iterator[None]:
    """Note nothing that this thread does in the block, which is the harness's own work for a watched component."""
    seen = _watched.pop(threading.get_ident(), None)
    try:
        yield
    finally:
        if seen is not None:
            _watched[threading.get_ident()] = seen


@contextmanager
def undisturbed() -> Iterator[None]:
    """Raise `ContractError` if the block drew from, or changed, a global random state."""
    before = random_states()
    yield
    for name, state in random_states().items():
        if state != before.get(name, state):
            raise ContractError(f"{RANDOM_STATE} {name} changed; draw only from the given rng")


def random_states() -> Mapping[str, object]:
    """Return the state of each global generator, by library; that of the GPU once it is in use."""
    kind, keys, *rest = np.random.get_state()
    states: dict[str, object] = {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (kind, np.asarray(keys).tobytes(), *rest),
        "Python": random.getstate(),
    }
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["torch on the GPU"] = torch.cuda.get_rng_state().numpy().tobytes()
    return states
