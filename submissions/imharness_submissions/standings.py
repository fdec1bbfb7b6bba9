"""Tells the core which entries were submitted to a store, and what was decided about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imharness.components.hookspecs import hookimpl
from imharness.components.registry import installed
from imharness.components.standings import Standings
from imharness.documents.entries import flags_in
from imharness.documents.stored import write_leaderboard
from imharness_submissions.ledger import Ledger

if TYPE_CHECKING:
    from imharness.components.provenance import Registered
    from imharness.documents.leaderboards import Leaderboard
    from imharness.ranking.entries import StoreEntries
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
    return [entry for entry_id, entry in with_submissions(here, store).entries.items() if entry_id not in here.entries]


def refresh_standing(store: Store, leaderboard: Leaderboard, store_entries: StoreEntries) -> Leaderboard:
    """Write what was decided about entries into tables; they are made again where that changes who may win."""
    from imharness.ranking.entries import rank

    if any(flags_in(e.standing) != flags_in(store_entries.standing.get(e.id, ())) for e in leaderboard.entries):
        (ranked,) = rank(store, [leaderboard.track])
        return ranked
    entries = tuple(
        e.model_copy(update={"standing": store_entries.standing.get(e.id, ())}) for e in leaderboard.entries
    )
    return write_leaderboard(
        store, leaderboard.model_copy(update={"entries": entries, "decided": store_entries.decided})
    )
