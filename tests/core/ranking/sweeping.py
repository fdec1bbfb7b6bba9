"""The two things that tests make a leaderboard from: a sweep of records, and facts about entries."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from imharness.components.registry import Registry
from imharness.documents.entries import Standing
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord


def catalogue(standing: Mapping[str, Sequence[str]] | None = None) -> SimpleNamespace:
    """Return what `make_leaderboard` asks about entries, empty but for `standing`: id -> decisions, oldest first."""
    decided = {
        id: tuple(Standing(date="", decision=decision, reason="") for decision in decisions)
        for id, decisions in (standing or {}).items()
    }
    return SimpleNamespace(
        withdrawn={},
        facts=lambda records: [],
        of=lambda records: (),
        registry=Registry([]),
        decided=None,
        standing=decided,
        examined={},
    )


def sweep_of(track: str, records: Sequence[TaskRecord], waiting: int = 0) -> Sweep:
    """Return a sweep with these records; `waiting` further tasks are not computed yet."""
    return Sweep(
        track=track,
        title="t",
        measures="m",
        profile="p",
        run_configuration="r",
        seed=0,
        limit=None,
        command="",
        finished="2026-01-01",
        missing=(),
        tasks={record.key: record.key for record in records},
        waiting=waiting,
    )
