"""Writes tables to MLflow: a run for each leaderboard, and below it one for each entry of its main table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from imharness.errors import Unavailable
from imharness.leaderboard import Row
from imharness.tracks import Leaderboard, hookimpl

LONGEST = 250
"""The largest number of characters of a name in MLflow."""
FACTS = ("track", "profile", "seed", "limit", "run_configuration")


@hookimpl
def listeners() -> dict[str, Callable[[str], object]]:
    return {"mlflow": open_listener}


def open_listener(address: str) -> Listener:
    """Return the listener that sends tables to a tracking URI, by default MLflow's own.

    Raises `Unavailable` without MLflow.
    """
    try:
        import mlflow
    except ImportError:
        remedy = "pip install 'image-privacy-harness[mlflow]'"
        raise Unavailable("the package mlflow is not installed", remedy) from None
    return Listener(mlflow.MlflowClient(tracking_uri=address or None))


class Listener:
    """Writes leaderboards through a client of MLflow; the state of the module `mlflow` stays as it is."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @hookimpl
    def leaderboard_finished(self, store: str, leaderboards: Sequence[Leaderboard], release: str | None) -> None:
        """Write each leaderboard into the experiment of its track."""
        for leaderboard in leaderboards:
            self._write(store, leaderboard, release)

    def _write(self, store: str, leaderboard: Leaderboard, release: str | None) -> None:
        existing = self._client.get_experiment_by_name(leaderboard.track)
        experiment = existing.experiment_id if existing else self._client.create_experiment(leaderboard.track)
        facts = {
            "store": store,
            "release": release or "",
            "command": leaderboard.command,
            "finished": leaderboard.finished,
        }
        for ranking in leaderboard.rankings:
            facts |= {f"{ranking.table}.winner": ranking.winner, f"{ranking.table}.claim": ranking.claim}
        counts = {name: float(getattr(leaderboard, name)) for name in ("tasks_done", "tasks_failed", "tasks_missing")}
        parent = self._run(
            experiment, leaderboard, f"{leaderboard.title} {release or leaderboard.finished}", counts, facts
        )
        self._client.log_text(
            parent, leaderboard.model_dump_json(include={"tables", "rankings", "versions"}), "leaderboard.json"
        )
        for row in leaderboard.tables[0].rows if leaderboard.tables else ():
            self._run(experiment, leaderboard, row.label, _metrics(row), {"mlflow.parentRunId": parent, **row.facets})

    def _run(
        self,
        experiment: str,
        leaderboard: Leaderboard,
        name: str,
        metrics: Mapping[str, float],
        tags: Mapping[str, str],
    ) -> str:
        """Write one run whole, and return its id."""
        from mlflow.entities import Metric, Param, RunTag

        moment = int(datetime.fromisoformat(leaderboard.finished).timestamp() * 1000)
        run = self._client.create_run(experiment, start_time=moment, run_name=name[:LONGEST])
        self._client.log_batch(
            run.info.run_id,
            metrics=[Metric(key, value, moment, 0) for key, value in metrics.items()],
            params=[Param(fact, str(getattr(leaderboard, fact))) for fact in FACTS],
            tags=[RunTag(_name(key), value) for key, value in tags.items() if value],
        )
        self._client.set_terminated(run.info.run_id, end_time=moment)
        return str(run.info.run_id)


def _metrics(row: Row) -> dict[str, float]:
    """Return the numbers of an entry with the ends of their intervals, as ``worst``, ``worst.low``, ``worst.high``."""
    numbers = {(key, field): getattr(v, field) for key, v in row.values.items() for field in ("value", "low", "high")}
    named_numbers = {
        (key if field == "value" else f"{key}.{field}"): number for (key, field), number in numbers.items()
    }
    return {_name(key): float(number) for key, number in named_numbers.items() if number is not None}


def _name(text: str) -> str:
    return re.sub(r"[^\w\-. :/]", "_", text, flags=re.ASCII)[:LONGEST]
