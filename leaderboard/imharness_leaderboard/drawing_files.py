"""The drawings of a page as files: the same shapes with a title above, and with their notes and source below.

A file needs no other file. Its style is that of the pages, in the colours of the light theme on white paper. It uses no
custom properties of CSS, which programs for writing papers do not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief
from imharness.exports.marks import proxies_of
from imharness_leaderboard.addresses import data_file, picture_base
from imharness_leaderboard.attack_heatmap import Heat
from imharness_leaderboard.drawing import LINE, width_of
from imharness_leaderboard.interval_rows import HEIGHT, WIDTH
from imharness_leaderboard.names import plural
from imharness_leaderboard.published import Slopes
from imharness_leaderboard.ranking_rows import RankedRow, group_titles
from imharness_leaderboard.rankings import RankingView, interval_text
from imharness_leaderboard.tables import shown

STATIC = Path(__file__).parent / "static"
PAPER = "#ffffff"
EDGE = 12.0
"""Room around everything in a file, px."""
LEAST = 480.0
"""The width of a narrow drawing's file, px, so that its title has room."""
NAME = 240.0
"""The most width of a name, px; a longer one is cut."""
HEADING, TALL = 1.25, 20.0
"""How much larger a title is than a label, and the height of its lines, px."""
STEP = 0.05
"""The opacity of a cell for each step of its colour."""


class Line(NamedTuple):
    """A line of text and the y of its baseline, px."""

    y: float
    text: str


@dataclass(frozen=True)
class Sheet:
    """A file, in px: the lines of its `heading`, the drawing, whose upper end is at `top`, and the `notes` below it."""

    width: float
    height: float
    heading: Sequence[Line]
    top: float
    notes: Sequence[Line]


def sheet(title: str, notes: Sequence[str], width: float, height: float) -> Sheet:
    """Return the file of a drawing of this size, px."""
    full = max(width + 2 * EDGE, LEAST)
    above = [Line(EDGE + TALL * (i + 0.8), text) for i, text in enumerate(wrapped(title, (full - 2 * EDGE) / HEADING))]
    top = EDGE + TALL * len(above) + 6
    below = [text for note in notes if note for text in wrapped(note, full - 2 * EDGE)]
    foot = top + height + LINE + 5
    last = foot + (LINE + 2) * max(len(below) - 1, 0)
    return Sheet(full, last + EDGE, above, top, [Line(foot + (LINE + 2) * i, text) for i, text in enumerate(below)])


def wrapped(text: str, width: float) -> list[str]:
    """Return a text in lines that are no wider than `width`, px; a single word may be."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def cut(text: str, width: float = NAME) -> str:
    """Return the beginning of a text that fits into `width`, px."""
    if width_of(text) <= width:
        return text
    while text and width_of(f"{text}…") > width:
        text = text[:-1]
    return f"{text.rstrip()}…"


class Placed(NamedTuple):
    """A row of a ranking, or the title of a group, and the y of its upper end, px.

    `title`: that of a group, or ""; `row`: None for a group. `name`, `numbers`, `beside`: the texts of a row.
    """

    y: float
    title: str
    row: RankedRow | None
    name: str
    numbers: str
    beside: str


@dataclass(frozen=True)
class Chart:
    """A ranking as a chart: the x at which each column begins, its rows, and its size, px."""

    name: float
    lane: float
    numbers: float
    beside: float
    width: float
    height: float
    rows: Sequence[Placed]


NUMBERS, BESIDE = "Value (95% interval)", "Worst attack"
"""The heads of a chart's columns beside its lanes."""
AXIS, GROUP = 46.0, 24.0
"""The height of the head of a chart, and of the title of a group, px."""


def chart_of(view: RankingView) -> Chart:
    """Return the first part of a ranking, which stands on the page of its track, as a chart."""
    rows, name = list(_placed(view)), EDGE + 54
    columns = (
        [placed.name for placed in rows],
        [NUMBERS, *(placed.numbers for placed in rows)],
        [BESIDE, *(placed.beside for placed in rows)],
    )
    widths = [max(width_of(text, bold=True) for text in (*texts, "")) + 10 for texts in columns]
    lane = name + widths[0]
    numbers = lane + WIDTH + 10
    beside = numbers + widths[1]
    width = beside + widths[2] - 10 - EDGE
    end = rows[-1].y + HEIGHT if rows else AXIS
    return Chart(name, lane, numbers, beside, width, end, rows)


def _placed(view: RankingView) -> Iterator[Placed]:
    worst, group, y = view.column("worst"), "", AXIS
    for row in view.parts[0].rows:
        if row.group != group:
            group = row.group
            yield Placed(y, group_titles(view.ranking)[row.group], None, "", "", "")
            y += GROUP
        value = row.row.values.get("worst")
        ends = interval_text(value, worst)
        numbers = shown(value, worst) + (f" ({ends})" if ends else "")
        yield Placed(y, "", row, cut(row.name), numbers, cut(row.worst_attack))
        y += HEIGHT


@dataclass(frozen=True)
class Matrix:
    """A heat map of attacks, in px.

    `beside`: the width of the names of rows at the left; `above`: the height of the names of columns above; `cell`: the
    width and the height of a cell.
    """

    beside: float
    above: float
    cell: tuple[float, float]
    names: Sequence[str]
    columns: Sequence[str]
    width: float
    height: float


CELL = (52.0, 22.0)
"""The size of a cell of a map, px."""
SLOPES = 500.0
"""The width of a drawing of ranks, published and ours, px."""


def matrix_of(heat: Heat, names: Sequence[str]) -> Matrix:
    """Return where the cells of a map stand; `names` are those of its rows."""
    rows = [cut(name) for name in names]
    columns = [cut(f"{column.name}{', knows' if heat.both and column.aware else ''}") for column in heat.columns]
    beside, above = (max(map(width_of, texts), default=0.0) + 8 for texts in (rows, columns))
    return Matrix(beside, above, CELL, rows, columns, beside + CELL[0] * len(columns), above + CELL[1] * len(rows))


@cache
def style() -> str:
    """Return the style of drawings, with the values of the light theme in place of its custom properties."""
    values = {"--card": PAPER}
    for name in ("style.css", "ranking.css"):
        for key, value in re.findall(r"(--[\w-]+): ([^;}]+)", (STATIC / name).read_text(encoding="utf-8")):
            values.setdefault(key, value.strip())  # the light theme stands first
    text = (STATIC / "drawings.css").read_text(encoding="utf-8")
    text = re.sub(r"var\((--[\w-]+)\)", lambda match: values[match[1]], text)
    return re.sub(r"/\*.*?\*/\n?", "", text)


Files = tuple[str, str]
"""The addresses of a drawing as SVG, and of its numbers as CSV."""


def drawings_of(view: RankingView) -> Mapping[str, Files]:
    """Return the files of the drawings of a ranking: ``chart``, and ``front`` and ``heat`` where it has them."""
    base, numbers = picture_base(view.leaderboard, view.table.id), data_file(view.leaderboard, view.table.id, "csv")
    by_attack = data_file(view.leaderboard, f"{view.table.id}-by-attack", "csv")
    every = {
        "chart": (f"{base}-worst.svg", numbers),
        "front": (f"{base}-trade.svg", numbers),
        "heat": (f"{base}-attacks.svg", by_attack),
    }
    return {kind: files for kind, files in every.items() if kind == "chart" or getattr(view, kind) is not None}


def slope_files(leaderboard: Leaderboard, number: int) -> Files:
    """Return the files of a drawing on the page "Published and ours", counted from 1."""
    name = f"published-{number}"
    return f"{picture_base(leaderboard, name)}.svg", data_file(leaderboard, name, "csv")


def source_line(leaderboard: Leaderboard, release: str) -> str:
    """Return where the numbers of a drawing come from; `release` is empty where they are not published."""
    return (
        f"Source: {leaderboard.title}, profile {leaderboard.profile}, {leaderboard.finished[:10]}"
        f"{f', release {release}' if release else ''}."
    )


def front_title(view: RankingView) -> str:
    """Return the title of the drawing of protection against utility."""
    count = len(view.ranking.may_be_best)
    if view.ranking.winner:
        return f"{view.names[view.ranking.winner]} protects best of those that are not shown to cost too much"
    if count:
        return f"{count} {plural(view.table.entry, count)} may be best of those that are not shown to cost too much"
    return f"No {view.table.entry} is shown to protect and to stay useful"


def front_note(view: RankingView) -> str:
    """Return what the marks of the drawing of protection against utility mean."""
    shade = (
        f"; entries in the shaded region lose more than {100 * view.ranking.share:.0f}% of utility, and the band at "
        "its edge is the interval of that gate"
        if view.front and view.front.shade
        else ""
    )
    joined_entries = "the line joins entries that no other entry beats in both, on the units that the two share"
    return f"Squares are controls; {joined_entries}{shade}."


def heat_note(view: RankingView) -> str:
    """Return what the numbers of the heat map of attacks are."""
    measure = brief(view.comparison.measure) if view.comparison else ""
    knows = f" Knows: the attacker knows the {view.table.entry}." if view.heat and view.heat.both else ""
    return (
        f"Mean {measure} over {view.column('worst').unit or 'unit'}s and other settings. The stronger the colour, the "
        f"more the attack achieves.{knows}"
    )


def chart_note(view: RankingView) -> str:
    """Return what the marks of the chart of a ranking mean."""
    hollow = f" Hollow dot: {view.hollow}." if view.hollow else ""
    plain = f", the solid one {view.ranking.baseline_name}" if view.lanes.plain is not None else ""
    return (
        f"Dot and line: mean over {view.column('worst').unit or 'unit'}s under the worst attack on each, 95% interval."
        f"{hollow} Vertical lines: controls{plain}. {view.bracketed}"
    )


class Drawing(NamedTuple):
    """A drawing as a file: its kind and addresses, what is seen, notes, its size in px, and what its template needs."""

    kind: str
    files: Files
    title: str
    notes: Sequence[str]
    size: tuple[float, float]
    facts: Mapping[str, Any]


def ranking_drawings(view: RankingView) -> Iterator[Drawing]:
    """Yield the drawings of a ranking, under all settings."""
    files, chart = drawings_of(view), chart_of(view)
    first, every = len(view.parts[0].rows), len(view.rows)
    notes = [
        f"{view.table.title}: {brief(view.column('worst').label)}.",
        chart_note(view),
        f"The first {first} of {every:,} rows." if first < every else "",
    ]
    size = chart.width, chart.height
    yield Drawing("chart", files["chart"], view.claim or view.table.title, notes, size, {"view": view, "chart": chart})
    if view.front is not None:
        size = view.front.width, view.front.height
        yield Drawing("front", files["front"], front_title(view), [front_note(view)], size, {"view": view})
    if view.heat is not None:
        matrix = matrix_of(view.heat, [view.names[label] for label, _ in view.heat.rows])
        notes = [heat_note(view), f"{view.heat.left} more rows are not drawn." if view.heat.left else ""]
        size, facts = (matrix.width, matrix.height), {"view": view, "matrix": matrix}
        yield Drawing("heat", files["heat"], view.heat.title, notes, size, facts)


def slope_drawings(leaderboard: Leaderboard, every: Sequence[Slopes]) -> Iterator[Drawing]:
    """Yield the drawings of the page "Published and ours"."""
    note = (
        "Best on top. A line that falls is an entry that does worse here than in the paper; equal numbers share a "
        "place."
    )
    for number, drawn in enumerate(every, 1):
        files, size = slope_files(leaderboard, number), (SLOPES, drawn.height)
        yield Drawing("slopes", files, f"{drawn.title}.", [note], size, {"drawn": drawn})


def as_svg(drawing: Drawing, templates: jinja2.Environment, leaderboard: Leaderboard, release: str) -> str:
    """Return a drawing as a file of its own."""
    proxies = proxies_of(leaderboard)
    below = [*drawing.notes, source_line(leaderboard, release)]
    below += [f"Stand-in data, do not cite: {'; '.join(proxies)}."] if proxies else []
    facts = {"kind": drawing.kind, "title": drawing.title, "sheet": sheet(drawing.title, below, *drawing.size)}
    text = templates.get_template("drawing.svg").render(
        **facts, **drawing.facts, style=style(), edge=EDGE, step=STEP, heads=(NUMBERS, BESIDE), root=""
    )
    return f"{text.strip()}\n"
