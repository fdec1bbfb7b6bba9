"""Fits a sheet to a page: in smaller print, with heads and names on several lines, or in several parts.

Widths are generous estimates, so that a sheet that should fit does. Intervals stand beside their numbers, or below them
where the sheet would not fit otherwise. A sheet that does not fit in the smallest print is divided by columns, with the
names of the rows in each part, and by rows. Notes are placed below each part that uses them, remarks below the last
part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from imharness.exports.sheets import Cell, Line, Sheet
from imharness.reading.text import plain

SIZES = (10.0, 9.0, 8.0, 7.0)
"""The font sizes in points that are tried before a sheet is divided."""
DIVIDED = 8.0
"""The font size in points of a sheet in parts."""
INTERVAL = 0.8
"""The size of an interval and of raised letters, relative to that of the number before it."""
NAMES = 0.4
"""The share of the page's width that the names of rows and facets may take together."""
_NARROW, _WIDE = set("ijlft.,:;'!|()[]{} -/\\"), set("mwMW%@—→↑↓")
_PIECES = re.compile(r"[^\s,/\-=]*[\s,/\-=]?")


@dataclass(frozen=True)
class Page:
    """The room for a table and its notes, in points.

    `gap` is the space between two columns, in points; `leading` the distance of lines relative to the font size.
    """

    width: float
    height: float
    gap: float
    leading: float


@dataclass(frozen=True)
class Part:
    """Some columns and rows of a sheet in one font size. `key` is added to the sheet's name; the first part has ""."""

    sheet: Sheet
    size: float
    key: str
    names: float
    """The room for each column of names, in points."""
    below: bool = False
    """Whether intervals stand below their numbers instead of beside them."""

    def head(self, text: str, position: int) -> list[str]:
        """Return the lines of the head of a column of numbers."""
        return _head(text, _number_width(self.sheet, position, self.size, self.below), self.size)

    def name(self, text: str) -> list[str]:
        """Return the lines of the name of a row or facet, or of the head above it."""
        return wrapped(text, self.names, self.size)


def width_of(text: str, size: float) -> float:
    """Return an upper bound of the width of a text in a font size, both in points."""
    return size * sum(map(_sign_width, text))


@lru_cache(maxsize=4096)
def _sign_width(sign: str) -> float:
    if sign in _NARROW:
        return 0.36
    if sign in _WIDE or ord(sign) > 0x2E7F:
        return 1.0
    return 0.76 if sign.isupper() or ord(sign) > 0x7E else 0.53


def wrapped(text: str, room: float, size: float) -> list[str]:
    """Return a text as lines that fit into a width in points, broken after spaces and signs if possible."""
    lines, line = list[str](), ""
    for piece in _PIECES.findall(plain(text)):
        while piece:
            if width_of((line + piece).rstrip(), size) <= room:
                line, piece = line + piece, ""
            elif line:
                lines, line = [*lines, line.rstrip()], ""
            else:  # longer than a line
                fits = max(1, max(i for i in range(len(piece)) if i <= 1 or width_of(piece[:i], size) <= room))
                lines, piece = [*lines, piece[:fits]], piece[fits:]
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _head(text: str, number: float, size: float) -> list[str]:
    """Return the lines of a head above numbers of a width; words are only broken if they are very long."""
    longest = max((width_of(piece.rstrip(), size) for piece in _PIECES.findall(plain(text))), default=0.0)
    return wrapped(text, max(number, 4 * size, min(longest, 8 * size)), size)


def parts_of(sheet: Sheet, page: Page) -> list[Part]:
    """Return a sheet in as few parts as the page allows, in the order in which they are read."""
    for below in (False, True):
        for size in SIZES:
            if _width(sheet, page, size, below) <= page.width:
                return _numbered(_by_rows(sheet, page, size, below), page, size, below)
    columns = _by_columns(sheet, page, DIVIDED)
    return _numbered([own for some in columns for own in _by_rows(some, page, DIVIDED)], page, DIVIDED)


def _numbered(sheets: Sequence[Sheet], page: Page, size: float, below: bool = False) -> list[Part]:
    found = []
    for number, own in enumerate(sheets):
        letters = {
            letter for line in own.lines for notes in (line.notes, *(c.notes for c in line.cells)) for letter in notes
        }
        of = f" Part {number + 1} of {len(sheets)}." if len(sheets) > 1 else ""
        kept = replace(
            own,
            caption=own.caption + of,
            notes=tuple(note for note in own.notes if note[0] in letters),
            remarks=own.remarks if number == len(sheets) - 1 else (),
        )
        found.append(Part(kept, size, f"-{number + 1}" if number else "", _names(sheets[0], page), below))
    return found


def _names(sheet: Sheet, page: Page) -> float:
    return NAMES * page.width / (1 + len(sheet.facets))


def _width(sheet: Sheet, page: Page, size: float, below: bool) -> float:
    """Return an upper bound of the width of a sheet, in points."""
    columns = range(len(sheet.columns))
    return _names_width(sheet, page, size) + sum(_column_width(sheet, i, page, size, below) for i in columns)


def _names_width(sheet: Sheet, page: Page, size: float) -> float:
    room = _names(sheet, page)
    notes = max((width_of(",".join(line.notes), INTERVAL * size) for line in sheet.lines), default=0.0)
    columns = [[sheet.entry, *(line.name for line in sheet.lines)]]
    columns += [[name, *(line.facets[i] for line in sheet.lines)] for i, name in enumerate(sheet.facets)]
    return notes + sum(
        page.gap + max(width_of(part, 1.15 * size) for text in own for part in wrapped(text, room, size))
        for own in columns
    )


def _number_width(sheet: Sheet, position: int, size: float, below: bool = False) -> float:
    return max((_cell_width(line.cells[position], size, below) for line in sheet.lines), default=0.0)


def _cell_width(cell: Cell, size: float, below: bool) -> float:
    number = width_of(cell.text, size) + width_of(",".join(cell.notes) + "*" * cell.tied, INTERVAL * size)
    interval = width_of(f" [{cell.low}, {cell.high}]", INTERVAL * size) if cell.low else 0.0
    return max(number, interval) if below else number + interval


def _column_width(sheet: Sheet, position: int, page: Page, size: float, below: bool = False) -> float:
    number = _number_width(sheet, position, size, below)
    head = _head(sheet.heads[position], number, size)
    return page.gap + max(number, *(width_of(line, 1.15 * size) for line in head))


def _by_columns(sheet: Sheet, page: Page, size: float) -> list[Sheet]:
    room = page.width - _names_width(sheet, page, size)
    widths = [_column_width(sheet, i, page, size) for i in range(len(sheet.columns))]
    count = max(1, math.ceil(sum(widths) / max(room, 1.0)))
    while (cuts := _cut(widths, room, sum(widths) / count)) is None and count < len(widths):
        count += 1
    ends = cuts or list(range(len(widths) + 1))
    return [_with_columns(sheet, start, end) for start, end in pairwise(ends)]


def _cut(widths: Sequence[float], room: float, share: float) -> list[int] | None:
    """Return where to cut the columns so that each part is about `share` wide, or None if a part is too wide."""
    ends, used = [0], 0.0
    for i, width in enumerate(widths):
        if i > ends[-1] and (used + width > room or used + width / 2 > share):
            ends.append(i)
            used = 0.0
        used += width
        if used > room:
            return None
    return [*ends, len(widths)]


def _with_columns(sheet: Sheet, start: int, end: int) -> Sheet:
    lines = tuple(replace(line, cells=line.cells[start:end]) for line in sheet.lines)
    return replace(sheet, columns=sheet.columns[start:end], lines=lines)


def _by_rows(sheet: Sheet, page: Page, size: float, below: bool = False) -> list[Sheet]:
    """Return a sheet in parts that are not higher than the page."""
    texts, names = dict(sheet.notes), _names(sheet, page)
    rooms = [_number_width(sheet, i, size, below) for i in range(len(sheet.columns))]
    high = max((len(_head(h, room, size)) for h, room in zip(sheet.heads, rooms, strict=True)), default=1)
    fixed = _high(sheet.caption, page, 10.0) + high * size * page.leading + 5 * size
    remarks = sum(_high(text, page, 8.0) for text in sheet.remarks)
    parts, lines, used, letters = list[Sheet](), list[Line](), fixed, set[str]()
    for place, line in enumerate(sheet.lines):
        own = {letter for notes in (line.notes, *(cell.notes for cell in line.cells)) for letter in notes}
        tall = max(len(wrapped(text, names, size)) for text in (line.name, *line.facets))
        tall = max(tall, 2) if below and any(cell.low for cell in line.cells) else tall
        more = tall * size * page.leading + sum(_high(texts[letter], page, 8.0) for letter in own - letters)
        last = remarks if place == len(sheet.lines) - 1 else 0.0
        if lines and used + more + last > page.height:
            parts.append(replace(sheet, lines=tuple(lines)))
            lines, used, letters = [], fixed, set()
            more = tall * size * page.leading + sum(_high(texts[letter], page, 8.0) for letter in own)
        lines, used, letters = [*lines, line], used + more, letters | own
    return [*parts, replace(sheet, lines=tuple(lines))]


def _high(text: str, page: Page, size: float) -> float:
    return page.leading * size * math.ceil(width_of(text, 0.85 * size) / page.width)
