"""How entries and attacks are called on the pages of rankings, and how texts name them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from imharness.results.boards import Board
from imharness.results.tables import Table
from imharness_leaderboard.chips import short_names
from imharness_leaderboard.wording import brief


def display_name(label: str) -> str:
    """Return what a label is called, without its parameters."""
    return short_names([label])[label]


def display_names(labels: Sequence[str]) -> dict[str, str]:
    """Return what each label is called, with its parameters only where another one has the same name.

    The part that most labels of several components have in common, such as the model, is left out.
    """
    parts = Counter(part for label in labels if " + " in label for part in label.split(" + "))
    common, times = parts.most_common(1)[0] if parts else ("", 0)
    shared = common if len(labels) > 1 and 2 * times > len(labels) else ""
    cut = {label: " + ".join(part for part in label.split(" + ") if part != shared) or label for label in labels}
    names = short_names(list(dict.fromkeys(cut.values())))
    return {label: names[own] for label, own in cut.items()}


def attack_names(labels: Sequence[str]) -> dict[str, str]:
    """Return what each attack is called; "none" is no attack."""
    return {label: "no attack" if label == "none" else name for label, name in display_names(labels).items()}


def in_names(text: str, names: Mapping[str, str]) -> str:
    """Return a sentence with every label of `names` replaced by what it is called."""
    pattern = "|".join(re.escape(label) for label in sorted(names, key=len, reverse=True))
    found = re.sub(rf"(?<![\w/])(?:{pattern})(?![\w\[/-])", lambda match: names[match[0]], text) if names else text
    return brief(found)


def title_with_names(board: Board, title: str) -> str:
    """Return the title of a table with the entries that it names, with or without their owner, as pages call them."""
    labels = [entry.label for entry in board.entries if "[" in entry.label]
    return in_names(title, {part: brief(label) for label in labels for part in (label, label.partition("/")[2])})


def table_title(board: Board, table: Table) -> str:
    """Return the title of a table on a page of a board, with the table's id where another table has the same title."""
    title = title_with_names(board, table.title)
    return title if [own.title for own in board.tables].count(table.title) < 2 else f"{title} ({table.id})"


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
    """Return the titles of tables as a list of contents has them: what stands before the first comma, colon or "by".

    Of several that begin alike, what only one of them has after its first comma is taken.
    """
    found = [re.split(r"[,:]| (?:by|against|under|of what|for) ", title, maxsplit=1)[0] for title in titles]
    rest = [title.partition(", ")[2] or short for title, short in zip(titles, found, strict=True)]
    return [
        own if found.count(own) == 1 else further[:1].upper() + further[1:]
        for own, further in zip(found, rest, strict=True)
    ]


def spelled_measure(text: str) -> str:
    """Return the name of a measure as a title begins, with a capital, and with its unit."""
    name = head_of(text)
    return name[:1].upper() + name[1:]


def plural(entry: str, count: int) -> str:
    """Return the word for so many entries of a kind, as in "3 defenses"."""
    return entry if count == 1 else f"{entry}s"
