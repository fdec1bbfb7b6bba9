"""Tells the core which entries were submitted to a store, and what was decided about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from imharness_submissions.ledger import Ledger

if TYPE_CHECKING:
    from imharness.components.registry import Registry
    from imharness.ranking.entries import StoreEntries
    from imharness.results.records import Board
    from imharness.results.store import Store


def judged(store: Store, known: StoreEntries) -> StoreEntries:
    """Return `known` with the entries that were submitted to a store, and the decisions of its ledger."""
    ledger, registry = Ledger(store.address), known.registry
    if store.names("submissions"):  # showing them needs torch
        from imharness_submissions.sandbox.stored import with_submissions

        registry = with_submissions(registry, store)
    return replace(
        known,
        registry=registry,
        submitted=known.submitted | (_ids(registry) - _ids(known.registry)),
        standing={**known.standing, **ledger.standings()},
        withdrawn={**known.withdrawn, **ledger.withdrawn()},
    )


def refresh_standing(store: Store, board: Board, known: StoreEntries) -> Board:
    """Write what was decided about entries into tables that need no other change."""
    entries = tuple(e.model_copy(update={"standing": known.standing.get(e.id, ())}) for e in board.entries)
    return store.save_board(board.model_copy(update={"entries": entries}))


def _ids(registry: Registry) -> set[str]:
    return {entry.component.info.id for entry in registry.entries.values()}
