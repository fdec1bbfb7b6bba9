"""Where things of a site lie, and how labels and numbers are written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from imharness.results.identity import digest
from imharness.results.records import Board, ColumnSpec, Table, Value

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_.-]*(/[a-z0-9][a-z0-9_.-]*)?")
LONGEST = 60
"""Characters of a file name before its digest."""


def slug(label: str) -> str:
    """Return a label as a file name; what cannot stand in one is replaced, and a digest keeps names apart."""
    safe = re.sub(r"[^a-z0-9._-]+", "-", label.lower().replace("/", "--")).strip("-.") or "x"
    plain = _PLAIN.fullmatch(label) and "--" not in label and len(label) <= LONGEST
    return safe if plain else f"{safe[:LONGEST]}-{digest(label)[:8]}"


def track_slug(track: str) -> str:
    """Return the short name of a track: what the harness itself brings goes without its owner."""
    owner, _, name = track.partition("/")
    return slug(name) if owner == "harness" and name else slug(track)


def track_page(board: Board) -> str:
    """Return the address of a track's page."""
    return f"{track_slug(board.track)}.html"


def table_page(board: Board, table: Table) -> str:
    """Return the address of a table's page."""
    return f"{track_slug(board.track)}/{slug(table.id)}.html"


def data_file(board: Board, name: str, form: str) -> str:
    """Return the address of a file of numbers."""
    return f"data/{track_slug(board.track)}/{slug(name)}.{form}"


def entry_page(kind: str, label: str) -> str:
    """Return the address of an entry's page."""
    return f"entries/{slug(kind)}-{slug(label)}.html"


def brief(label: str) -> str:
    """Return a label as pages show it."""
    return label.replace("harness/", "")


def shown(value: Value | None, column: ColumnSpec) -> str:
    """Return a number as text, or a dash where there is none."""
    if value is None or value.value is None:
        return "–"
    return f"{value.value:.{column.decimals}f}"


def spread(value: Value | None, column: ColumnSpec) -> str:
    """Return the interval and n of a number as text; empty without them."""
    if value is None or value.value is None:
        return ""
    parts = []
    if value.low is not None and value.high is not None:
        parts.append(f"{value.low:.{column.decimals}f} – {value.high:.{column.decimals}f}")
    if value.n is not None:
        parts.append(f"n {value.n}")
    return ", ".join(parts)


def why(value: Value | None) -> str:
    """Return why there is no number."""
    return value.missing if value is not None and value.missing else "not measured"


def shade(value: Value | None, table: Table) -> int:
    """Return a heat-map step 0..10."""
    if table.shading is None or value is None or value.value is None:
        return 0
    return round(10 * max(0.0, min(1.0, value.value / table.shading)))


def best(table: Table, column: ColumnSpec) -> float | None:
    """Return the best number of a column, if a direction is better."""
    numbers = [v.value for row in table.rows if (v := row.values.get(column.key)) is not None and v.value is not None]
    if not numbers or not column.better:
        return None
    return max(numbers) if column.better == "higher" else min(numbers)


def facets_of(table: Table) -> dict[str, list[str]]:
    """Return what rows can be filtered by: facet -> its values, of facets that have at least two."""
    found: dict[str, set[str]] = {}
    for row in table.rows:
        for name, value in row.facets.items():
            found.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in found.items() if len(values) > 1}


def column_named(table: Table, key: str) -> ColumnSpec | None:
    """Return a column by its key."""
    return next((column for column in table.columns if column.key == key), None)


def table_named(board: Board, id: str) -> Table | None:
    """Return a table by its id."""
    return next((table for table in board.tables if table.id == id), None)


def human_size(size: int) -> str:
    """Return bytes as people read them."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"


def joined(words: Iterable[str]) -> str:
    """Return words as a list in a sentence."""
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}" if listed else ""


def json_text(value: object) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
