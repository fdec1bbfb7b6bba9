"""The tables of a store as they should be: those that are missing, damaged or outdated are made again first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from imharness.errors import StoreError
from imharness.results.freshness import staleness
from imharness.results.records import Board
from imharness.results.store import Store

_RANK = (sys.executable, "-c", "from imharness.cli import main; main()", "results", "rank")


def current_boards(store_dir: Path) -> tuple[list[Board], list[str]]:
    """Return the tables of every track, and one line for each problem.

    Tables that are missing, damaged, made by other versions of the code or from other results than the store holds are
    made again by `harness results rank`, in a process of its own. What cannot be made again is shown with its reason,
    or left out when nothing of it can be read.
    """
    store = Store(store_dir)
    boards, problems = [], []
    for track in sorted({*store.tracks(), *store.ranked()}):
        board, reason = _read(store, track)
        if reason:
            trouble = _rank(store_dir, track)
            if trouble:
                problems.append(f"{track}: {reason}; tables cannot be made again: {trouble}")
                board = board.model_copy(update={"stale": reason}) if board is not None else None
            else:
                board, reason = _read(store, track)
        if board is not None:
            boards.append(board)
    return boards, problems


def _read(store: Store, track: str) -> tuple[Board | None, str]:
    """Return the tables of a track, if they can be read, and what is wrong with them."""
    try:
        board = store.board(track)
        return board, "there are no tables of it" if board is None else staleness(store, board)
    except StoreError as error:
        return None, str(error)


def _rank(store: Path, track: str) -> str:
    """Make the tables of a track again; return what went wrong."""
    command = [*_RANK, "--store", str(store), "--track", track]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stderr or done.stdout).strip().splitlines()
    return (lines[-1] if lines else f"exit {done.returncode}") if done.returncode else ""
