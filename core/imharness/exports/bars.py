"""Draws numbers with their intervals as bars, in characters and as SVG, all of a table on one scale."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from imharness.documents.tables import Value

HEIGHT = 14
"""The height of a bar in SVG, px."""
MARGIN = 5
"""What is left free at the ends of a bar in SVG, px, so that dots are whole."""


@dataclass(frozen=True)
class Scale:
    """What all bars of a table share: the numbers at their ends, and that of the entry without a defense, if any."""

    low: float
    high: float
    plain: float | None = None

    @classmethod
    def of(cls, values: Iterable[Value], plain: float | None = None) -> Scale:
        """Return the scale that holds numbers and their intervals."""
        ends = [x for value in values for x in (value.value, value.low, value.high) if x is not None]
        return cls(min(ends), max(ends), plain) if ends else cls(0.0, 1.0, plain)

    def share(self, number: float) -> float:
        """Return where a number is, from 0 at the left end to 1 at the right end."""
        share = (number - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return min(max(share, 0.0), 1.0)


def text_bar(value: Value, scale: Scale, size: int) -> str:
    """Return a bar of `size` characters; the line is the entry without a defense."""

    def at(number: float) -> int:
        return round(scale.share(number) * (size - 1))

    if value.value is None:
        return " " * size
    signs = ["·"] * size
    if value.low is not None and value.high is not None:
        for i in range(at(value.low), at(value.high) + 1):
            signs[i] = "━"
    if scale.plain is not None:
        signs[at(scale.plain)] = "│"
    signs[at(value.value)] = "●"
    return "".join(signs)


def svg_bar(value: Value, scale: Scale, width: int) -> str:
    """Return a bar as SVG in the colour of the text around it; without a number, the line alone."""

    def at(number: float) -> str:
        return f"{MARGIN + scale.share(number) * (width - 2 * MARGIN):.1f}"

    middle, shapes = HEIGHT // 2, list[str]()
    if scale.plain is not None:
        x = at(scale.plain)
        shapes.append(f'<path d="M{x} 0V{HEIGHT}" stroke="currentColor" stroke-opacity=".8" stroke-dasharray="2"/>')
    if value.low is not None and value.high is not None:
        shapes.append(
            f'<path d="M{at(value.low)} {middle}H{at(value.high)}" stroke="currentColor" stroke-opacity=".45" '
            'stroke-width="3" stroke-linecap="round"/>'
        )
    if value.value is not None:
        shapes.append(f'<circle cx="{at(value.value)}" cy="{middle}" r="4" fill="currentColor"/>')
    return f'<svg width="{width}" height="{HEIGHT}" aria-hidden="true">{"".join(shapes)}</svg>'
