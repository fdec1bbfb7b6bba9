"""What the home page shows beside its findings: what data these are."""

from __future__ import annotations

from collections.abc import Sequence

from imharness.exports.marks import proxies_of
from imharness.results.boards import Board
from imharness.results.tables import joined
from imharness_leaderboard.wording import partial


def data_line(boards: Sequence[Board]) -> tuple[bool, str]:
    """Return whether the site shows data that nobody should cite, and a line that says what the data are.

    Tables of a run that is not finished are no better than stand-in data.
    """
    unfinished = [f"{board.title} {partial(board)}" for board in boards if board.waiting]
    split = "secret split, " if any(board.secret for board in boards) else ""
    if unfinished:
        return True, f"Unfinished run: {joined(unfinished)}; do not cite"
    if any(map(proxies_of, boards)):
        return True, f"Demo: {split}stand-in data, not citable."
    profiles = joined(dict.fromkeys(board.profile for board in boards))
    limits = sorted({board.limit for board in boards if board.limit})
    return False, f"Data: {split}{profiles}" + (f", at most {limits[-1]} images" if limits else "")
