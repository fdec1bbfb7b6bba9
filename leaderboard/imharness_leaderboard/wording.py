"""How labels, sizes and lists are written in sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup, escape

from imharness.results.boards import Board


def brief(label: str) -> str:
    """Return a label as pages show it: without ``harness/``, the owner of the first-party components."""
    return label.replace("harness/", "")


PARTS = re.compile(r"(?<=[/,=_+])|(?=\[)")
"""Where a label may be broken."""
ON_AXIS = 72
"""The longest line of a label on an axis, in letters: a longer one would leave the picture no width."""


def breaking(label: str) -> Markup:
    """Return a label as pages show it, as escaped HTML that may be broken between its parts but not within a word."""
    return Markup("<wbr>").join(PARTS.split(brief(label)))


def on_axis(label: str) -> str:
    """Return a label as pictures show it beside an axis: in lines of at most `ON_AXIS` letters, where parts allow."""
    lines = [""]
    for part in PARTS.split(brief(label)):
        if lines[-1] and len(lines[-1]) + len(part) > ON_AXIS:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return "\n".join(lines)


def apart(label: str) -> tuple[str, list[str]]:
    """Return a label without its square brackets, and the parts of what they hold, split at its commas.

    What follows the brackets stays, such as " within 1/255"; brackets within brackets belong to a part.
    """
    bare, parts, depth = "", list[str](), 0
    for sign in label:
        closed = depth > 0 and sign in "])"
        depth -= closed
        if (depth == 0 and sign == "[") or (depth == 1 and sign == ","):
            parts.append("")
        elif depth:
            parts[-1] += sign
        elif not closed:
            bare += sign
        depth += sign == "[" or (depth > 0 and sign == "(")
    return bare, [part.strip() for part in parts if part.strip()]


def short(labels: Sequence[str]) -> list[str]:
    """Return labels without their parameters, where they still differ."""
    bare = {label: apart(brief(label))[0] for label in labels}
    often = Counter(bare.values())
    return [bare[label] if often[bare[label]] == 1 else brief(label) for label in labels]


def human_size(size: int) -> str:
    """Return a number of bytes in B, kB or MB."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"


def partial(board: Board) -> str:
    """Return how much of a run its tables show, as in "312 of 1,877 cells"; empty where nothing is waiting."""
    return f"{board.cells_done:,} of {board.cells_done + board.waiting:,} cells" if board.waiting else ""


def with_code(text: str) -> Markup:
    """Return escaped HTML in which text between backquotes is marked as code."""
    return Markup(re.sub(r"(`+)(.+?)\1", r"<code>\2</code>", str(escape(text)), flags=re.DOTALL))
