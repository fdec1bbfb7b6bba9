"""A store with results of another one beside its own, so that tables can be made of both before anything is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from imharness.errors import DamagedError
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord


class Beside(Store):
    """A store in which the tasks `keys` of `other` can be read, too; it is only read."""

    def __init__(self, store: Store, other: Store, keys: Iterable[str]) -> None:
        super().__init__(store.address)
        self._other, self._keys = other, frozenset(keys)

    def records(self, keys: Iterable[str] | None = None) -> Iterator[tuple[str, TaskRecord | DamagedError]]:
        wanted = None if keys is None else [key for key in keys if key not in self._keys]
        yield from super().records(wanted)
        yield from self._other.records(sorted(self._keys))

    def row_files(self, records: Iterable[TaskRecord]) -> dict[str, Path]:
        listed_records = list(records)
        files = super().row_files(record for record in listed_records if record.key not in self._keys)
        return files | self._other.row_files(record for record in listed_records if record.key in self._keys)
