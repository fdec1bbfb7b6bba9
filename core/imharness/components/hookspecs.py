"""The hooks: functions that a package may implement, to offer something or to hear of an event.

A package names what implements a hook by an entry point in the group ``imharness``. The name of the entry point says
which hook that is: ``NAME`` stands for `components`, and ``NAME.HOOK`` for another hook, as
``acme.leaderboard_finished``. It is imported only when its hook is called.

The value of the entry point is

- a module that implements the hook;
- for `components`, a package whose ``PLUGIN_MODULES`` lists such modules, or packages of such modules;
- ``module:attribute``, which is an object with the hook as a method, or the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from imharness.components.standings import Standings
    from imharness.contracts.component import Component
    from imharness.documents.leaderboards import Leaderboard
    from imharness.results.store import Store

API_VERSION = "1.0"
"""The version of the public modules, MAJOR.MINOR; a plugin module may state the one it needs as ``IMHARNESS_API``."""
PROJECT = "imharness"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def components() -> list[Component]:
    """Return the components that this module offers.

    They are instances with the parameters that they should have by default. The same class may be returned several
    times with different parameters.
    """


@hookspec
def leaderboard_finished(store: str, leaderboards: Sequence[Leaderboard], release: str | None) -> None:
    """Take note of new tables: called once after a run, after `harness results rank` and after a release.

    `store` is the address of the store, `leaderboards` has the tables of each track with new ones, and `release` is the
    name of the release, or None if nothing was published. An exception in an implementation becomes a warning.
    """


@hookspec
def listeners() -> Mapping[str, Callable[[str], object]]:
    """Return destinations for ``--log-to NAME:ADDRESS``, by name.

    Each is a function of the address, which is "" if none was given. It returns an object with a method
    `leaderboard_finished` that is marked with `hookimpl`. If nothing can be sent to the address, it raises
    `Unavailable` or `UsageError`. It is called before anything runs.
    """


@hookspec
def standings(store: Store) -> Standings:
    """Return what is known about the entries of a store: what was submitted, and what was decided about it."""


@hookspec
def doctor() -> Mapping[str, str]:
    """Return what `harness doctor` should show: name of the check -> what it found, in one line."""


@hookspec(firstresult=True)
def build_site(store: str, folder: Path) -> Sequence[str]:
    """Write the pages of a store's tables into a folder; return one line for each thing that was left out.

    `store` is the address of the store. An exception in an implementation is passed on to the caller.
    """
