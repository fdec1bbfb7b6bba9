"""Finds how the setting and the entries of a leaderboard differ from those of a published table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from imharness.documents.leaderboards import Leaderboard
from imharness.papers.pointers import extra, match
from imharness.papers.published import PublishedColumn, PublishedRow, PublishedTable
from imharness.results.labels import LABEL, without_settings

STAND_IN = "backbone="
"""A setting that replaces the published network by a small one."""


def settings_differ(
    table: PublishedTable, leaderboard: Leaderboard | None, data: Sequence[str], over: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return how the leaderboard's setting differs from the paper's, a line for each difference.

    `data` are the paper's data sets. `over` is kind of component -> pointers to what the numbers are means over.
    """
    if leaderboard is None:
        return ()
    differences = []
    if leaderboard.profile not in table.profiles:
        differences.append(f"profile {leaderboard.profile}, not {' or '.join(table.profiles)}")
    used = sorted({without_settings(entry.label) for entry in leaderboard.entries if entry.kind == "dataset"})
    others, lacking = set(used) - {*table.besides.get("dataset", ()), *data}, set(data) - set(used)
    if others or lacking:
        differences.append(f"data {', '.join(used) or 'of no known set'}, not {', '.join(data) or 'named'}")
    if leaderboard.profile in table.set_up:
        differences += options_differ(leaderboard.set_up, table.set_up[leaderboard.profile])
    for kind, pointers in over.items():
        labels = [entry.label for entry in leaderboard.entries if entry.kind == kind]
        differences += _others(kind, pointers, labels, table.besides.get(kind, ()))
    differences += [f"the first {leaderboard.limit} images only"] if leaderboard.limit else []
    differences += ["a secret split"] if leaderboard.secret else []
    return (*differences, *(["a run that is not finished"] if leaderboard.waiting else []))


def entry_differs(table: PublishedTable, pointer: str, label: str) -> list[str]:
    """Return how an entry of ours differs from the published one; a chosen parameter value does not count."""
    more = [setting for setting in extra(pointer, label) if not table.chosen or setting.startswith(STAND_IN)]
    return [
        f"{without_settings(label)} has {setting}" + (", a stand-in network" if setting.startswith(STAND_IN) else "")
        for setting in more
    ]


def computed_otherwise(
    table: PublishedTable, row: PublishedRow, column: PublishedColumn | None = None
) -> tuple[tuple[str, str], ...]:
    """Return what the authors' code computes otherwise than the paper says, as far as a number depends on it.

    Each is a pair: what is computed otherwise, which is the row or the column of the number or a component in its mean,
    and a sentence. Without a column, the row is one of a table of who beats whom.
    """
    differences = [(line.label, line.otherwise) for line in (row, column) if line is not None and line.otherwise]
    over = table.over if row.over is None else row.over
    pointers = [row.ours, "" if column is None else column.ours]
    pointers += [pointer for of_kind in over.values() for pointer in of_kind]
    labels = dict.fromkeys(label for pointer in pointers for label in LABEL.findall(pointer)[-1:])
    for pointer, sentence in table.otherwise.items():
        if any(_means(pointer, label) for label in labels):
            differences.append((without_settings(pointer), sentence))
    return tuple(differences)


def _means(pointer: str, label: str) -> bool:
    """Return whether a pointer means a label."""
    return match(pointer, [label])[0] is not None


def options_differ(ours: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the options and parameters in which a run differs from a profile of the same name.

    An option is named by its path; "not set" means that it has its default.
    """
    mine, theirs = dict(_leaves(ours)), dict(_leaves(wanted))
    other = [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
    lines = [f"{name} {mine.get(name, 'not set')}, not {theirs.get(name, 'its default')}" for name in other[:3]]
    return [*lines, *([f"{len(other) - 3} more options"] if len(other) > 3 else [])]


def _leaves(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value in nested facts as JSON, with the path to it."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", json.dumps(value)


def _others(kind: str, pointers: Sequence[str], labels: Sequence[str], besides: Sequence[str]) -> list[str]:
    """Return which components of a kind only the paper has, and which only we have, apart from `besides`.

    `pointers` are what the paper's numbers are means over, `labels` the components of our leaderboard.
    """
    missing = [pointer for pointer in pointers if not any(_means(pointer, label) for label in labels)]
    allowed = [*pointers, *besides]
    more = [label for label in labels if not any(_means(pointer, label) for pointer in allowed)]
    differences = [f"without {len(missing)} of the {len(pointers)} {kind}s: {_first(missing)}"] if missing else []
    return [*differences, *([f"with {kind}s that the paper lacks: {_first(more)}"] if more else [])]


def _first(names: Sequence[str]) -> str:
    return ", ".join([name.removesuffix("[*]") for name in names[:3]] + ["..."] * (len(names) > 3))
