"""The address of every page and file of the site, relative to its root."""

from __future__ import annotations

import re

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import Table
from imharness.results.identity import digest

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_.-]*(/[a-z0-9][a-z0-9_.-]*)?")
LONGEST = 60
"""A file name holds at most this many characters of a label; what is cut off, or not plain, is followed by a digest."""


def slug(label: str) -> str:
    """Return a file name for a label.

    A plain label, such as an id, keeps its characters, with two dashes for its slash. In any other one, characters that
    a file name cannot hold become dashes, and it gets a digest, so that two labels never share a file.
    """
    safe = re.sub(r"[^a-z0-9._-]+", "-", label.lower().replace("/", "--")).strip("-.") or "x"
    plain = _PLAIN.fullmatch(label) and "--" not in label and len(label) <= LONGEST
    return safe if plain else f"{safe[:LONGEST]}-{digest(label)[:8]}"


def track_slug(track: str) -> str:
    """Return the short name of a track; ``harness/`` is left out."""
    owner, _, name = track.partition("/")
    return slug(name) if owner == "harness" and name else slug(track)


def track_page(leaderboard: Leaderboard) -> str:
    """Return the address of a track's page."""
    return f"{track_slug(leaderboard.track)}.html"


def table_page(leaderboard: Leaderboard, table: Table) -> str:
    """Return the address of a table's page."""
    return f"{track_slug(leaderboard.track)}/{slug(table.id)}.html"


def studies_page(leaderboard: Leaderboard) -> str:
    """Return the address of the page with a track's study tables."""
    return f"{track_slug(leaderboard.track)}/studies.html"


def findings_page(leaderboard: Leaderboard) -> str:
    """Return the address of the page with all findings of a track's rankings."""
    return f"{track_slug(leaderboard.track)}/findings.html"


def details_page(leaderboard: Leaderboard, table: Table, label: str) -> str:
    """Return the address of the page with the details of a row of a ranking."""
    return f"{track_slug(leaderboard.track)}/details/{slug(table.id)}-{slug(label)}.html"


def rows_page(leaderboard: Leaderboard, table: Table, number: int) -> str:
    """Return the address of the page with one part of the rows of a long ranking; `number` counts from 1."""
    return f"{track_slug(leaderboard.track)}/rows/{slug(table.id)}-{number}.html"


def gallery_page(leaderboard: Leaderboard) -> str:
    """Return the address of a track's gallery."""
    return f"{track_slug(leaderboard.track)}/gallery.html"


def published_page(leaderboard: Leaderboard) -> str:
    """Return the address of the page "Published and ours" of a track."""
    return f"{track_slug(leaderboard.track)}/published.html"


def entry_page(kind: str, label: str) -> str:
    """Return the address of an entry's page."""
    return f"entries/{slug(kind)}-{slug(label)}.html"


def data_file(leaderboard: Leaderboard, name: str, form: str) -> str:
    """Return the address of a file of numbers; `form` is its extension, such as ``csv`` or ``vectors.json``."""
    return f"data/{track_slug(leaderboard.track)}/{slug(name)}.{form}"


def picture_base(leaderboard: Leaderboard, name: str) -> str:
    """Return the address of a picture without its theme and extension."""
    return f"pictures/{track_slug(leaderboard.track)}/{slug(name)}"


def image_file(leaderboard: Leaderboard, name: str) -> str:
    """Return the address of a gallery image."""
    return f"images/{track_slug(leaderboard.track)}/{name}.png"


def vectors_file(leaderboard: Leaderboard, comparison: str) -> str:
    """Return the address of the index of a comparison's scores; empty where the site has none of single images."""
    return data_file(leaderboard, comparison, "vectors.json") if leaderboard.numbers is not None else ""


def comparison_file(leaderboard: Leaderboard, table: Table) -> str:
    """Return the address of the scores with which a reader can test a table's ranking; empty where there are none."""
    comparisons = [
        c for c in leaderboard.comparisons if c.id == table.id or (c.table == table.id and c.column == table.ranked_by)
    ]
    comparisons += [c for c in leaderboard.comparisons if c.entry == table.entry]
    return vectors_file(leaderboard, comparisons[0].id) if comparisons else ""
