"""`harness results rank`: make the tables again, and print the rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import log_option, store_option
from imharness.documents.tables import several
from imharness.errors import UsageError
from imharness.results.identity import LEFT_HERE

if TYPE_CHECKING:
    from imharness.documents.leaderboards import Leaderboard
    from imharness.exports import Sheet

SHOWN = 40
"""The most rows of a ranking that are printed."""


@click.command()
@store_option("address")
@click.option("--track", "tracks", multiple=True, metavar="NAME", help="Only this track; may be given several times.")
@log_option()
def rank(address: str, tracks: Sequence[str], log_to: Sequence[str]) -> None:
    """Make the tables again from the raw rows, without computing tasks, and print the ranking of each track."""
    from imharness.cli.standings import legend, screen_width
    from imharness.cli.stores import existing
    from imharness.components.registry import installed
    from imharness.ranking.current import WITHDRAWN
    from imharness.ranking.entries import other_code
    from imharness.ranking.entries import rank as ranked
    from imharness.ranking.leaderboard import GONE
    from imharness.ranking.listeners import announce, open_listeners

    store, listeners, leaderboards = existing(address), open_listeners(log_to), list["Leaderboard"]()
    if not tracks and not store.rankable():
        raise UsageError(f"store {address} has no run; `harness run --all` makes one.")
    for leaderboard in ranked(store, tracks, lambda title: console.progress(title), console.warn):
        console.say(
            f"{leaderboard.track}: {len(leaderboard.tables)} tables from {several(leaderboard.tasks_done, 'task')}"
        )
        if leaderboard.tasks_failed:
            console.say(
                f"  {several(leaderboard.tasks_failed, 'task')} failed: harness results list --failed shows each"
            )
        for gap in leaderboard.left_out:
            console.say(f"  left out: {gap.what} {gap.reason}")
        for gap in leaderboard.missing:
            if LEFT_HERE in gap.reason:
                console.say(f"  left out: {gap.what}, {LEFT_HERE}")
            elif gap.reason.startswith(WITHDRAWN) or gap.reason == GONE:
                console.say(f"  left out: {gap.what}, {gap.reason}")
        show(leaderboard)
        for line in other_code(leaderboard, installed()):
            console.warn(line)
        leaderboards.append(leaderboard)
    if any(leaderboard.rankings for leaderboard in leaderboards):
        console.say("")
        console.screen(legend(leaderboards, screen_width(console.out.width)))
    announce(address, leaderboards, None, listeners, console.warn)


def show(leaderboard: Leaderboard) -> None:
    """Print the rankings of a leaderboard with their headlines, or its main table."""
    from imharness.cli.standings import names_in, screen_width, sentence_lines, track_lines
    from imharness.documents.findings import first_sentences
    from imharness.documents.naming import in_names

    width = screen_width(console.out.width)
    if not leaderboard.rankings:
        if leaderboard.tables:
            _table(leaderboard)
        return
    console.say("")
    console.screen(track_lines(leaderboard, width, whole=True))
    tables = {table.id: table for table in leaderboard.tables}
    for ranking in leaderboard.rankings:
        names = names_in(tables[ranking.table])
        sentences = first_sentences(ranking.findings, "on the page of the track")
        if sentences:
            console.say("")
            console.screen([(in_names(tables[ranking.table].title, names), "bold")])
        for text in sentences:
            console.screen(sentence_lines(in_names(text, names), width))


def _table(leaderboard: Leaderboard) -> None:
    from imharness.exports import sheet_of
    from imharness.results.labels import printed

    table = leaderboard.tables[0]
    sheet = sheet_of(table, leaderboard, columns=[table.ranked_by or table.columns[0].key])
    rows = _rows(sheet)
    console.table(table.title, [sheet.entry, *sheet.facets, *sheet.heads, ""], rows[:SHOWN])
    if len(rows) > SHOWN:
        console.say(f"{len(rows) - SHOWN} more: harness results export --format markdown --table {table.id}")
    for letter, text in sheet.notes:
        console.say(f"  {letter}: {printed(text)}")


def _rows(sheet: Sheet) -> list[list[str]]:
    """Return the rows of a sheet as cells: name, facets, numbers with intervals, and marks with letters of notes."""
    rows = []
    for line in sheet.lines:
        cells = [f"{cell.text} [{cell.low}, {cell.high}]" if cell.low else cell.text for cell in line.cells]
        noted = dict.fromkeys([*line.notes, *(letter for cell in line.cells for letter in cell.notes)])
        rows.append([line.name, *line.facets, *cells, " ".join((["winner"] if line.won else []) + list(noted))])
    return rows
