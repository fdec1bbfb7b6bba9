"""Results of one version of a component that were withdrawn, as documents ``withdrawals/DIGEST.json`` of a store."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from imharness.errors import UsageError
from imharness.results.identity import digest
from imharness.results.seasons import season_of
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

FOLDER = "withdrawals"


class Withdrawal(BaseModel):
    """Why no table has the results of one version of a component; without a `reason`, tables have them again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    version: str
    reason: str


def address_of(id: str, version: str) -> str:
    """Return the name by which tables look for what is withdrawn."""
    return f"{id} version {version}"


def withdraw(store: Store, id: str, version: str, reason: str) -> int:
    """Keep that results of a version are withdrawn, or with the reason "" that they are not; return how many there are.

    `version` means that version with any code of its package, or with one, as in ``1+9f2b7c001122``. Raises
    `UsageError` where the store has no such results, and where its season is closed.
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
    """Return the address of each version whose results are withdrawn, with the reason; see `address_of`."""
    documents = (store.current(f"{FOLDER}/{name}.json", Withdrawal) for name in store.names(FOLDER))
    return {address_of(one.id, one.version): one.reason for one in documents if one is not None and one.reason}


def without_code(version: str) -> str:
    """Return a version without the digest of its package's code."""
    return version.partition("+")[0]
