"""Writes numbers of tables as TensorBoard scalars, at the time of the run, and each leaderboard's claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from imharness.errors import Unavailable, UsageError
from imharness.tracks import Leaderboard, hookimpl


@hookimpl
def listeners() -> dict[str, Callable[[str], object]]:
    return {"tensorboard": open_listener}


def open_listener(address: str) -> Listener:
    """Return the listener that writes event files into a folder.

    Raises `UsageError` without a folder, and `Unavailable` without TensorBoard.
    """
    if not address:
        raise UsageError("--log-to tensorboard needs a folder: tensorboard:FOLDER.")
    try:
        import tensorboard  # noqa: F401  (what torch writes event files with)
    except ImportError:
        remedy = "pip install 'image-privacy-harness[tensorboard]'"
        raise Unavailable("the package tensorboard is not installed", remedy) from None
    return Listener(Path(address))


class Listener:
    """Writes leaderboards into a folder, each run configuration of a track into one below it.

    A scalar is called ``table/column/entry``; its step is the time of the run in seconds since 1970, so that runs of
    one configuration make a line.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @hookimpl
    def leaderboard_finished(self, store: str, leaderboards: Sequence[Leaderboard], release: str | None) -> None:
        """Write one event file for each leaderboard."""
        from torch.utils.tensorboard import SummaryWriter

        for leaderboard in leaderboards:
            moment = datetime.fromisoformat(leaderboard.finished).timestamp()
            log_folder = (
                self._folder / leaderboard.track.replace("/", "-") / (leaderboard.run_configuration[:12] or "imported")
            )
            with SummaryWriter(str(log_folder)) as writer:
                for tag, number in _scalars(leaderboard).items():
                    writer.add_scalar(tag, number, int(moment), moment)
                source = f"Store {store}{f', release {release}' if release else ''}."
                claims = {f"claim/{ranking.table}": ranking.claim for ranking in leaderboard.rankings}
                for tag, claim in (claims or {"claim": leaderboard.title}).items():
                    writer.add_text(tag, f"{claim} {source}", int(moment), moment)


def _scalars(leaderboard: Leaderboard) -> dict[str, float]:
    tables = [table for table in leaderboard.tables if table.ranked_by]
    scalars = {
        f"{table.id}/{column.key}/{row.label}": row.values.get(column.key)
        for table in tables
        for column in table.columns
        for row in table.rows
    }
    return {tag: value.value for tag, value in scalars.items() if value is not None and value.value is not None}
