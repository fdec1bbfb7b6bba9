"""The hooks: what a package may answer or be told of.

A package names its modules by entry points in the group ``imharness``. One called ``NAME`` is a module that implements
`components`, or a package whose ``PLUGIN_MODULES`` lists the modules (or packages of modules) that do. One called
``NAME.HOOK`` is a module that implements another hook, such as ``acme.board_finished``; it is imported when that hook
is called, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from imharness.components.standings import Standings
    from imharness.contracts.component import Component
    from imharness.results.boards import Board
    from imharness.results.store import Store

API_VERSION = "2.1"
"""Version of the public modules, MAJOR.MINOR; a plugin module may ask for one with ``IMHARNESS_API``."""
PROJECT = "imharness"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def components() -> list[Component]:
    """Return the components that this module offers.

    They are instances, with the parameters they are to have by default; the same class may be returned several times
    with other parameters.
    """


@hookspec
def board_finished(store: str, boards: Sequence[Board], release: str | None) -> None:
    """Take note of new tables, once after a run, after `harness results rank` and after a release was published.

    `store` is the address of the store, `boards` has the tables of each track that has new ones, `release` is the name
    of the release, None where nothing was published. What an implementation raises becomes a warning.
    """


@hookspec
def listeners() -> Mapping[str, Callable[[str], object]]:
    """Return destinations for ``--log-to NAME:ADDRESS``, by name.

    Each is a function of the address, "" where none was given. It returns an object with a method `board_finished`,
    marked with `hookimpl`, or raises `Unavailable` or `UsageError` where nothing can be sent there; that is before
    anything runs.
    """


@hookspec
def standings(store: Store) -> Standings:
    """Return what is known of the entries of a store: what was submitted, and what was decided about it."""


@hookspec
def doctor() -> Mapping[str, str]:
    """Return what `harness doctor` is to show: the name of each check -> what was found, in one line."""


@hookspec(firstresult=True)
def build_site(store: str, folder: Path) -> Sequence[str]:
    """Write the pages of a store's tables into a folder; return one line for each thing that was left out.

    `store` is the address of the store. What an implementation raises goes to whoever asked for the pages.
    """
