"""Writes a sheet as CSV, JSON, Parquet or an Excel workbook, in full precision, each part of a number in a column."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from imharness.documents.tables import ColumnSpec, Table
from imharness.errors import Unavailable
from imharness.exports.sheets import Cell, Sheet
from imharness.reading.text import plain
from imharness.results.version import SCHEMA

PARTS = {"value": "", "low": " low", "high": " high", "n": " n", "clusters": " clusters", "missing": " missing"}
"""Field of a number -> the text after the column's label in its header."""
MARK = " mark"
_ADDED = ("winner", "notes", "findings", "control", "gate", "incomplete", "flags", "proxies")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""The beginnings of texts that a spreadsheet would take for formulas."""
LONGEST = 31
"""The most characters in the name of an Excel sheet."""


def columns_of(table: Table, columns: Sequence[ColumnSpec] = ()) -> dict[str, list[Any]]:
    """Return a table as columns: label, facets, and for each number the fields named in `PARTS`.

    Columns without content are left out. If two columns have the same label, the later one has its key after it.
    """
    facets = list(dict.fromkeys(name for row in table.rows for name in row.facets))
    data: dict[str, list[Any]] = {table.entry: [row.label for row in table.rows]}
    data |= {f"facet {name}": [row.facets.get(name, "") for row in table.rows] for name in facets}
    labels = labels_of(table, columns)
    for column in columns or table.columns:
        values = [row.values.get(column.key) for row in table.rows]
        label = labels[column.key]
        data |= {label + suffix: [getattr(v, name, None) for v in values] for name, suffix in PARTS.items()}
    return {name: column for name, column in data.items() if any(v not in (None, "") for v in column)}


def labels_of(table: Table, columns: Sequence[ColumnSpec] = ()) -> dict[str, str]:
    """Return key -> label of each column; labels are distinct and differ from those of other parts of the table."""
    taken = {table.entry, *(f"facet {name}" for row in table.rows for name in row.facets), *_ADDED}
    labels = dict[str, str]()
    for column in columns or table.columns:
        label = column.label if column.label not in taken else f"{column.label} ({column.key})"
        taken |= {label + suffix for suffix in (*PARTS.values(), MARK)}
        labels[column.key] = label
    return labels


def sheet_columns(sheet: Sheet) -> dict[str, list[Any]]:
    """Return a sheet as `columns_of` does, with columns for its standing, winners, notes, findings and marks.

    A mark is "best" or "tied".
    """
    data, texts = columns_of(sheet.table, sheet.columns), dict(sheet.notes)
    labels = labels_of(sheet.table, sheet.columns)
    marks = {name: list(column) for name, column in sheet.standing.items()}
    marks["winner"] = ["winner" if line.won else "" for line in sheet.lines]
    marks["notes"] = [" ".join(texts[letter] for letter in line.notes) for line in sheet.lines]
    marks["findings"] = [
        " ".join(f"{finding.tier}: {finding.text}" for finding in sheet.findings if finding.entry == line.label)
        for line in sheet.lines
    ]
    for position, column in enumerate(sheet.columns):
        marks[labels[column.key] + MARK] = [line.cells[position].mark for line in sheet.lines]
    return data | {name: column for name, column in marks.items() if any(column)}


def csv_bytes(columns: Mapping[str, Sequence[object]]) -> bytes:
    """Return columns as a CSV file that a spreadsheet opens safely."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_cell, columns))
    writer.writerows(map(_csv_cell, row) for row in zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _csv_cell(value: object) -> object:
    """Return a value that a spreadsheet opens safely: a text that it would take for a formula gets a quote in front."""
    if value is None:
        return ""
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA) else value


def parquet_bytes(columns: Mapping[str, Sequence[Any]], table: Table) -> bytes:
    """Return columns as a Parquet file, with the title and the caption of their table in its metadata."""
    facts = {"title": table.title, "caption": table.caption, "schema_version": str(SCHEMA)}
    content = pa.table({name: pa.array(values) for name, values in columns.items()})
    out = io.BytesIO()
    pq.write_table(content.replace_schema_metadata(facts), out, compression="zstd")
    return out.getvalue()


def csv_of(sheet: Sheet) -> bytes:
    """Return a sheet as a CSV file."""
    return csv_bytes(sheet_columns(sheet))


def parquet_of(sheet: Sheet) -> bytes:
    """Return a sheet as a Parquet file."""
    return parquet_bytes(sheet_columns(sheet), sheet.table)


def json_of(sheets: Iterable[Sheet]) -> bytes:
    """Return sheets as a JSON list, each with its title, columns with their directions, rows, notes and findings."""
    return (json.dumps([_facts(sheet) for sheet in sheets], indent=2, ensure_ascii=False) + "\n").encode()


def _facts(sheet: Sheet) -> dict[str, Any]:
    texts = dict(sheet.notes)
    rows = [
        {
            sheet.entry: line.label,
            "facets": dict(row.facets),
            "winner": line.won,
            "notes": [texts[letter] for letter in line.notes],
            "standing": {name: column[at] for name, column in sheet.standing.items() if name != "proxies"},
            "values": {column.key: _value(cell) for column, cell in zip(sheet.columns, line.cells, strict=True)},
        }
        for at, (line, row) in enumerate(zip(sheet.lines, sheet.table.rows, strict=True))
    ]
    return {
        "schema_version": SCHEMA,
        "track": sheet.track,
        "table": sheet.id,
        "title": sheet.title,
        "caption": sheet.caption,
        "entry": sheet.entry,
        "columns": [column.model_dump(mode="json") for column in sheet.columns],
        "rows": rows,
        "remarks": list(sheet.remarks),
        "proxies": list(sheet.proxies),
        "claim": sheet.claim,
        "findings": [finding.model_dump(mode="json") for finding in sheet.findings],
    }


def _value(cell: Cell) -> dict[str, Any]:
    """Return the fields and the mark of a number; infinity becomes null, because JSON does not have it."""
    facts = cell.value.model_dump() if cell.value is not None else {"value": None, "missing": "not measured"}
    numbers = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}
    return numbers | {"mark": cell.mark}


def xlsx_of(sheets: Iterable[Sheet]) -> bytes:
    """Return an Excel workbook with one sheet for each table; no text in it becomes a formula or a link.

    Raises `Unavailable` without the package xlsxwriter.
    """
    try:
        import xlsxwriter
    except ImportError:
        remedy = "pip install 'image-privacy-harness[xlsx]'"
        raise Unavailable("the package xlsxwriter is not installed", remedy) from None
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True, "nan_inf_to_errors": True}) as book:
        formats = {name: book.add_format({"bold": True}) for name in ("head", "best")}
        for sheet in sheets:
            _write_page(book.add_worksheet(_page_name(sheet, book.sheetnames)), sheet, formats)
    return out.getvalue()


def _write_page(page: Any, sheet: Sheet, formats: Mapping[str, Any]) -> None:
    columns, labels = sheet_columns(sheet), labels_of(sheet.table, sheet.columns)
    best = {
        (row, labels[column.key])
        for row, line in enumerate(sheet.lines)
        for cell, column in zip(line.cells, sheet.columns, strict=True)
        if cell.best
    }
    page.write_string(0, 0, sheet.caption)
    for index, (name, values) in enumerate(columns.items()):
        page.write_string(2, index, name, formats["head"])
        for row, value in enumerate(values):
            style = [formats["best"]] if (row, name) in best else []
            if isinstance(value, str):
                page.write_string(3 + row, index, value, *style)
            elif value is not None:
                page.write_number(3 + row, index, value, *style)
    for row, text in enumerate(sheet.remarks):
        page.write_string(4 + len(sheet.lines) + row, 0, text)
    page.freeze_panes(3, 1)


def _page_name(sheet: Sheet, taken: Mapping[str, object]) -> str:
    """Return a new name for a sheet of the workbook, without the characters that Excel refuses and not too long."""
    wanted = re.sub(r"[\[\]:*?/\\']", "-", plain(f"{sheet.track.rpartition('/')[2]} {sheet.id}".strip()))
    name, number, used = wanted[:LONGEST], 2, {name.lower() for name in taken}
    while name.lower() in used:
        name, number = f"{wanted[: LONGEST - 3]} {number}", number + 1
    return name
