"""Pointers from a published row or column to ours.

A pointer is a label of ours. ``*`` outside brackets stands for any text. Settings in brackets must be those of the
label; with ``*`` among them the label may have more: ``harness/crop[*]`` is also ``harness/crop[size=64]``.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Sequence

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_COMMA = re.compile(r",(?![^(]*\))")
KEPT = 4096
"""Labels whose parts are remembered."""


@functools.lru_cache(maxsize=KEPT)
def plain(label: str) -> str:
    """Return a label without the settings in brackets."""
    while (found := _BRACKETS.sub("", label)) != label:
        label = found
    return label


@functools.lru_cache(maxsize=KEPT)
def settings(label: str) -> frozenset[str]:
    """Return the settings in brackets, such as ``size=64``."""
    return frozenset(part.strip() for found in _BRACKETS.findall(label) for part in _COMMA.split(found) if part.strip())


def extra(pointer: str, label: str) -> tuple[str, ...]:
    """Return the settings of a label that a pointer does not name, sorted."""
    return tuple(sorted(settings(label) - settings(pointer)))


def match(pointer: str, labels: Sequence[str]) -> tuple[str | None, str]:
    """Return the label that a pointer means, and else why there is none.

    The label itself comes first, then the one with the fewest settings beyond the pointer's; where two have as few,
    there is none.
    """
    if pointer in labels:
        return pointer, ""
    wanted = settings(pointer)
    free = "*" in wanted
    fitting = [
        label
        for label in labels
        if fnmatch.fnmatchcase(plain(label), plain(pointer))
        and wanted - {"*"} <= settings(label)
        and (free or settings(label) == wanted or "*" in plain(pointer))
    ]
    if not fitting:
        return None, f"{pointer} is not there"
    fewest = min(len(extra(pointer, label)) for label in fitting)
    nearest = sorted(label for label in fitting if len(extra(pointer, label)) == fewest)
    if len(nearest) > 1:
        return None, f"{pointer} may be {' or '.join(nearest[:3])}"
    return nearest[0], ""
