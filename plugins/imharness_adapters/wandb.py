"""Writes the tables of a run to Weights & Biases: a run for each leaderboard, with each table and the winner.

W&B's own settings decide whether anything leaves this machine: ``WANDB_MODE=offline`` writes a local folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from imharness.errors import Unavailable, UsageError
from imharness.leaderboard import Table
from imharness.tracks import Leaderboard, hookimpl

FACTS = ("track", "profile", "seed", "limit", "run_configuration", "command", "finished", "versions")
COUNTS = ("tasks_done", "tasks_failed", "tasks_missing", "waiting")


@hookimpl
def listeners() -> dict[str, Callable[[str], object]]:
    return {"wandb": open_listener}


def open_listener(address: str) -> Listener:
    """Return the listener that sends tables to a project, or an ``entity/project``.

    Raises `UsageError` without one, and `Unavailable` without wandb.
    """
    if not address:
        raise UsageError("--log-to wandb needs a project: wandb:PROJECT, or wandb:ENTITY/PROJECT.")
    try:
        import wandb
    except ImportError:
        remedy = "pip install 'image-privacy-harness[wandb]'"
        raise Unavailable("the package wandb is not installed", remedy) from None
    return Listener(wandb, address)


class Listener:
    """Writes leaderboards into a project."""

    def __init__(self, wandb: Any, address: str) -> None:
        entity, _, project = address.rpartition("/")
        self._wandb, self._run = wandb, {"project": project, "entity": entity or None}

    @hookimpl
    def leaderboard_finished(self, store: str, leaderboards: Sequence[Leaderboard], release: str | None) -> None:
        """Write one run for each leaderboard."""
        for leaderboard in leaderboards:
            config = {fact: getattr(leaderboard, fact) for fact in FACTS} | {"store": store, "release": release}
            name = f"{leaderboard.title} {release or leaderboard.finished}"
            with self._wandb.init(
                **self._run, name=name, group=leaderboard.track, config=config, reinit="create_new"
            ) as run:
                run.log({table.id: self._table(table) for table in leaderboard.tables})
                run.summary.update({name: getattr(leaderboard, name) for name in COUNTS})
                for ranking in leaderboard.rankings:
                    run.summary.update(
                        {f"{ranking.table}/winner": ranking.winner, f"{ranking.table}/claim": ranking.claim}
                    )

    def _table(self, table: Table) -> Any:
        facets = list(dict.fromkeys(name for row in table.rows for name in row.facets))
        heads = [table.entry, *(f"facet {name}" for name in facets)]
        heads += [f"{column.key}{ending}" for column in table.columns for ending in ("", " low", " high", " n")]
        rows = []
        for row in table.rows:
            values = [row.values.get(column.key) for column in table.columns]
            numbers = [getattr(v, field, None) for v in values for field in ("value", "low", "high", "n")]
            rows.append([row.label, *(row.facets.get(name, "") for name in facets), *numbers])
        return self._wandb.Table(columns=heads, data=rows)
