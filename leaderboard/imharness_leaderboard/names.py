"""How rows, measures and tables are called on pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import (
    NO_ATTACK,
    Name,
    attack_names,
    brief,
    display_name,
    display_names,
    in_names,
    name_of,
    short_names,
)
from imharness.documents.tables import Table

__all__ = [
    "NO_ATTACK",
    "UNITS",
    "Name",
    "attack_names",
    "display_name",
    "display_names",
    "head_of",
    "in_names",
    "name_of",
    "plural",
    "short_names",
    "short_titles",
    "spelled_measure",
    "table_title",
    "title_with_names",
]


def title_with_names(leaderboard: Leaderboard, title: str) -> str:
    """Return the title of a table with the entries that it names, with or without their owner, as pages call them."""
    labels = [entry.label for entry in leaderboard.entries if "[" in entry.label]
    return in_names(title, {name: brief(label) for label in labels for name in (label, label.partition("/")[2])})


def table_title(leaderboard: Leaderboard, table: Table) -> str:
    """Return the title of a table on a page of a leaderboard, with its id where another has the same title."""
    title = title_with_names(leaderboard, table.title)
    return title if [other.title for other in leaderboard.tables].count(table.title) < 2 else f"{title} ({table.id})"


UNITS = (
    (re.compile(r"(?<![\w/-])psnr(?![\w-])", re.IGNORECASE), "dB"),
    (re.compile(r"(?<![\w/-])mae(?![\w-])", re.IGNORECASE), "levels 0 to 1"),
    (re.compile("coverage"), "%"),
)
"""Measures whose names do not say their unit, and that unit."""


def head_of(label: str) -> str:
    """Return what stands above a column or beside an axis: the name of a measure, with its unit after a comma."""
    unit = next((unit for pattern, unit in UNITS if pattern.search(label) and unit not in label), "")
    return brief(label) + (f", {unit}" if unit else "")


def short_titles(titles: Sequence[str]) -> list[str]:
    """Return the titles of tables as a list of contents has them.

    That is what stands before the first comma, colon or word such as "by" or "for"; of titles that begin alike, what
    stands after the first comma of each, if it has one.
    """
    beginnings = [re.split(r"[,:]| (?:by|against|under|of what|for) ", title, maxsplit=1)[0] for title in titles]
    rest = [title.partition(", ")[2] or short for title, short in zip(titles, beginnings, strict=True)]
    return [
        beginning if beginnings.count(beginning) == 1 else further[:1].upper() + further[1:]
        for beginning, further in zip(beginnings, rest, strict=True)
    ]


def spelled_measure(text: str) -> str:
    """Return the name of a measure as a title begins, with a capital, and with its unit."""
    name = head_of(text)
    return name[:1].upper() + name[1:]


def plural(entry: str, count: int) -> str:
    """Return the word for so many entries of a kind, as in "3 defenses"."""
    return entry if count == 1 else f"{entry}s"
