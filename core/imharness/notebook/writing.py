"""Tables of results as text, HTML and data frames. Imports no torch."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from imharness.documents.tables import ColumnSpec, Table, Value
from imharness.errors import Unavailable
from imharness.exports import Sheet
from imharness.exports.bars import Scale, svg_bar, text_bar
from imharness.exports.sheets import ARROWS, Cell, Line
from imharness.results.identity import LOCAL, owner_of
from imharness.results.labels import components_in

if TYPE_CHECKING:
    import pandas

SHOWN_COLUMNS = 6
"""The number of columns of numbers that a short table shows."""
WIDEST = 118
"""The most characters of a line of a short table in a terminal; columns after the first are left out until it fits."""
BAR, BAR_PX = 20, 160
"""The length of a bar in characters and in px."""
PLACES = "rank"
"""The key of the column that holds the places of a ranking."""
HIGHLIGHT = ' style="background:rgba(120,150,255,.18)"'
"""What rows with an object of the user's have in HTML."""


def heading(column: ColumnSpec) -> str:
    """Return the label of a column with an arrow in the better direction."""
    return f"{column.label} {ARROWS[column.better]}".rstrip()


def leading(table: Table) -> list[str]:
    """Return the keys of the columns of a short table, at most `SHOWN_COLUMNS`.

    First comes the column that ranks the table, then the first column of each measure, then the second of each, and so
    on. Columns with the same description are one measure, of several groups of units; a column without a description
    is a measure of its own.
    """
    number_in_measure, counts = dict[str, int](), Counter[str]()
    for column in table.columns:
        number_in_measure[column.key] = counts[column.description] if column.description else 0
        counts[column.description] += 1
    ordered = sorted(number_in_measure, key=lambda key: (key != table.ranked_by, number_in_measure[key]))
    return ordered[:SHOWN_COLUMNS]


def measured(table: Table) -> str:
    """Return the key of the column that ranks a table; if that column holds ranks, the first one with other numbers."""
    ranked = table.ranked_by or (table.columns[0].key if table.columns else "")
    if ranked != PLACES:
        return ranked
    others = [column.key for column in table.columns if column.key != PLACES]
    return next((key for key in others if any(row.number(key) is not None for row in table.rows)), ranked)


def is_users(label: str) -> bool:
    """Say whether an entry has an object of a notebook or script."""
    return any(owner_of(component) == LOCAL for component in components_in(label))


def users_first(table: Table) -> Table:
    """Return a table with the rows of the user's objects before all others."""
    return table.model_copy(update={"rows": tuple(sorted(table.rows, key=lambda row: not is_users(row.label)))})


class _Bars(NamedTuple):
    """The bars of a sheet: they show the column at the position `after`, and stand after it, on one scale."""

    after: int
    scale: Scale

    def of(self, line: Line, draw: Callable[[Value, Scale, int], str], size: int) -> str:
        """Return the bar of a row, drawn by `text_bar` or `svg_bar`; `size` is its length in characters or px."""
        return draw(line.cells[self.after].value or Value(), self.scale, size)


def _bars(sheet: Sheet, baseline: str) -> _Bars | None:
    """Return the bars of a sheet; None if fewer than two rows have a number in the column that ranks the table.

    `baseline` is the label of the entry whose number is a line in all bars.
    """
    keys = [column.key for column in sheet.columns]
    if (key := measured(sheet.table)) not in keys:
        return None
    numbers = [row.values[key] for row in sheet.table.rows if row.number(key) is not None]
    plain = next((row.number(key) for row in sheet.table.rows if row.label == baseline), None)
    return _Bars(keys.index(key), Scale.of(numbers, plain)) if len(numbers) > 1 else None


def _inserted(cells: Sequence[str], bars: _Bars | None, bar: str) -> list[str]:
    """Return the cells of a row with its bar at the right position; without bars, the cells alone."""
    if bars is None:
        return list(cells)
    position = bars.after + 1
    return [*cells[:position], bar, *cells[position:]]


def as_text(sheet: Sheet, baseline: str = "") -> str:
    """Return a table with aligned columns and bars for a terminal, and its notes.

    `baseline` is the entry without a defense, whose number is a line in all bars.
    """
    bars = _bars(sheet, baseline)
    lines = [[sheet.entry, *sheet.facets, *_inserted(sheet.heads, bars, "")]]
    for line in sheet.lines:
        bar = bars.of(line, text_bar, BAR) if bars is not None else ""
        lines.append([_noted(line.name, line.notes), *line.facets, *_inserted([*map(_shown, line.cells)], bars, bar)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    left_out = len(sheet.table.columns) - len(sheet.columns)
    more = [f"({left_out} more column{'s' if left_out > 1 else ''})"] if left_out > 0 else []
    return "\n".join([f"{sheet.title} ({sheet.id})", *rows, *more, *(f"{a}: {text}" for a, text in sheet.notes)])


def as_html(sheet: Sheet, baseline: str = "") -> str:
    """Return a table with bars in HTML, with its title alone; everything is escaped. `baseline`: as in `as_text`."""
    bars = _bars(sheet, baseline)
    heads = [f"<th>{html.escape(name)}</th>" for name in sheet.heads]
    first = "".join(f"<th>{html.escape(name)}</th>" for name in (sheet.entry, *sheet.facets))
    body = []
    for line in sheet.lines:
        cells = [f"<td>{_strong(html.escape(_shown(cell)), cell.best)}</td>" for cell in line.cells]
        bar = f"<td>{bars.of(line, svg_bar, BAR_PX)}</td>" if bars is not None else ""
        body.append(
            f"<tr{HIGHLIGHT if is_users(line.label) else ''}>"
            f"<th scope='row'>{html.escape(_noted(line.name, line.notes))}</th>"
            + "".join(f"<td>{html.escape(name)}</td>" for name in line.facets)
            + "".join(_inserted(cells, bars, bar))
            + "</tr>"
        )
    head = first + "".join(_inserted(heads, bars, "<td></td>"))
    caption = f"<caption>{html.escape(sheet.title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def folded(summary: str, lines: Sequence[str]) -> str:
    """Return lines as paragraphs of HTML that open on a click; everything is escaped. Without lines, nothing."""
    inside = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return f"<details><summary>{html.escape(summary)}</summary>{inside}</details>" if lines else ""


def as_frame(table: Table) -> pandas.DataFrame:
    """Return a data frame with one row for each entry, and for each column its value, the ends of its interval and n.

    The units, and what its attribute `attrs` has, are in `imharness.notebook.result.ResultTable.to_dataframe`. Raises
    `Unavailable` without pandas.
    """
    columns: dict[str, list[float | None]] = {}
    for column in table.columns:
        values = [row.values.get(column.key, Value()) for row in table.rows]
        columns[column.key] = [value.value for value in values]
        for field in ("low", "high", "n"):
            numbers = [getattr(value, field) for value in values]
            if any(number is not None for number in numbers):
                columns[f"{column.key}_{field}"] = numbers
    index = pandas_module().Index([row.label for row in table.rows], name=table.entry)
    frame = pandas_module().DataFrame(columns, index=index, dtype=float)
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
