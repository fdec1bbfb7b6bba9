"""Divides a sheet into tables of so many columns and rows, and a text into lines of so many letters.

Whether a table fits the page is measured by LaTeX and Typst themselves, which shrink what is too large. Notes are
placed below each part that uses them, remarks below the last part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from textwrap import TextWrapper

from imharness.exports.sheets import Sheet
from imharness.reading.text import plain

COLUMNS, ROWS = 8, 24
"""The most columns of numbers, and rows, of a part."""
BESIDE = 3
"""The most columns of numbers of a part whose intervals stand beside their numbers, and not below them."""
NAME, HEAD = 32, 12
"""The most letters in a line of a name, and of the head of a column of numbers."""
_WORD = re.compile(r"(\s+|[^\s,/\-=]*[,/\-=])")


@dataclass(frozen=True)
class Part:
    """Some columns and rows of a sheet. `key` is added to the sheet's name; the first part has "".

    `below`: whether intervals stand below their numbers instead of beside them.
    """

    sheet: Sheet
    key: str = ""
    below: bool = False


def wrapped(text: str, letters: int) -> list[str]:
    """Return a text as lines of at most so many letters, broken after spaces and signs if possible."""
    wrapper = TextWrapper(letters)
    wrapper.wordsep_re = _WORD  # names have no spaces, but commas
    return wrapper.wrap(plain(text)) or [""]


def parts_of(sheet: Sheet) -> list[Part]:
    """Return a sheet in as few parts as it needs, of about the same size, in the order in which they are read."""
    columns, rows = _slices(len(sheet.columns), COLUMNS), _slices(len(sheet.lines), ROWS)
    sheets = [_cut(sheet, across, down) for across in columns for down in rows]
    below = any(len(sheet.columns) > BESIDE for sheet in sheets)
    return [_numbered(sheet, number, len(sheets), below) for number, sheet in enumerate(sheets)]


def _slices(count: int, most: int) -> list[slice]:
    pieces = max(1, -(-count // most))
    return [slice(i * count // pieces, (i + 1) * count // pieces) for i in range(pieces)]


def _cut(sheet: Sheet, columns: slice, rows: slice) -> Sheet:
    lines = tuple(replace(line, cells=line.cells[columns]) for line in sheet.lines[rows])
    return replace(sheet, columns=sheet.columns[columns], lines=lines)


def _numbered(sheet: Sheet, number: int, count: int, below: bool) -> Part:
    used = {note for line in sheet.lines for notes in (line.notes, *(c.notes for c in line.cells)) for note in notes}
    piece = replace(
        sheet,
        caption=sheet.caption + (f" Part {number + 1} of {count}." if count > 1 else ""),
        notes=tuple(note for note in sheet.notes if note[0] in used),
        remarks=sheet.remarks if number == count - 1 else (),
    )
    return Part(piece, f"-{number + 1}" if number else "", below)
