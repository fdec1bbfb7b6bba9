"""Keeps evidence that counts: its tasks, a line of the ledger that names who handed it in, and the tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

from imharness.ranking.entries import rank
from imharness.results.store import Store
from imharness_submissions.evidence.checking import Verdict, verdict, with_tasks
from imharness_submissions.evidence.folder import HandedIn
from imharness_submissions.ledger import Ledger, Line


def accept(
    handed: HandedIn, store: Store, *, device: str = "cpu", secret: str = "", trusted: bool = False
) -> tuple[Verdict, Line]:
    """Check evidence and keep it; return what it shows and its line of the ledger. Raises as `verdict` does."""
    with tempfile.TemporaryDirectory() as workspace:
        outcome = verdict(handed, store, Path(workspace), device=device, secret=secret, trusted=trusted)
        fresh, track = Store(Path(workspace)), outcome.listed.track.info.id
        for record in outcome.records:
            store.commit(record, fresh.rows(record), fresh.arrays(record))
    with store.alone():
        sweep = store.sweep(track, outcome.listed.sweep.run_configuration)
        store.save_sweep(with_tasks(sweep or outcome.listed.sweep, outcome.records))
    manifest = handed.manifest
    authors = ", ".join(manifest.authors) + (" (its own author)" if outcome.by_its_author else "")
    id = outcome.listed.entry.id
    line = Ledger(store.address).append(
        outcome.submission or id,
        (id,),
        "evidence",
        f"{outcome.listed.entry.label}: {outcome.sentence}, by {authors}, {manifest.contact}: {manifest.summary}",
        report=outcome.digest,
    )
    list(rank(store, [track]))
    return outcome, line
