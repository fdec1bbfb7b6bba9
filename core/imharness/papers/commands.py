"""Writes the `harness run` commands that compute those numbers of a published table that a leaderboard lacks."""

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
    """What a run must select to compute one number.

    `shared` are the data sets and components that the number is a mean over, which many numbers of a table share.
    `specific` are the components of its entry and of its quantity.
    """

    shared: Selected = ()
    specific: Selected = ()


NOTHING = Ask()


@dataclass(frozen=True)
class Runs:
    """The runs that compute missing numbers.

    `commands` has one command for each setting, which is the `Ask.shared` of its numbers. `without` are pointers to
    components that the profile lacks; numbers that need them are in no command.
    """

    commands: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def ask_of(table: PublishedTable, row: PublishedRow, column: PublishedColumn | None = None) -> Ask:
    """Return what the number at a row and a column needs; without a column, what the row of a matrix needs."""
    shared: dict[str, dict[str, None]] = {}
    data = table.data if row.data is None else row.data
    over = table.over if row.over is None else row.over
    for kind, pointers in (("dataset", data), *over.items(), *table.needs.items()):
        shared.setdefault(kind, {}).update(dict.fromkeys(pointers))
    pointer_of_column = "" if column is None else column.ours.partition(":")[2]
    pointer_of_side = {"rows": row.ours, "columns": pointer_of_column}
    specific = [(kind, LABEL.findall(pointer_of_side[side])[-1:]) for side, kind in table.kinds.items()]
    return Ask(
        tuple((kind, tuple(pointers)) for kind, pointers in shared.items() if pointers),
        tuple((kind, tuple(pointers)) for kind, pointers in specific if pointers),
    )


def runs(table: PublishedTable, asks: Iterable[Ask]) -> Runs:
    """Return the commands that compute numbers of a table; numbers with equal `Ask.shared` have one command."""
    profile = table.profiles[0] if table.profiles else "paper"
    selection = table.selections.get(profile)
    specific_by_shared: dict[Selected, dict[str, dict[str, None]]] = {}  # the inner dicts are kind -> pointers
    for ask in asks:
        specific = specific_by_shared.setdefault(ask.shared, {})
        for kind, pointers in ask.specific:
            specific.setdefault(kind, {}).update(dict.fromkeys(pointers))
    commands, without = [], dict[str, None]()
    for shared, specific in specific_by_shared.items():
        shared_names = _chosen(dict(shared), selection, without)
        specific_names = _chosen(specific, selection, without)
        if not (all(shared_names.values()) and all(specific_names.values())):
            continue
        words = ["harness", "run", "--profile", profile, "--track", table.track.removeprefix("harness/")]
        for kind, names in (*shared_names.items(), *specific_names.items()):
            for name in names:
                words += [f"--{kind}", name]
        commands.append(shlex.join(words))
    return Runs(tuple(commands), tuple(without))


def _chosen(
    wanted: Mapping[str, Iterable[str]], selection: Mapping[str, Sequence[str]] | None, without: dict[str, None]
) -> dict[str, list[str]]:
    """Return kind -> the names by which a run selects what the pointers in `wanted` mean.

    `selection` is kind -> the names that the profile selects; None stands for a profile of another package, which is
    assumed to have everything. Pointers to components that the profile lacks are added to `without`.
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
    """Return the names by which a run selects what a pointer means, such as ``harness/crop[size=64]``; perhaps none.

    Args:
        pointer: a label of ours; see `imharness.papers.pointers`.
        selected: the names that the profile selects for the kind of component.
        whole: whether components with any settings are meant if none has exactly the settings of the pointer.
    """
    id, wanted = without_settings(pointer), settings_of(pointer)
    more_allowed, required = "*" in wanted, wanted - {"*"}
    settings_in_profile = [
        settings_of(name) for name in selected if not name.startswith("!") and _names(without_settings(name), id)
    ]
    matching = [
        settings for settings in settings_in_profile if settings == required or (more_allowed and required <= settings)
    ]
    any_settings = "*" in frozenset().union(*settings_in_profile)
    any_component = bool({"*", "*[*]"} & set(selected))
    if not matching and (any_settings or any_component):
        matching = [required]
    if not matching and whole:
        matching = settings_in_profile
    return [with_settings(id, sorted(settings)) for settings in matching]


def _names(name: str, id: str) -> bool:
    """Return whether a name, with or without the owner, is that of the component `id`."""
    return name == id or ("/" not in name and method_of(id) == name)
