"""Tables of results as text, HTML and data frames. Imports no torch."""

from __future__ import annotations

import html
from collections import Counter
from typing import TYPE_CHECKING, Any

from imharness.errors import Unavailable
from imharness.exports import Sheet
from imharness.exports.sheets import ARROWS, Cell
from imharness.results.tables import ColumnSpec, Table, Value

if TYPE_CHECKING:
    import pandas

SHOWN_COLUMNS = 6
"""The number of columns of numbers that a short table shows."""


def heading(column: ColumnSpec) -> str:
    """Return the label of a column with an arrow in the better direction."""
    return f"{column.label} {ARROWS[column.better]}".rstrip()


def leading(table: Table) -> list[str]:
    """Return the keys of the columns of a short table: the one that ranks it, then one of each measure in turns.

    Columns with the same description are one measure of several groups.
    """
    turns, counts = dict[str, int](), Counter[str]()
    for column in table.columns:
        turns[column.key] = counts[column.description]
        counts[column.description] += bool(column.description)
    return sorted(turns, key=lambda key: (key != table.ranked_by, turns[key]))[:SHOWN_COLUMNS]


def as_text(sheet: Sheet) -> str:
    """Return a table with aligned columns for a terminal, and its notes."""
    lines = [[sheet.entry, *sheet.facets, *sheet.heads]]
    lines += [[_noted(line.name, line.notes), *line.facets, *map(_shown, line.cells)] for line in sheet.lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    left_out = len(sheet.table.columns) - len(sheet.columns)
    more = [f"({left_out} more column{'s' if left_out > 1 else ''})"] if left_out > 0 else []
    return "\n".join([f"{sheet.title} ({sheet.id})", *rows, *more, *(f"{a}: {text}" for a, text in sheet.notes)])


def as_html(sheet: Sheet) -> str:
    """Return a table in HTML with its notes; everything is escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in (sheet.entry, *sheet.facets, *sheet.heads))
    body = "".join(
        "<tr>"
        + f"<th scope='row'>{html.escape(_noted(line.name, line.notes))}</th>"
        + "".join(f"<td>{html.escape(name)}</td>" for name in line.facets)
        + "".join(f"<td>{_strong(html.escape(_shown(cell)), cell.best)}</td>" for cell in line.cells)
        + "</tr>"
        for line in sheet.lines
    )
    notes = "".join(f"<p>{html.escape(f'{letter}: {text}')}</p>" for letter, text in sheet.notes)
    caption = f"<caption>{html.escape(sheet.caption)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def as_frame(table: Table) -> pandas.DataFrame:
    """Return a data frame with one row for each entry, and for each column its value, the ends of its interval and n.

    The units, and what its attribute `attrs` has, are in `imharness.notebook.result.ResultTable.to_dataframe`. Raises
    `Unavailable` without pandas.
    """
    found: dict[str, list[float | None]] = {}
    for column in table.columns:
        values = [row.values.get(column.key, Value()) for row in table.rows]
        found[column.key] = [value.value for value in values]
        for part in ("low", "high", "n"):
            numbers = [getattr(value, part) for value in values]
            if any(number is not None for number in numbers):
                found[f"{column.key}_{part}"] = numbers
    index = pandas_module().Index([row.label for row in table.rows], name=table.entry)
    frame = pandas_module().DataFrame(found, index=index, dtype=float)
    frame.attrs = {
        "title": table.title,
        "caption": table.caption,
        "labels": {column.key: column.label for column in table.columns},
        "descriptions": {column.key: column.description for column in table.columns},
        "counted": {column.key: column.unit for column in table.columns if column.unit},
    }
    return frame


def pandas_module() -> Any:
    """Return pandas; raises `Unavailable` if it is not installed."""
    try:
        import pandas
    except ImportError:
        raise Unavailable("data frames need pandas", "pip install 'image-privacy-harness[notebook]'") from None
    return pandas


def _noted(text: str, notes: tuple[str, ...]) -> str:
    return f"{text} ({','.join(notes)})" if notes else text


def _shown(cell: Cell) -> str:
    return _noted(f"{cell.text} [{cell.low}, {cell.high}]" if cell.low else cell.text, cell.notes)


def _strong(text: str, wanted: bool) -> str:
    return f"<b>{text}</b>" if wanted else text
