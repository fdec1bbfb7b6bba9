"""Finds how the setting and the entries of a board differ from those of a published table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from imharness.papers.pointers import extra, match
from imharness.papers.published import PublishedTable
from imharness.results.boards import Board
from imharness.results.labels import without_settings

STAND_IN = "backbone="
"""A setting that replaces the published network by a small one."""


def settings_differ(
    table: PublishedTable, board: Board | None, data: Sequence[str], over: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return how the board's setting differs from the paper's, a line for each difference.

    `data` are the paper's data sets. `over` is kind of component -> pointers to what the numbers are means over.
    """
    if board is None:
        return ()
    wanted = table.profiles
    used = sorted({without_settings(entry.label) for entry in board.entries if entry.kind == "dataset"})
    found = [f"profile {board.profile}, not {' or '.join(wanted)}"] if board.profile not in wanted else []
    if set(used) - {*table.besides.get("dataset", ()), *data} or not set(data) <= set(used):
        found.append(f"data {', '.join(used) or 'of no known set'}, not {', '.join(data) or 'named'}")
    if board.profile in table.set_up:
        found += options_differ(board.set_up, table.set_up[board.profile])
    for kind, pointers in over.items():
        labels = [entry.label for entry in board.entries if entry.kind == kind]
        found += _others(kind, pointers, labels, table.besides.get(kind, ()))
    found += [f"the first {board.limit} images only"] if board.limit else []
    found += ["a secret split"] if board.secret else []
    return (*found, *(["a run that is not finished"] if board.waiting else []))


def entry_differs(table: PublishedTable, pointer: str, label: str) -> list[str]:
    """Return how an entry of ours differs from the published one; a chosen parameter value does not count."""
    more = [own for own in extra(pointer, label) if not table.chosen or own.startswith(STAND_IN)]
    return [
        f"{without_settings(label)} has {own}" + (", a stand-in network" if own.startswith(STAND_IN) else "")
        for own in more
    ]


def options_differ(ours: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the options and parameters in which a run differs from a profile of the same name.

    An option is named by its path; "not set" means that it has its default.
    """
    mine, theirs = dict(_leaves(ours)), dict(_leaves(wanted))
    other = [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
    lines = [f"{name} {mine.get(name, 'not set')}, not {theirs.get(name, 'its default')}" for name in other[:3]]
    return [*lines, *([f"{len(other) - 3} more options"] if len(other) > 3 else [])]


def _leaves(facts: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value in nested facts as JSON, with the path to it."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{place}{name} ")
        else:
            yield f"{place}{name}", json.dumps(value)


def _others(kind: str, pointers: Sequence[str], labels: Sequence[str], besides: Sequence[str]) -> list[str]:
    """Return which components of a kind only the paper has, and which only we have, apart from `besides`."""

    def among(label: str, known: Sequence[str]) -> bool:
        return any(match(pointer, [label])[0] for pointer in known)

    missing = [pointer for pointer in pointers if not any(among(label, [pointer]) for label in labels)]
    more = [label for label in labels if not among(label, [*pointers, *besides])]
    found = [f"without {len(missing)} of the {len(pointers)} {kind}s: {_first(missing)}"] if missing else []
    return [*found, *([f"with {kind}s that the paper lacks: {_first(more)}"] if more else [])]


def _first(names: Sequence[str]) -> str:
    return ", ".join([name.removesuffix("[*]") for name in names[:3]] + ["..."] * (len(names) > 3))
