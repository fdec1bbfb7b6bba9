"""Inside: what the guest's first process does once, so that its sessions, which are forked from it, start quickly.

Nothing here looks at the package: the first process never does.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

PUBLIC = ("images", "gradients", "membership", "data")
"""The modules that plugins import, beside torch."""
SELDOM = frozenset({"imharness.stats", "imharness.tracks"})
"""Modules of the harness that are imported ahead like libraries: where a package imports them."""
GRADIENTS = "torch.fx.experimental.symbolic_shapes"
"""What torch imports for the first gradient of more than a number, or the first optimizer: sympy, half as long as torch
itself."""
LIBRARIES = frozenset(
    {"PIL", "cv2", "kornia", "numpy", "pywt", "safetensors", "scipy", "skimage", "torch", "torchvision"}
)
"""What may be imported ahead where a package imports it: each session would take as long again."""
MOST = 100
RECENT_S = 600.0
"""How long ago a first process that has just got ready was started at most, s."""
MANY = 26
"""Sessions after which it pays to make the start of each further one cheaper."""
_MODULE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}(\.[A-Za-z][A-Za-z0-9_]{0,40}){0,5}")
_COLLAPSE, _HUGE = 25, 1 << 21
"""MADV_COLLAPSE of Linux 6.1, and the size of a huge page."""
_OWN_MEMORY = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0\s*(?:\[heap\])?$", re.MULTILINE)
_libc = ctypes.CDLL(None, use_errno=True)


def import_ahead(libraries: Iterable[str] = ()) -> None:
    """Import what sessions are likely to import; what cannot be imported is left to them."""
    for name in (*(f"imharness.{name}" for name in PUBLIC), *libraries):
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)


def of_libraries(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of some modules that may be imported ahead, whoever named them: packages first, at most `MOST`."""
    found = [
        name for name in names if name in SELDOM or (_MODULE.fullmatch(name) and name.partition(".")[0] in LIBRARIES)
    ]
    return tuple(sorted(found, key=lambda name: name.count("."))[:MOST])


def dates() -> list[tuple[dict[str, Any], str]]:
    """Return where modules remember when they were imported: their names, and the name of such a number in them.

    It is a number of seconds since 1970 within the last `RECENT_S`; `logging` has one, and generated code.
    """
    now, found = time.time(), list[tuple[dict[str, Any], str]]()
    for names in [vars(module) for module in list(sys.modules.values())]:
        for name, value in list(names.items()):
            if type(value) in (int, float) and now - RECENT_S < value <= now:
                found.append((names, name))
    return found


def born_now(places: Sequence[tuple[dict[str, Any], str]]) -> None:
    """Let modules remember that they were imported now, so that nothing says how old the first process is."""
    for names, name in places:
        names[name] = type(names[name])(time.time())


def settle() -> None:
    """Let the collector be on, and never look at what exists now: so it copies no page of these objects in a session.

    It was off while everything was imported, which takes a tenth less time so. It does not look through them once more
    before: that takes a quarter of a second, and what nobody uses of all that was imported is little.
    """
    gc.freeze()
    gc.enable()


def to_huge_pages() -> None:
    """Move this process's memory to huge pages: a fork copies one entry for each page. Older kernels keep small ones.

    That takes as long as the forks of `MANY` sessions lose without it, a quarter of a second, so it is done after so
    many: a package that is ended or measured before needs none of it.
    """
    with open("/proc/self/maps", encoding="utf-8") as file:
        mapped = file.read()
    for found in _OWN_MEMORY.finditer(mapped):
        start, stop = int(found[1], 16), int(found[2], 16)
        first, last = -(-start // _HUGE) * _HUGE, stop // _HUGE * _HUGE
        if last > first:
            _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _COLLAPSE)
