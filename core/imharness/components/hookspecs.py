"""The hooks that a plugin module implements, one of them or both.

A package names one entry point in the group ``imharness``: a module that implements a hook, or a package whose
``PLUGIN_MODULES`` lists the modules (or packages of modules) that do.
"""

from collections.abc import Sequence

import pluggy

from imharness.contracts.component import Component
from imharness.results.records import Board

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
