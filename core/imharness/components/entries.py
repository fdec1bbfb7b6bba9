"""What tables need to know about the components that took part; `imharness.ranking.entries` reads it from a store."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from imharness.components.registry import Registry
from imharness.documents.entries import Decided, Entry, Standing
from imharness.results.tasks import TaskRecord


class KnownEntries(Protocol):
    """What is known about the entries of a store."""

    @property
    def registry(self) -> Registry:
        """The components that can be shown; some of them perhaps cannot be built here."""

    @property
    def standing(self) -> Mapping[str, tuple[Standing, ...]]:
        """Component id -> the decisions about it in the ledger, oldest first."""

    @property
    def withdrawn(self) -> Mapping[str, str]:
        """Component id, or one version of it -> why it was withdrawn from all tables."""

    @property
    def decided(self) -> Decided | None:
        """The decisions that are known, or None if there are none."""

    @property
    def examined(self) -> Mapping[str, tuple[str, ...]]:
        """The digest of a reference to a component -> the quick checks that it failed."""

    def facts(self, records: Iterable[TaskRecord]) -> list[dict[str, object]]:
        """Return a row of the view ``components`` for each component in these records; see `imharness.tracks.Query`."""

    def of(self, records: Iterable[TaskRecord]) -> tuple[Entry, ...]:
        """Return an entry for every component in these records, sorted by kind and label."""
