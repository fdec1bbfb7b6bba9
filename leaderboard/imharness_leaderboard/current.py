"""The tables of a store, after those that are missing, damaged or outdated were made again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from imharness.errors import DamagedError
from imharness.results.identity import version_of
from imharness.results.records import Board
from imharness.results.store import Store

_RANK = (sys.executable, "-c", "from imharness.cli import main; main()", "results", "rank")


def current_boards(address: str | Path) -> tuple[list[Board], list[str]]:
    """Return the tables of every track, and one line for each problem.

    Tables are made again when they are missing or damaged, when another version of the code made them, or when the
    store holds other results than they show. `harness results rank` makes them, in a process of its own, because the
    leaderboard itself loads no torch. Tables that cannot be made again are shown with the reason, and left out when
    they cannot be read at all.
    """
    store = Store(address)
    boards, problems = [], []
    for track in sorted({*store.tracks(), *store.ranked()}):
        board, reason = _read(store, track)
        if reason:
            failure = _rank(address, track)
            if not failure:
                board, _ = _read(store, track)
            else:
                problems.append(f"{track}: {reason}; tables cannot be made again: {failure}")
                board = board.model_copy(update={"stale": reason}) if board is not None else None
        if board is not None:
            boards.append(board)
    return boards, problems


def _read(store: Store, track: str) -> tuple[Board | None, str]:
    """Return the tables of a track, or None where they cannot be read, and the reason to make them again, if any."""
    try:
        board = store.board(track)
    except DamagedError as error:
        return None, str(error)
    return board, "there are no tables of it" if board is None else _staleness(store, board)


def _staleness(store: Store, board: Board) -> str:
    """Return why tables are not of today's code or results, or an empty string."""
    for name, version in board.scored_by.items():
        now = version_of(name)
        if now != version:
            return f"scored by {name} {version}; {now or 'no version of it'} is installed"
    sweep = store.sweep(board.track, board.run_configuration) if board.run_configuration else None
    if sweep is not None and store.sources(sweep) != board.sources:
        return "the store has other results than these tables were made from"
    return ""


def _rank(address: str | Path, track: str) -> str:
    """Make the tables of a track again; return the last line of the error, or an empty string."""
    command = [*_RANK, "--store", str(address), "--track", track]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit {done.returncode}"
