"""How the site writes sizes, moments, values of facets, and labels that are broken into lines."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import brief

ATTACKERS = {
    "unaware": "does not know the defense",
    "fixed": "does not know the defense",
    "aware": "knows the defense",
    "adaptive": "knows the defense",
}
"""What an attacker knows, as data have it -> as pages say it."""
PARTS = re.compile(r"(?<=[/,=_+])|(?=\[)")
"""Where a label may be broken: after one of the signs ``/ , = _ +``, and before a bracket."""
ON_AXIS = 72
"""The longest line of a label on an axis, in letters: a longer one would leave the picture no width."""


def facet_text(name: str, value: str) -> str:
    """Return the value of a facet, such as an attack, a data set or what the attacker knows, as pages show it."""
    return ATTACKERS.get(value, value) if name == "attacker" else brief(value)


def breaking(label: str) -> Markup:
    """Return a label as pages show it, as escaped HTML that may be broken between its parts but not within a word."""
    return Markup("<wbr>").join(PARTS.split(brief(label)))


def on_axis(label: str) -> str:
    """Return a label as pictures show it beside an axis: in lines of at most `ON_AXIS` letters, where parts allow."""
    lines = [""]
    for piece in PARTS.split(brief(label)):
        if lines[-1] and len(lines[-1]) + len(piece) > ON_AXIS:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return "\n".join(lines)


def last_sentence(text: str) -> str:
    """Return the last sentence of a text as a part of another one: without its full stop and its capital."""
    sentence = text.removesuffix(".").rpartition(". ")[2]
    return sentence[:1].lower() + sentence[1:]


def human_size(size: int) -> str:
    """Return a number of bytes in B, kB or MB."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"


def partial(leaderboard: Leaderboard) -> str:
    """Return how much of a run its tables show, as in "312 of 1,877 tasks"; empty where nothing is waiting."""
    if not leaderboard.waiting:
        return ""
    return f"{leaderboard.tasks_done:,} of {leaderboard.tasks_done + leaderboard.waiting:,} tasks"


def moment(stamp: str) -> str:
    """Return a moment in ISO 8601, to the minute where it is in UTC, as in "2026-01-02 13:05 UTC"."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:[\d.]+)?(\+00:00|Z)", stamp)
    return f"{match[1]} {match[2]} UTC" if match else stamp


def with_code(text: str) -> Markup:
    """Return escaped HTML in which text between backquotes is marked as code."""
    return Markup(re.sub(r"(`+)(.+?)\1", r"<code>\2</code>", str(escape(text)), flags=re.DOTALL))
