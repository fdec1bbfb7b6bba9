"""Withdraws the results of one version of a component: a document ``withdrawals/DIGEST.json`` of the store says so."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from imharness.documents.seasons import season_of
from imharness.errors import UsageError
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

FOLDER = "withdrawals"


class Withdrawal(BaseModel):
    """A version of a component whose results no table shows, and the reason; if `reason` is "", tables show them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    version: str
    reason: str


def address_of(id: str, version: str) -> str:
    """Return the name under which tables look a withdrawal up."""
    return f"{id} version {version}"


def withdraw(store: Store, id: str, version: str, reason: str) -> int:
    """Withdraw the results of a version of a component; return how many tasks that are.

    Args:
        store: the store with the results.
        id: the id of the component.
        version: a version with the digest of its code, as in ``1+9f2b7c001122``, or without it, which means all code.
        reason: why; "" takes an earlier withdrawal back.

    Raises `UsageError` where the store has no such results, and where its season is closed.
    """
    season = season_of(store)
    if season is not None and season.closed:
        raise UsageError(f"season {season.name} was closed on {season.closed[:10]}; nothing is decided there any more.")
    counts: dict[str, int] = {}
    for _, record in store.records():
        if isinstance(record, TaskRecord):
            for ref in {ref.version: ref for ref in record.spec.components.values() if ref.id == id}.values():
                counts[ref.version] = counts.get(ref.version, 0) + 1
    tasks = sum(count for name, count in counts.items() if version in (name, without_code(name)))
    if not tasks:
        there = f"it has version {', '.join(sorted(counts))}" if counts else f"it has none of {id}"
        raise UsageError(f"store {store.address} has no results of {address_of(id, version)}; {there}.")
    store.replace(f"{FOLDER}/{digest([id, version])}.json", Withdrawal(id=id, version=version, reason=reason))
    return tasks


def withdrawn_versions(store: Store) -> dict[str, str]:
    """Return `address_of` each version whose results are withdrawn -> the reason."""
    documents = (store.current(f"{FOLDER}/{name}.json", Withdrawal) for name in store.names(FOLDER))
    return {
        address_of(document.id, document.version): document.reason
        for document in documents
        if document is not None and document.reason
    }


def without_code(version: str) -> str:
    """Return a version without the digest of its package's code."""
    return version.partition("+")[0]
