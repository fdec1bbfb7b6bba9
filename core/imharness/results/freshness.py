"""Do tables still say what the store holds? Imports no plugin and no torch."""

from __future__ import annotations

import importlib.metadata

from imharness.results.identity import digest
from imharness.results.records import EXTERNAL, Board, Sweep
from imharness.results.store import Store


def staleness(store: Store, board: Board) -> str:
    """Return why tables are not of today's code or results, or an empty string."""
    for name, version in board.scored_by.items():
        now = version_of(name)
        if now != version:
            return f"scored by {name} {version}; {now or 'no version of it'} is installed"
    sweep = store.sweep(board.track, board.run_configuration) if board.run_configuration else None
    if sweep is not None and sources_of(store, sweep) != board.sources:
        return "the store has other results than these tables were made from"
    return ""


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
