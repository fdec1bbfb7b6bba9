"""What a component does beside its work: global randomness, network, processes, files."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from imharness.errors import ContractError

_FORBIDDEN = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.bind",
    "subprocess.Popen",
    "os.system",
    "os.fork",
    "os.exec",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_watched: dict[int, list[str]] = {}
_installed = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    seen = _watched.get(threading.get_ident()) if _watched else None
    if seen is None:
        return
    if event in _FORBIDDEN:
        seen.append(event)
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING and not _own(arguments[0]):
        seen.append(f"writing {arguments[0]}")


def _own(path: object) -> bool:
    """Temporary files, byte code and devices are nobody's business."""
    text = os.fsdecode(path) if isinstance(path, str | bytes) else str(path)
    return text.startswith((tempfile.gettempdir(), "/dev/")) or "__pycache__" in text or isinstance(path, int)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Yield a list that fills with what this thread does and should not; hooks see Python code, not native code."""
    global _installed
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
def undisturbed() -> Iterator[None]:
    """Raise `ContractError` when the block drew from, or changed, a global random state."""
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())  # type: ignore[index]
    yield
    after = (torch.get_rng_state(), np.random.get_state()[1], random.getstate())  # type: ignore[index]
    same = (torch.equal(before[0], after[0]), np.array_equal(before[1], after[1]), before[2] == after[2])
    for name, kept in zip(("torch", "numpy", "random"), same, strict=True):
        if not kept:
            raise ContractError(f"the global random state of {name} changed; draw from the rng that is handed in only")
