"""Pointers from a published row or column to ours.

A pointer is a label of ours. ``*`` outside brackets stands for any text. The label must have the settings in brackets,
and with ``*`` among them it may have more: ``harness/crop[*]`` also means ``harness/crop[size=64]``.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from imharness.results.labels import settings_of, without_settings


def extra(pointer: str, label: str) -> tuple[str, ...]:
    """Return the settings of a label that a pointer does not name, sorted."""
    return tuple(sorted(settings_of(label) - settings_of(pointer)))


def match(pointer: str, labels: Sequence[str]) -> tuple[str | None, str]:
    """Return the label that a pointer means and "", or None and why there is none.

    The label itself comes first, then the one with the fewest settings beyond the pointer's; if two have equally few,
    there is none.
    """
    if pointer in labels:
        return pointer, ""
    wanted = settings_of(pointer)
    free = "*" in wanted
    fitting = [
        label
        for label in labels
        if fnmatch.fnmatchcase(without_settings(label), without_settings(pointer))
        and wanted - {"*"} <= settings_of(label)
        and (free or settings_of(label) == wanted or "*" in without_settings(pointer))
    ]
    if not fitting:
        return None, f"{pointer} is not there"
    fewest = min(len(extra(pointer, label)) for label in fitting)
    nearest = sorted(label for label in fitting if len(extra(pointer, label)) == fewest)
    if len(nearest) > 1:
        return None, f"{pointer} may be {' or '.join(nearest[:3])}"
    return nearest[0], ""
