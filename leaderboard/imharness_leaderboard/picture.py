"""One picture of the site: an SVG for the light and one for the dark theme.

Matplotlib draws it without a display, and the same numbers give the same bytes. It draws the light one; the dark one is
the same file in other colours.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure

from imharness.reading.text import NO_MARKUP

THEMES = {
    "light": {"ink": "#1c2126", "dim": "#59636e", "line": "#dcdfe2", "paper": "#ffffff"},
    "dark": {"ink": "#e6e9ec", "dim": "#a0abb6", "line": "#3a434c", "paper": "#1b2026"},
}
COLOURS = {
    "light": ("#0072b2", "#d55e00", "#007a5a", "#a8467f", "#8a6d00", "#3f7fae", "#5b5b5b"),
    "dark": ("#56b4e9", "#e69f00", "#2fc79b", "#e08fc0", "#f0e442", "#9fd0f0", "#b5b5b5"),
}
"""Okabe and Ito's palette, which colour-blind readers can tell apart, darkened or lightened for contrast."""
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "leaderboard",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.6,
    **NO_MARKUP,
}
VERSION = 7
"""Version of the drawing. Raise it when pictures of the same numbers look different, so that they are drawn again."""
WIDTH = 7.2
"""The width of every picture, inches."""
KEPT = 200
"""The number of drawn pictures that are kept in memory for the next build of a site, tens of kB each."""
_DRAWN: dict[tuple[object, ...], bytes] = {}
"""Pictures by what they show; the most recently used one is last."""
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Style:
    """The colours of a theme; `colours` are those of the data, in order."""

    ink: str
    dim: str
    line: str
    paper: str
    colours: tuple[str, ...]

    @property
    def heat(self) -> LinearSegmentedColormap:
        """The colours of a heat map, from the paper to the first colour of the data."""
        return LinearSegmentedColormap.from_list("heat", [self.paper, self.colours[0]])


def style_of(theme: str) -> Style:
    """Return the colours of a theme, ``light`` or ``dark``."""
    return Style(**THEMES[theme], colours=COLOURS[theme])


def darkened(light: bytes) -> bytes:
    """Return a picture of the light theme in the colours of the dark one.

    Every colour of a picture must come from its style; labels and lines stand where they stood.
    """
    dark = _dark_colours()
    return re.sub(rb"((?:fill|stroke): )(#[0-9a-f]{6})", lambda found: found[1] + dark.get(found[2], found[2]), light)


@cache
def _dark_colours() -> dict[bytes, bytes]:
    """Return the dark colour for each light one, both as they stand in a file."""
    pair = [_all_colours(style_of(theme)) for theme in ("light", "dark")]
    return {light.encode(): dark.encode() for light, dark in zip(*pair, strict=True)}


def _all_colours(style: Style) -> list[str]:
    return [style.ink, style.dim, style.line, *style.colours, *map(to_hex, style.heat(np.arange(style.heat.N)))]


Draw = Callable[[Axes, Style], None]
Columns = Mapping[str, Sequence[object]]
"""The numbers of a picture, column by column."""


def rows_high(rows: int) -> float:
    """Return the height of a picture with a line for each row, inches."""
    return 1.0 + 0.27 * rows


@dataclass(frozen=True)
class Picture:
    """A picture and how to draw it.

    `name` is its address without theme and extension, `source` a digest of everything it shows, `size` in inches;
    `data` are the numbers that it shows.
    """

    name: str
    title: str
    caption: str
    source: str
    draw: Draw
    size: tuple[float, float]
    data: Columns

    @property
    def numbers(self) -> str:
        """The address of the file with the picture's numbers."""
        return f"{self.name}.csv"

    def file(self, theme: str) -> str:
        """Return the address of the picture's file; `theme` is ``light`` or ``dark``."""
        return f"{self.name}-{theme}.svg"

    def svg(self, theme: str) -> bytes:
        """Return the picture as an SVG file; one that this process drew lately is not drawn again."""
        key = (self.name, self.title, self.source, self.size, theme)
        with _LOCK:
            found = _DRAWN.pop(key, None)
        found = self.drawn(theme) if found is None else found
        with _LOCK:
            _DRAWN[key] = found
            if len(_DRAWN) > KEPT:
                del _DRAWN[next(iter(_DRAWN))]
        return found

    def drawn(self, theme: str) -> bytes:
        """Return the picture as an SVG file, drawn anew."""
        style = style_of(theme)
        with mpl.rc_context(dict(SETTINGS)):
            figure = Figure(figsize=self.size, layout="constrained", facecolor=style.paper)
            axes = figure.add_subplot(facecolor=style.paper)
            for side in axes.spines.values():
                side.set_color(style.line)
            axes.tick_params(colors=style.dim, which="both")
            axes.grid(color=style.line)
            axes.set_axisbelow(True)
            axes.xaxis.label.set_color(style.ink)
            axes.yaxis.label.set_color(style.ink)
            self.draw(axes, style)
            out = io.BytesIO()
            # Saving a figure would draw it twice: once to lay it out, although drawing the canvas does that anyway.
            canvas = FigureCanvasSVG(figure)
            canvas.print_svg(out, metadata={"Date": None, "Title": self.title})  # type: ignore[no-untyped-call]
        return out.getvalue()
