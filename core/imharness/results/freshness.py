"""What tables were made from: which tasks, and whose code."""

from __future__ import annotations

import importlib.metadata

from imharness.results.identity import digest
from imharness.results.records import EXTERNAL, Sweep
from imharness.results.store import Store


def sources_of(store: Store, sweep: Sweep) -> str:
    """Return a digest of the tasks behind a configuration, without opening them."""
    imported = store.sweep(sweep.track, EXTERNAL)
    return digest(sorted({*sweep.cells.values(), *(imported.cells.values() if imported else ())}))


def version_of(distribution: str) -> str:
    """Return the installed version of a distribution, or an empty string."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
