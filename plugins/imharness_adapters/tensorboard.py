"""Writes the numbers of ranked tables as TensorBoard scalars, at the time of the run, and the claims of each board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from imharness.errors import Unavailable, UsageError
from imharness.tracks import Board, hookimpl


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
    """Writes boards into a folder, each run configuration of a track into one below it.

    A scalar is called ``table/column/entry``; its step is the time of the run in seconds since 1970, so that runs of
    one configuration make a line.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @hookimpl
    def board_finished(self, store: str, boards: Sequence[Board], release: str | None) -> None:
        """Write one event file for each board."""
        from torch.utils.tensorboard import SummaryWriter

        for board in boards:
            moment = datetime.fromisoformat(board.finished).timestamp()
            place = self._folder / board.track.replace("/", "-") / (board.run_configuration[:12] or "imported")
            with SummaryWriter(str(place)) as writer:
                for tag, number in _scalars(board).items():
                    writer.add_scalar(tag, number, int(moment), moment)
                said = board.rankings[0].claim if board.rankings else board.title
                about = f"{said} Store {store}{f', release {release}' if release else ''}."
                writer.add_text("claim", about, int(moment), moment)


def _scalars(board: Board) -> dict[str, float]:
    tables = [table for table in board.tables if table.ranked_by]
    found = {
        f"{table.id}/{column.key}/{row.label}": row.values.get(column.key)
        for table in tables
        for column in table.columns
        for row in table.rows
    }
    return {tag: value.value for tag, value in found.items() if value is not None and value.value is not None}
