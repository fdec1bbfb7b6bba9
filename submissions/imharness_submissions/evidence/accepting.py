"""Keeps evidence that counts: its cells, a line of the ledger that names who handed it in, and the tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

from imharness.ranking.entries import rank
from imharness.results.store import Store
from imharness_submissions.evidence.checking import Verdict, verdict, with_cells
from imharness_submissions.evidence.folder import HandedIn
from imharness_submissions.ledger import Ledger, Line


def accept(
    handed: HandedIn, store: Store, *, device: str = "cpu", secret: str = "", trusted: bool = False
) -> tuple[Verdict, Line]:
    """Check evidence and keep it; return what it shows and its line of the ledger. Raises as `verdict` does."""
    with tempfile.TemporaryDirectory() as work:
        found = verdict(handed, store, Path(work), device=device, secret=secret, trusted=trusted)
        fresh, track = Store(Path(work)), found.listed.track.info.id
        for record in found.records:
            store.commit(record, fresh.rows(record), fresh.arrays(record))
    with store.alone():
        sweep = store.sweep(track, found.listed.sweep.run_configuration)
        store.save_sweep(with_cells(sweep or found.listed.sweep, found.records))
    own = handed.manifest
    authors = ", ".join(own.authors) + (" (its own author)" if found.by_its_author else "")
    id = found.listed.entry.id
    line = Ledger(store.address).append(
        found.submission or id,
        (id,),
        "evidence",
        f"{found.listed.entry.label}: {found.said}, by {authors}, {own.contact}: {own.summary}",
        report=found.digest,
    )
    list(rank(store, [track]))
    return found, line
