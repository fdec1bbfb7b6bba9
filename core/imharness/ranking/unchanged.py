"""Tables that are kept while nothing that they follow from has changed.

They follow from the results, which are verified, the settings of the run, what is known about the entries, and the code
that makes them. The digest of all that stands in `Leaderboard.origin`.
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
from imharness.errors import DamagedError, PluginError
from imharness.ranking.leaderboard import Progress, as_set_up, made_leaderboard, quiet
from imharness.results.identity import DISTRIBUTION, digest, version_of
from imharness.results.leaderboards import Leaderboard
from imharness.results.store import Store, Survey
from imharness.results.sweeps import Sweep

if TYPE_CHECKING:
    from imharness.components.entries import KnownEntries
    from imharness.contracts.track import Track

PACKAGES = "imharness"
"""The first letters of the names of the harness's own packages."""
_STARTED = time.time()


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

    Where nothing has changed, they are those in the store. Others are made, and written into it if `keep`.
    """
    origin = ""
    with suppress(DamagedError):  # then the tables are made, and the error names what is damaged
        origin = origin_of(store, track, sweep, catalogue)
        if leaderboard := made_from(store, track, origin):
            return leaderboard, store.numbers(leaderboard)
    leaderboard, numbers = made_leaderboard(store, track, sweep, catalogue, progress)
    leaderboard = leaderboard.model_copy(update={"origin": origin})
    return store.save_leaderboard(leaderboard, numbers) if keep else leaderboard, numbers


def made_from(store: Store, track: Track, origin: str) -> Leaderboard | None:
    """Return the stored tables of a track if they were made from this origin; raises `DamagedError`."""
    leaderboard = store.leaderboard(track.info.id)
    return leaderboard if leaderboard is not None and origin and leaderboard.origin == origin else None


def unchanged_leaderboard(
    store: Store, track: Track, sweep: Sweep, catalogue: KnownEntries, survey: Survey
) -> Leaderboard | None:
    """Return the stored tables of a configuration if its tasks, their arrays and all else are as they were then.

    The tables were made from every task, which was opened for that: here a digest of its file is enough. A
    configuration that is missing or damaged in the store has to be written with its tables again.
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
    """Return the digest of all that the tables of a configuration follow from; raises `DamagedError`.

    It is "" where code takes part that no digest stands for: objects of a notebook, entries that were submitted, and
    files that were changed after this process had started.
    """
    registry, code = catalogue.registry, installed_code()
    entries = {f"{kind} {label}": entry for (kind, label), entry in registry.entries.items()}
    unknown = [e for e in entries.values() if e.provenance.code is None and e.provenance.distribution != DISTRIBUTION]
    registered = [e for e in entries.values() if type(e.component) is type(track)]
    if not code or unknown or not registered:
        return ""
    facts = sweep.model_dump(mode="json", exclude={"finished", "number", "command"})
    standing = {id: [decision.model_dump(mode="json") for decision in all] for id, all in catalogue.standing.items()}
    decided = catalogue.decided.model_dump(mode="json") if catalogue.decided else None
    versions = {name: entry.provenance.numbered(entry.component.info.version) for name, entry in entries.items()}
    judged = [standing, dict(catalogue.withdrawn), decided, {name: list(x) for name, x in catalogue.examined.items()}]
    return digest(
        [facts, store.contents(sweep, survey), judged, registry.ref(as_set_up(track, sweep)).identity(), versions, code]
    )


@functools.cache
def installed_code() -> str:
    """Return the digest of the files of the harness and of the packages that extend it, and of libraries by versions.

    It is "" where a file was changed after this process had started: what runs here may be the code before.
    """
    names = {module.name for module in pkgutil.iter_modules() if module.name.startswith(PACKAGES)}
    files = {name: path for package in sorted(names) for name, path in package_files(package).items()}
    points = importlib.metadata.entry_points(group=PROJECT)
    try:
        others = {
            point.dist.name: code_of(point.dist) for point in points if point.dist and point.dist.name != DISTRIBUTION
        }
    except (PluginError, OSError):
        return ""
    paths = [*files.values(), *(path for code in others.values() for path in code.files.values())]
    if max(path.stat().st_mtime for path in paths) > _STARTED:
        return ""
    versions = {name: version_of(name) for name in sorted({*required_by_harness(), *others})}
    return digest([digest_of_files(files), {name: code.digest for name, code in others.items()}, versions, sys.version])
