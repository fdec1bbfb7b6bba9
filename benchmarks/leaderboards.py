"""Leaderboards of made-up defenses with their scores, as they are after `harness run`."""

from collections.abc import Mapping, Sequence

import numpy as np

from imharness.documents.comparisons import Comparison
from imharness.documents.entries import Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.report import PairedScores
from imharness.documents.tables import ColumnSpec, Table

COLUMN = ColumnSpec(key="d", label="D", description="Change.", better="lower")
"""The column by which defenses are ranked."""


def paired_scores(
    labels: tuple[str, ...],
    conditions: Sequence[Mapping[str, str]],
    names: tuple[str, ...],
    values: tuple[np.ndarray, ...],
) -> PairedScores:
    """Return the scores of defenses, ``(defenses, images)`` for each condition, by the column of the table "main"."""
    return PairedScores(
        id="wins",
        title="Who beats whom by D",
        about="lower D",
        entry="defense",
        measure="D",
        description="Change.",
        better="lower",
        entries=labels,
        conditions=tuple(conditions),
        units=(names,) * len(conditions),
        values=values,
        table="main",
        column=COLUMN.key,
    )


def leaderboard_of(
    track: str,
    title: str,
    tasks: int,
    tables: tuple[Table, ...],
    comparison: Comparison,
    entries: tuple[Entry, ...] = (),
) -> Leaderboard:
    """Return the leaderboard of a finished run of so many tasks."""
    return Leaderboard(
        track=track,
        title=title,
        measures="Speed.",
        profile="p",
        seed=0,
        limit=None,
        command="",
        finished="2026",
        tasks_done=tasks,
        tasks_failed=0,
        tasks_missing=0,
        missing=(),
        failed={},
        versions={},
        tables=tables,
        comparisons=(comparison,),
        sources="",
        entries=entries,
    )
