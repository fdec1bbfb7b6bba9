"""`harness results rank`: make the tables again, and print the rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import log_option, store_option
from imharness.errors import UsageError
from imharness.results.identity import LEFT_HERE

if TYPE_CHECKING:
    from imharness.exports import Sheet
    from imharness.results.boards import Board

SHOWN = 40
"""The most rows of a ranking that are printed."""
COLUMNS = ("rank", "worst", "utility")
"""The columns of a ranking that fit on a narrow terminal."""


@click.command()
@store_option("address")
@click.option("--track", "tracks", multiple=True, metavar="NAME", help="Only this track; may be given several times.")
@log_option()
def rank(address: str, tracks: Sequence[str], log_to: Sequence[str]) -> None:
    """Make the tables again from the raw rows, without computing cells, and print the ranking of each track."""
    from imharness.cli.stores import existing
    from imharness.ranking.entries import rank as ranked
    from imharness.ranking.listeners import announce, open_listeners

    store, listeners, boards = existing(address), open_listeners(log_to), list["Board"]()
    if not tracks and not store.rankable():
        raise UsageError(f"store {address} has no run; `harness run --all` makes one.")
    for board in ranked(store, tracks, lambda title: console.progress(title)):
        console.say(f"{board.track}: {len(board.tables)} tables of {board.cells_done} cells")
        for gap in board.left_out:
            console.say(f"  left out: {gap.what} {gap.reason}")
        for gap in board.missing:
            if LEFT_HERE in gap.reason:
                console.say(f"  left out: {gap.what}, {LEFT_HERE}")
        show(board)
        boards.append(board)
    announce(address, boards, None, listeners, console.warn)


def show(board: Board) -> None:
    """Print the main ranking of a board in few columns, with the meaning of its marks and the headline."""
    from imharness.exports import sheet_of
    from imharness.exports.sheets import printed
    from imharness.results.findings import first_sentences

    main = board.rankings[0].table if board.rankings else board.tables[0].id if board.tables else ""
    for table in (table for table in board.tables if table.id == main):
        known = [column.key for column in table.columns]
        wanted = [key for key in COLUMNS if key in known] if board.rankings else [table.ranked_by or known[0]]
        sheet = sheet_of(table, board, columns=wanted)
        rows = _rows(sheet)
        console.listing(table.title, [sheet.entry, *sheet.facets, *sheet.heads, ""], rows[:SHOWN])
        if len(rows) > SHOWN:
            console.say(f"{len(rows) - SHOWN} more: harness results export --format markdown --table {table.id}")
        for letter, text in sheet.notes:
            console.say(f"  {letter}: {printed(text)}")
    for ranking in board.rankings[:1]:
        console.say(printed(ranking.claim))
        for text in first_sentences(ranking.findings, "on the page of the track"):
            console.say(f"  {printed(text)}")


def _rows(sheet: Sheet) -> list[list[str]]:
    found = []
    for line in sheet.lines:
        cells = [f"{cell.text} [{cell.low}, {cell.high}]" if cell.low else cell.text for cell in line.cells]
        noted = dict.fromkeys([*line.notes, *(letter for cell in line.cells for letter in cell.notes)])
        found.append([line.name, *line.facets, *cells, " ".join((["winner"] if line.won else []) + list(noted))])
    return found
