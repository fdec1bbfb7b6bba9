"""A clock that goes back changes neither which run is the latest nor which version is the newest."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from imharness.ranking.current import newest_only
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.running import merging
from imharness.running.merging import merged_sweep


def planned(configuration: str) -> SimpleNamespace:
    """Return a plan without tasks, of a run with this configuration."""
    info = SimpleNamespace(id="t/t")
    track = SimpleNamespace(info=info, title="T", measures="m")
    return SimpleNamespace(track=track, run_configuration=configuration, tasks={}, missing={}, secret="", set_up={})


def test_the_latest_run_is_the_one_that_came_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, facts = Store(tmp_path), {"profile": "p", "seed": 0, "limit": None, "command": ""}
    now = datetime(2026, 5, 1, tzinfo=UTC)
    for days, configuration in ((0, "first"), (-40, "second"), (-20, "third"), (-60, "first")):
        clock = SimpleNamespace(now=lambda zone, days=days: now + timedelta(days=days))
        monkeypatch.setattr(merging, "datetime", clock)
        store.save_sweep(merged_sweep(store, planned(configuration), done=set(), failed={}, **facts))
        latest = store.latest("t/t")
        assert latest is not None
        assert latest.run_configuration == configuration


@pytest.mark.parametrize(("older", "newer"), [("1", "2"), ("9", "10"), ("1.9", "1.10")])
def test_the_newest_version_is_the_highest_one(older: str, newer: str) -> None:
    def record(version: str, started: str) -> TaskRecord:
        ref = ComponentRef(kind="metric", id="a/m", version=version, label="a/m", parameters={})
        spec = TaskSpec(
            track="t/t",
            step="evaluate",
            version="1",
            components={"metric": ref},
            options={},
            limit=None,
            seed=0,
            needs={},
        )
        key = digest([version])
        return TaskRecord(key=key, spec=spec, status="done", started=started, seconds=0.0, device="cpu", versions={})

    old, new = record(older, "2026-02-01"), record(newer, "2026-01-01")  # the clock went back between them
    retained, gaps = newest_only([old, new])
    assert retained == [new]
    assert f"version {newer} is ranked" in gaps[0].reason
