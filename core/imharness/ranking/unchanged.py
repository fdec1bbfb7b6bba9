"""Returns stored tables instead of making them again, while nothing that they were made from has changed.

Tables are made from the results, the settings of the run, the decisions about entries, and the code that makes tables.
The digest of all these is the *origin* of the tables, and is stored in `Leaderboard.origin`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import pkgutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from imharness.components.code import code_of, digest_of_files, package_files, required_by_harness
from imharness.components.hookspecs import PROJECT
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard, read_numbers, write_leaderboard
from imharness.errors import DamagedError, PluginError
from imharness.ranking.leaderboard import Progress, as_set_up, made_leaderboard, quiet
from imharness.results.identity import DISTRIBUTION, digest, version_of
from imharness.results.store import Store, Survey
from imharness.results.sweeps import Sweep

if TYPE_CHECKING:
    from imharness.components.entries import KnownEntries
    from imharness.contracts.track import Track

PACKAGES = "imharness"
"""The beginning of the names of the harness's own packages."""
_STARTED = time.time()
"""When this process started, about; seconds since 1970."""


def current_leaderboard(
    store: Store,
    track: Track,
    sweep: Sweep,
    catalogue: KnownEntries,
    progress: Callable[[str], Progress] = quiet,
    *,
    keep: bool = True,
) -> tuple[Leaderboard, Mapping[str, npt.NDArray[np.floating]]]:
    """Return the tables of a configuration, with the scores behind them, as `made_leaderboard` does.

    Where nothing has changed, these are the stored ones; else they are made, and stored if `keep`.
    """
    origin = ""
    with suppress(DamagedError):  # tables are then made, which raises the error for the damaged file
        origin = origin_of(store, track, sweep, catalogue)
        if leaderboard := made_from(store, track, origin):
            return leaderboard, read_numbers(store, leaderboard)
    leaderboard, numbers = made_leaderboard(store, track, sweep, catalogue, progress)
    leaderboard = leaderboard.model_copy(update={"origin": origin})
    return write_leaderboard(store, leaderboard, numbers) if keep else leaderboard, numbers


def made_from(store: Store, track: Track, origin: str) -> Leaderboard | None:
    """Return the stored tables of a track if they were made from this origin; raises `DamagedError`."""
    leaderboard = read_leaderboard(store, track.info.id)
    return leaderboard if leaderboard is not None and origin and leaderboard.origin == origin else None


def unchanged_leaderboard(
    store: Store, track: Track, sweep: Sweep, catalogue: KnownEntries, survey: Survey
) -> Leaderboard | None:
    """Return the stored tables of a configuration if nothing has changed since they were made, or None.

    The files of tasks are compared by their digests and not opened; arrays are checked, too. `survey`: the files of
    the store. None also for a configuration that is missing or damaged in the store, which then has to be written
    again together with its tables.
    """
    with suppress(DamagedError):
        if store.sweep(track.info.id, sweep.run_configuration) is None:
            return None
        leaderboard = made_from(store, track, origin_of(store, track, sweep, catalogue, survey))
        if leaderboard is not None and store.has_arrays(sweep, survey):
            if leaderboard.numbers is not None:
                store.check(leaderboard.numbers)
            return leaderboard
    return None


def origin_of(store: Store, track: Track, sweep: Sweep, catalogue: KnownEntries, survey: Survey | None = None) -> str:
    """Return the origin of the tables of a configuration, a digest; raises `DamagedError`.

    It is "" where tables depend on code that has no digest: objects of a notebook, submitted entries, and files that
    were changed after this process had started. `survey`: the files of the store, if they were listed before.
    """
    registry, code = catalogue.registry, installed_code()
    entries = {f"{kind} {label}": entry for (kind, label), entry in registry.entries.items()}
    without_digest = [
        entry
        for entry in entries.values()
        if entry.provenance.code is None and entry.provenance.distribution != DISTRIBUTION
    ]
    track_is_registered = any(type(entry.component) is type(track) for entry in entries.values())
    if not code or without_digest or not track_is_registered:
        return ""
    settings = sweep.model_dump(mode="json", exclude={"finished", "number", "command"})
    decisions = [
        {id: [decision.model_dump(mode="json") for decision in lines] for id, lines in catalogue.standing.items()},
        dict(catalogue.withdrawn),
        catalogue.decided.model_dump(mode="json") if catalogue.decided else None,
        {name: list(failed) for name, failed in catalogue.examined.items()},
    ]
    versions = {name: entry.provenance.numbered(entry.component.info.version) for name, entry in entries.items()}
    track_identity = registry.ref(as_set_up(track, sweep)).identity()
    return digest([settings, store.contents(sweep, survey), decisions, track_identity, versions, code])


@functools.cache
def installed_code() -> str:
    """Return a digest of the code that runs here: the files of the harness and of its plugins, versions of libraries.

    It is "" where a file was changed after this process had started, because the process may run the code before that
    change.
    """
    names = {module.name for module in pkgutil.iter_modules() if module.name.startswith(PACKAGES)}
    files = {name: path for package in sorted(names) for name, path in package_files(package).items()}
    points = importlib.metadata.entry_points(group=PROJECT)
    try:
        plugins = {
            point.dist.name: code_of(point.dist) for point in points if point.dist and point.dist.name != DISTRIBUTION
        }
    except (PluginError, OSError):
        return ""
    paths = [*files.values(), *(path for code in plugins.values() for path in code.files.values())]
    if max(path.stat().st_mtime for path in paths) > _STARTED:
        return ""
    versions = {name: version_of(name) for name in sorted({*required_by_harness(), *plugins})}
    plugin_digests = {name: code.digest for name, code in plugins.items()}
    return digest([digest_of_files(files), plugin_digests, versions, sys.version])
