"""Boards -> HTML: one page per track and a home page. Every value is escaped by the template engine."""

from __future__ import annotations

import os
from pathlib import Path

import jinja2

from harness.errors import StoreError
from harness.results import Board, ColumnSpec, Table, Value
from harness.store import Store

STATIC = ("style.css", "tables.js")


def build_site(store: Path, folder: Path) -> int:
    """Write all pages; return how many. Raises `StoreError` when the store has no tables."""
    boards = Store(store).boards()
    if not boards:
        raise StoreError(f"store {store} has no tables; run `harness run --all` first")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness_leaderboard"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.globals.update(page_of=page_of, brief=brief, shown=shown, detail=detail, shade=shade, best=best)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for board in boards:
            page = environment.get_template("track.html").render(board=board, boards=boards)
            _write(folder / page_of(board), page)
        home = environment.get_template("index.html").render(boards=boards, board=None)
        _write(folder / "index.html", home)
        for name in STATIC:
            _write(folder / name, (Path(__file__).parent / "static" / name).read_text())
    except OSError as error:
        raise StoreError(f"site {folder} cannot be written: {error.strerror}") from None
    return len(boards) + 1


def page_of(board: Board) -> str:
    """Return the file name of a track's page."""
    owner, _, name = board.track.partition("/")
    return f"{name}.html" if owner == "harness" else f"{owner}--{name}.html"


def brief(label: str) -> str:
    """Return a label as the page shows it: what the harness itself brings goes without its owner."""
    return label.replace("harness/", "")


def shown(value: Value | None, column: ColumnSpec) -> str:
    """Return a number as text, or a dash where there is none."""
    if value is None or value.value is None:
        return "–"
    return f"{value.value:.{column.decimals}f}"


def detail(value: Value | None) -> str:
    """Return what stands behind a number: n and interval, or why it is missing."""
    if value is None or value.value is None:
        return value.missing if value is not None and value.missing else "not measured"
    parts = [f"n = {value.n}"] if value.n is not None else []
    if value.low is not None and value.high is not None:
        parts.append(f"95% interval {value.low:.4g} to {value.high:.4g}")
    return "; ".join(parts)


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


def _write(path: Path, text: str) -> None:
    """Write a page whole or not at all; a page that did not change keeps its time."""
    content = text.encode()
    if path.exists() and path.read_bytes() == content:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)
