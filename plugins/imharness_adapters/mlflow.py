"""Writes the tables of a run to MLflow: a run for each board, and below it one for each entry of its main table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from imharness.errors import Unavailable
from imharness.tables import Row
from imharness.tracks import Board, hookimpl

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
    """Writes boards through a client of MLflow; the state of the module `mlflow` stays as it is."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @hookimpl
    def board_finished(self, store: str, boards: Sequence[Board], release: str | None) -> None:
        """Write each board into the experiment of its track."""
        for board in boards:
            self._write(store, board, release)

    def _write(self, store: str, board: Board, release: str | None) -> None:
        known = self._client.get_experiment_by_name(board.track)
        experiment = known.experiment_id if known else self._client.create_experiment(board.track)
        facts = {"store": store, "release": release or "", "command": board.command, "finished": board.finished}
        if board.rankings:
            facts |= {"winner": board.rankings[0].winner, "claim": board.rankings[0].claim}
        counts = {name: float(getattr(board, name)) for name in ("cells_done", "cells_failed", "cells_missing")}
        parent = self._run(experiment, board, f"{board.title} {release or board.finished}", counts, facts)
        self._client.log_text(parent, board.model_dump_json(include={"tables", "rankings", "versions"}), "board.json")
        for row in board.tables[0].rows if board.tables else ():
            self._run(experiment, board, row.label, _metrics(row), {"mlflow.parentRunId": parent, **row.facets})

    def _run(
        self, experiment: str, board: Board, name: str, metrics: Mapping[str, float], tags: Mapping[str, str]
    ) -> str:
        """Write one run whole, and return its id."""
        from mlflow.entities import Metric, Param, RunTag

        moment = int(datetime.fromisoformat(board.finished).timestamp() * 1000)
        run = self._client.create_run(experiment, start_time=moment, run_name=name[:LONGEST])
        self._client.log_batch(
            run.info.run_id,
            metrics=[Metric(key, value, moment, 0) for key, value in metrics.items()],
            params=[Param(fact, str(getattr(board, fact))) for fact in FACTS],
            tags=[RunTag(_name(key), value) for key, value in tags.items() if value],
        )
        self._client.set_terminated(run.info.run_id, end_time=moment)
        return str(run.info.run_id)


def _metrics(row: Row) -> dict[str, float]:
    """Return the numbers of an entry with the ends of their intervals, as ``worst``, ``worst.low``, ``worst.high``."""
    parts = {(key, part): getattr(v, part) for key, v in row.values.items() for part in ("value", "low", "high")}
    found = {(key if part == "value" else f"{key}.{part}"): number for (key, part), number in parts.items()}
    return {_name(key): float(number) for key, number in found.items() if number is not None}


def _name(text: str) -> str:
    return re.sub(r"[^\w\-. :/]", "_", text, flags=re.ASCII)[:LONGEST]
