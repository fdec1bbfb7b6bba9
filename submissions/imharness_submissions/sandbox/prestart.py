"""Inside: what the guest's first process does once, so that its sessions, which are forked from it, start quickly.

Nothing here looks at the package: the first process never does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

PUBLIC = ("images", "gradients", "membership", "data")
"""The modules that plugins import, beside torch."""
SELDOM = frozenset({"imharness.leaderboard", "imharness.tracks"})
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
_MODULE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}(\.[A-Za-z][A-Za-z0-9_]{0,40}){0,5}")


def import_ahead(libraries: Iterable[str] = ()) -> None:
    """Import what sessions are likely to import; what cannot be imported is left to them."""
    for name in (*(f"imharness.{name}" for name in PUBLIC), GRADIENTS, *libraries):
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)


def of_libraries(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of some modules that may be imported ahead, whoever named them: packages first, at most `MOST`."""
    modules = [
        name for name in names if name in SELDOM or (_MODULE.fullmatch(name) and name.partition(".")[0] in LIBRARIES)
    ]
    return tuple(sorted(modules, key=lambda name: name.count("."))[:MOST])


def dates() -> list[tuple[dict[str, Any], str]]:
    """Return where modules remember when they were imported: the namespace of each, and the name of the variable.

    Its value is a number of seconds since 1970 within the last `RECENT_S`; `logging` has one, and generated code.
    """
    now, bindings = time.time(), list[tuple[dict[str, Any], str]]()
    for namespace in [vars(module) for module in list(sys.modules.values())]:
        for name, value in list(namespace.items()):
            if type(value) in (int, float) and now - RECENT_S < value <= now:
                bindings.append((namespace, name))
    return bindings


def born_now(places: Sequence[tuple[dict[str, Any], str]]) -> None:
    """Let modules remember that they were imported now, so that nothing says how old the first process is.

    `places`: what `dates` returned.
    """
    for namespace, name in places:
        namespace[name] = type(namespace[name])(time.time())


def settle() -> None:
    """Switch the garbage collector on, but let it skip what exists now.

    Looking at an object writes to its page of memory, which a forked session then has to copy. It was off while
    everything was imported, which takes a tenth less time so. It does not look through these objects once more before:
    that takes a quarter of a second, and what nobody uses of all that was imported is little.
    """
    gc.freeze()
    gc.enable()
