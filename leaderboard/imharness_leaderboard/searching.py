"""What readers find by searching: entries, papers, terms of the glossary, tables and tracks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imharness.results.boards import Board
from imharness_leaderboard.addresses import published_page, table_page, track_page
from imharness_leaderboard.entries import EntryView
from imharness_leaderboard.texts import glossary
from imharness_leaderboard.wording import brief

Found = list[str]
"""Text, what it is, the address of its page, and further words by which it is found."""


def found_by_search(boards: Sequence[Board], entries: Sequence[EntryView], papers: Sequence[Found]) -> list[Found]:
    """Return everything that can be found; `papers` are the published ones, as `papers_of` returns them."""
    found = [[board.title, "track", track_page(board), board.track] for board in boards]
    found += [[term.name, "term", f"glossary.html#{term.anchor}", ""] for term in glossary()]
    found += [[brief(view.label), view.kind, view.page, view.label] for view in entries]
    found += _methods(entries)
    found += papers
    found += [
        [brief(table.title), f"table, {board.title}", table_page(board, table), table.id]
        for board in boards
        for table in board.tables
    ]
    return found


def _methods(entries: Sequence[EntryView]) -> Iterator[Found]:
    """Yield the papers of the methods that took part, each with the page of the first entry that follows it."""
    seen = set()
    for view in entries:
        paper = view.facts.paper if view.facts is not None else ""
        if paper and paper not in seen:
            seen.add(paper)
            yield [paper, f"paper of {brief(view.label)}", view.page, ""]


def papers_of(board: Board, papers: Sequence[tuple[str, str]]) -> list[Found]:
    """Return the papers whose numbers stand beside those of a board; `papers`: each in words, and its address."""
    return [[text, f"paper, published and ours of {board.title}", published_page(board), ""] for text, _ in papers]
