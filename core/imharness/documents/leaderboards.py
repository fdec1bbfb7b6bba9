"""Everything that the site shows of one track. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from imharness.documents.charts import Chart
from imharness.documents.comparisons import Comparison
from imharness.documents.entries import Decided, Entry
from imharness.documents.gallery import Example
from imharness.documents.rankings import Ranking
from imharness.documents.tables import Table
from imharness.results.storage.files import StoredFile
from imharness.results.sweeps import RunFacts


class Leaderboard(RunFacts):
    """Everything that the site shows of one track."""

    question: str = ""
    """What a reader wants to know of the leaderboard, as a question; "" where the track asks none."""
    tasks_done: int
    tasks_failed: int
    tasks_missing: int
    tables: tuple[Table, ...]
    versions: Mapping[str, str]
    entries: tuple[Entry, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    charts: tuple[Chart, ...] = ()
    examples: tuple[Example, ...] = ()
    stale: str = ""
    """Why the tables do not match the present code or results, if they could not be made again."""
    sources: str
    """The digest of the records that the tables were made from."""
    origin: str = ""
    """The digest of all that the tables follow from, see `imharness.ranking.unchanged`; "" where that is not known."""
    scored_by: Mapping[str, str] = Field(default_factory=dict)
    """The distributions whose code made the tables, with their versions."""
    decided: Decided | None = None
    """The decisions that the tables take into account, or None if nothing was ever decided."""
    numbers: StoredFile | None = None
    """The scores of the comparisons: one float32 array ``(entries, total)`` per comparison."""
