"""Finds the runs that compute the numbers of a published table which a leaderboard lacks, in names of the profile."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from imharness.papers.published import PublishedColumn, PublishedRow, PublishedTable
from imharness.results.labels import LABEL, method_of, settings_of, with_settings, without_settings

Selected = tuple[tuple[str, tuple[str, ...]], ...]
"""Pairs of a kind of component and pointers to the components to select."""


@dataclass(frozen=True)
class Ask:
    """What a run must select for a number: `shared` is what it is a mean over, `specific` its entry and quantity."""

    shared: Selected = ()
    specific: Selected = ()


NOTHING = Ask()


@dataclass(frozen=True)
class Runs:
    """`commands` compute the missing numbers, one for each setting; `without` are components that the profile lacks."""

    commands: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def ask_of(table: PublishedTable, row: PublishedRow, column: PublishedColumn | None = None) -> Ask:
    """Return what the number at a row and a column needs; without a column, what the row of a matrix needs."""
    shared: dict[str, dict[str, None]] = {}
    data = table.data if row.data is None else row.data
    over = table.over if row.over is None else row.over
    for kind, pointers in (("dataset", data), *over.items(), *table.needs.items()):
        shared.setdefault(kind, {}).update(dict.fromkeys(pointers))
    cell_pointers = {"rows": row.ours, "columns": "" if column is None else column.ours.partition(":")[2]}
    named = [(kind, LABEL.findall(cell_pointers[side])[-1:]) for side, kind in table.kinds.items()]
    return Ask(
        tuple((kind, tuple(pointers)) for kind, pointers in shared.items() if pointers),
        tuple((kind, tuple(pointers)) for kind, pointers in named if pointers),
    )


def runs(table: PublishedTable, asks: Iterable[Ask]) -> Runs:
    """Return the commands that compute numbers; numbers with the same data and means share a command."""
    profile = table.profiles[0] if table.profiles else "paper"
    selection = table.selections.get(profile)
    settings_of: dict[Selected, dict[str, dict[str, None]]] = {}
    for ask in asks:
        wanted = settings_of.setdefault(ask.shared, {})
        for kind, pointers in ask.specific:
            wanted.setdefault(kind, {}).update(dict.fromkeys(pointers))
    commands, without = [], dict[str, None]()
    for shared, specific in settings_of.items():
        chosen, needed = _chosen(dict(shared), selection, without), _chosen(specific, selection, without)
        if all(chosen.values()) and all(needed.values()):
            words = ["harness", "run", "--profile", profile, "--track", table.track.removeprefix("harness/")]
            for kind, names in (*chosen.items(), *needed.items()):
                words += [word for name in names for word in (f"--{kind}", name)]
            commands.append(shlex.join(words))
    return Runs(tuple(commands), tuple(without))


def _chosen(
    wanted: Mapping[str, Iterable[str]], selection: Mapping[str, Sequence[str]] | None, without: dict[str, None]
) -> dict[str, list[str]]:
    """Return kind -> the names to select; pointers to components that the profile lacks are noted in `without`.

    `selection` is None for a profile of another package, which is assumed to have everything.
    """
    chosen: dict[str, list[str]] = {}
    for kind, pointers in wanted.items():
        chosen[kind] = []
        for pointer in pointers:
            selected = ("*",) if selection is None else selection.get(kind, ())
            names = names_for(pointer, selected, whole=kind == "dataset")
            chosen[kind] += [name for name in names if name not in chosen[kind]]
            if not names:
                without[without_settings(pointer)] = None
    return chosen


def names_for(pointer: str, selected: Sequence[str], *, whole: bool = False) -> list[str]:
    """Return the names by which a run selects what a pointer means in a profile's selection, perhaps none.

    With `whole`, if nothing has exactly the pointer's settings, components with any settings are meant.
    """
    bare, wanted = without_settings(pointer), settings_of(pointer)
    free, exact = "*" in wanted, wanted - {"*"}
    alike = [settings_of(name) for name in selected if not name.startswith("!") and _same(without_settings(name), bare)]
    matching = [settings for settings in alike if settings == exact or (free and exact <= settings)]
    if not matching and ("*" in frozenset().union(*alike) or {"*", "*[*]"} & set(selected)):
        matching = [exact]
    if not matching and whole:
        matching = alike
    return [with_settings(bare, sorted(settings)) for settings in matching]


def _same(name: str, bare: str) -> bool:
    return name == bare or ("/" not in name and method_of(bare) == name)
