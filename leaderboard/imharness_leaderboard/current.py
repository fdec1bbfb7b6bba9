"""The tables of a store; those that are missing, damaged or outdated are made again first."""

from __future__ import annotations

from pathlib import Path

from imharness.errors import DamagedError
from imharness.ranking.entries import rank
from imharness.ranking.listeners import announce
from imharness.reading.text import reason as reason_of
from imharness.results.boards import Board
from imharness.results.identity import version_of
from imharness.results.store import Store


def current_boards(address: str | Path) -> tuple[list[Board], list[str]]:
    """Return the tables of every track, and one line for each problem.

    Tables are made again when they are missing or damaged, when another version of the code made them, or when the
    store holds other results than they show. Only this loads the plugins, and torch with them. Tables that cannot be
    made again are shown with the reason, and left out when they cannot be read at all.
    """
    store = Store(address)
    boards, problems = list[Board](), list[str]()
    for track in sorted({*store.tracks(), *store.ranked()}):
        board, reason = _read(store, track)
        if reason:
            try:
                (board,) = rank(store, [track])
                announce(str(address), [board], None, {}, problems.append)
            except Exception as error:  # a plugin that fails on old results must not hide the other tracks
                problems.append(f"{track}: {reason}; tables cannot be made again: {reason_of(error)}")
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
    return board, "it has no tables" if board is None else _staleness(store, board)


def _staleness(store: Store, board: Board) -> str:
    """Return why tables do not belong to the installed code or to the results in the store; empty where they do."""
    for name, version in board.scored_by.items():
        now = version_of(name)
        if now != version:
            return f"made by {name} {version}; {now or 'no version of it'} is installed"
    sweep = store.sweep(board.track, board.run_configuration) if board.run_configuration else None
    if sweep is not None and store.sources(sweep) != board.sources:
        return "the store has other results than these tables were made from"
    return ""
