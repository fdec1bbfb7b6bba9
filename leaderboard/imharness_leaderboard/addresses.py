"""The address of every page and file of the site, relative to its root."""

from __future__ import annotations

import re

from imharness.results.boards import Board
from imharness.results.identity import digest
from imharness.results.tables import Table

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_.-]*(/[a-z0-9][a-z0-9_.-]*)?")
LONGEST = 60
"""A file name holds at most this many characters of a label, followed by a digest."""


def slug(label: str) -> str:
    """Return a file name for a label.

    Characters that a file name cannot hold become dashes. A label that is changed this way also gets a digest, so that
    two labels never share a file.
    """
    safe = re.sub(r"[^a-z0-9._-]+", "-", label.lower().replace("/", "--")).strip("-.") or "x"
    plain = _PLAIN.fullmatch(label) and "--" not in label and len(label) <= LONGEST
    return safe if plain else f"{safe[:LONGEST]}-{digest(label)[:8]}"


def track_slug(track: str) -> str:
    """Return the short name of a track; ``harness/`` is left out."""
    owner, _, name = track.partition("/")
    return slug(name) if owner == "harness" and name else slug(track)


def track_page(board: Board) -> str:
    """Return the address of a track's page."""
    return f"{track_slug(board.track)}.html"


def table_page(board: Board, table: Table) -> str:
    """Return the address of a table's page."""
    return f"{track_slug(board.track)}/{slug(table.id)}.html"


def studies_page(board: Board) -> str:
    """Return the address of the page with a track's study tables."""
    return f"{track_slug(board.track)}/studies.html"


def details_page(board: Board, table: Table, label: str) -> str:
    """Return the address of the page with the details of a row of a ranking."""
    return f"{track_slug(board.track)}/details/{slug(table.id)}-{slug(label)}.html"


def rows_page(board: Board, table: Table, number: int) -> str:
    """Return the address of the page with one part of the rows of a long ranking; `number` counts from 1."""
    return f"{track_slug(board.track)}/rows/{slug(table.id)}-{number}.html"


def gallery_page(board: Board) -> str:
    """Return the address of a track's gallery."""
    return f"{track_slug(board.track)}/gallery.html"


def published_page(board: Board) -> str:
    """Return the address of the page "Published and ours" of a track."""
    return f"{track_slug(board.track)}/published.html"


def entry_page(kind: str, label: str) -> str:
    """Return the address of an entry's page."""
    return f"entries/{slug(kind)}-{slug(label)}.html"


def data_file(board: Board, name: str, form: str) -> str:
    """Return the address of a file of numbers; `form` is its extension, such as ``csv`` or ``vectors.json``."""
    return f"data/{track_slug(board.track)}/{slug(name)}.{form}"


def picture_base(board: Board, name: str) -> str:
    """Return the address of a picture without its theme and extension."""
    return f"pictures/{track_slug(board.track)}/{slug(name)}"


def image_file(board: Board, name: str) -> str:
    """Return the address of a gallery image."""
    return f"images/{track_slug(board.track)}/{name}.png"


def comparison_file(board: Board, table: Table) -> str:
    """Return the address of the scores with which a reader can test a table's ranking; empty where there are none."""
    found = [c for c in board.comparisons if c.id == table.id or (c.table == table.id and c.column == table.ranked_by)]
    found += [c for c in board.comparisons if c.entry == table.entry]
    return data_file(board, found[0].id, "vectors.json") if found else ""
