"""Tells the core which entries were submitted to a store, and what was decided about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imharness.components.hookspecs import hookimpl
from imharness.components.registry import installed
from imharness.components.standings import Standings
from imharness.results.entries import flags_in
from imharness_submissions.ledger import Ledger

if TYPE_CHECKING:
    from imharness.components.provenance import Registered
    from imharness.ranking.entries import StoreEntries
    from imharness.results.boards import Board
    from imharness.results.store import Store


@hookimpl
def standings(store: Store) -> Standings:
    """Return the entries that were submitted to a store, and the decisions of its ledger."""
    ledger = Ledger(store.address)
    return Standings(_submitted(store), ledger.standings(), ledger.withdrawn(), ledger.decided())


def _submitted(store: Store) -> list[Registered]:
    if not store.names("submissions"):
        return []
    from imharness_submissions.sandbox.stored import with_submissions  # showing them needs torch

    here = installed()
    return [entry for place, entry in with_submissions(here, store).entries.items() if place not in here.entries]


def refresh_standing(store: Store, board: Board, known: StoreEntries) -> Board:
    """Write what was decided about entries into tables; they are made again where that changes who may win."""
    from imharness.ranking.entries import rank

    if any(flags_in(e.standing) != flags_in(known.standing.get(e.id, ())) for e in board.entries):
        (ranked,) = rank(store, [board.track])
        return ranked
    entries = tuple(e.model_copy(update={"standing": known.standing.get(e.id, ())}) for e in board.entries)
    return store.save_board(board.model_copy(update={"entries": entries, "decided": known.decided}))
