"""Shows rankings as lines of text: for each track its headlines, its first entries with intervals, and its controls.

A line is a text with a style. Nothing depends on the style: in a pipe the same lines come without colours.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from imharness.documents.entries import NOT_JUDGED
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import NO_DEFENSE, brief, display_names, in_names
from imharness.documents.rankings import Place, Ranking, p_text, turned
from imharness.documents.tables import ColumnSpec, Row, Table, Value, joined
from imharness.exports.bars import Scale, text_bar
from imharness.exports.marks import proxies_of
from imharness.ranking.headline import bar_of

FIRST = 3
"""How many eligible entries a short form shows."""
NARROW, WIDE = 80, 118
"""The shortest and the longest line, in characters; between them, a line is as long as the terminal is wide."""
WITH_UTILITY = 110
"""The length of lines from which on a row also shows the utility, and longer bars and names."""
BAR, WIDE_BAR = 20, 40
"""The length of the bar of an interval, in characters, in short and in long lines."""
WORST = ", worst attack"
"""The end of the label of the ranking's number. It is left out, because every row is about the worst attack."""
NAME, WIDE_NAME = 22, 34
"""The longest name, in characters, in short and in long lines; a longer one is cut, with an ellipsis."""
BOLD, WON, DIM = "bold", "bold green", "dim"
WHY: Mapping[str, str] = {
    "incomplete": "incomplete",
    "flagged": "flagged",
    NOT_JUDGED: NOT_JUDGED,
    "fails": "costs too much",
    "doubtful": "costs too much, alone",
    "not measured": "utility not measured",
}
"""Why an entry cannot win, as `bar_of` returns it -> the few words for which a row has room."""


class Line(NamedTuple):
    """A line of a screen: its text, and the style that a terminal gives it."""

    text: str
    style: str = ""


def screen_width(available: int) -> int:
    """Return how long lines are, where so many characters fit."""
    return min(max(available, NARROW), WIDE)


def rule(width: int) -> Line:
    """Return a line across the screen."""
    return Line("─" * width, DIM)


def heading(leaderboards: Sequence[Leaderboard], width: int) -> Iterator[Line]:
    """Yield the head of the screen: what it is, and which tracks have data that nobody should cite."""
    demo = [leaderboard.title for leaderboard in leaderboards if proxies_of(leaderboard)]
    title = "What this run found"
    if demo and len(demo) == len(leaderboards):
        yield Line(title + "demo data: try it, do not cite".rjust(width - len(title)), BOLD)
    else:
        yield Line(title, BOLD)
        yield from _wrapped(f"demo data in {joined(demo)}: try it, do not cite", width, 0, DIM) if demo else ()
    yield rule(width)


def legend(leaderboards: Sequence[Leaderboard], width: int) -> Iterator[Line]:
    """Yield what the marks of all rows mean; nothing where there is no ranking."""
    names = dict.fromkeys(ranking.baseline_name for one in leaderboards for ranking in one.rankings)
    if names:
        plain = sorted(names, key=lambda name: name != NO_DEFENSE)
        marks = ("bar: 95 % interval", f"│ {', '.join(plain)}", "x: cannot win", "(stand-in): small network")
        yield from _wrapped("  ".join(marks), width, 1, DIM)
        yield from _wrapped(
            f"p: Wilcoxon, better than {' or '.join(plain)}; ( ) corrected over the table by Holm", width, 1, DIM
        )


def track_lines(leaderboard: Leaderboard, width: int, *, whole: bool = False) -> Iterator[Line]:
    """Yield the block of a track: its name, and each ranking with its headline and rows; of all entries if `whole`.

    Where a track has no ranking, the first row of its first table stands instead.
    """
    rankings = [(ranking, _table(leaderboard, ranking)) for ranking in leaderboard.rankings]
    title = leaderboard.title.upper()
    if not rankings:
        yield Line(title, BOLD)
        yield from _wrapped(_first_row(leaderboard), width, 2)
    for number, (ranking, table) in enumerate(rankings):
        names = names_in(table)
        if len(rankings) == 1:
            yield from _wrapped(f"{title}   {_measure(table, width)}", width, 0, BOLD)
        else:
            if number == 0:
                yield Line(title, BOLD)
            elif whole:
                yield Line("")
            yield from _wrapped(f"{in_names(table.title, names)}: {_measure(table, width)}", width, 1, BOLD)
        headline = in_names(ranking.claim, names)
        if ranking.winner:
            yield from _wrapped(f"WINNER {headline}", width, 2, WON)
        else:
            yield from _wrapped(headline, width, 2)
        rows, worst = list(_chosen(table, ranking, whole=whole)), _column(table, "worst")
        yield from _rows(rows, ranking, table, names, width)
        if worst is not None and (text := turned(rows, worst)):
            yield from _wrapped(in_names(text, names), width, 2, DIM)
        for proxy in ranking.proxies if whole else ():
            yield from _wrapped(f"stand-in: {brief(proxy)}", width, 2, DIM)


def names_in(table: Table) -> dict[str, str]:
    """Return what each row of a table is called."""
    return display_names([row.label for row in table.rows])


def _table(leaderboard: Leaderboard, ranking: Ranking) -> Table:
    return next(table for table in leaderboard.tables if table.id == ranking.table)


def _column(table: Table, key: str) -> ColumnSpec | None:
    return next((column for column in table.columns if column.key == key), None)


def _measure(table: Table, width: int) -> str:
    """Say what the number of a row is, and in wide forms what stands behind its bar."""
    worst, utility = _column(table, "worst"), _column(table, "utility")
    assert worst is not None
    after = f"; after the bar: {brief(utility.label)}" if utility is not None and width >= WITH_UTILITY else ""
    return f"{brief(worst.label.removesuffix(WORST))}, {worst.better} is better{after}"


def _first_row(leaderboard: Leaderboard) -> str:
    """Say what the first row of the first table is, with its number in the column that orders the table."""
    table = leaderboard.tables[0] if leaderboard.tables and leaderboard.tables[0].rows else None
    column = None if table is None else _column(table, table.ranked_by)
    value = None if table is None or column is None else table.rows[0].values.get(column.key)
    if table is None or column is None or value is None or value.value is None:
        return "No number."
    count = f", {column.count(value)}" if value.n else ""
    name = names_in(table)[table.rows[0].label]
    return f"First in the table: {name}, {brief(column.label)} {_text(value, column)}{count}."


def _wrapped(text: str, width: int, indent: int, style: str = "") -> Iterator[Line]:
    margin = " " * indent
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=f"{margin}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        yield Line(line, style)


def sentence_lines(text: str, width: int) -> Iterator[Line]:
    """Yield a sentence over as many lines as it needs."""
    yield from _wrapped(text, width, 2)


def _chosen(table: Table, ranking: Ranking, *, whole: bool) -> Iterator[Row]:
    """Yield the rows that are shown, in this order.

    In the short form: the first entries that can win, the first that cannot, and the baseline, with which all are
    compared. If `whole`: all entries that can win, all that cannot, controls, the baseline, and rows without a number.
    """
    ranked = [row for row in table.rows if row.label in ranking.places]
    rows = [row for row in ranked if row.number("worst") is not None]
    can_win, cannot_win, controls = list[Row](), list[Row](), list[Row]()
    for row in rows:
        position = ranking.places[row.label]
        if position.eligible:
            can_win.append(row)
        elif not position.control:
            cannot_win.append(row)
        if position.control and row.label != ranking.baseline:
            controls.append(row)
    yield from can_win if whole else can_win[:FIRST]
    yield from cannot_win if whole else cannot_win[:1]
    if whole:
        yield from controls
    yield from (row for row in rows if row.label == ranking.baseline)
    if whole:
        yield from (row for row in ranked if row.number("worst") is None)


def _rows(rows: Sequence[Row], ranking: Ranking, table: Table, names: Mapping[str, str], width: int) -> Iterator[Line]:
    """Yield each row as a line: rank, name, number, bar with its interval, utility if there is room, and a remark."""
    worst, utility = _column(table, "worst"), _column(table, "utility")
    if not rows or worst is None:
        return
    wide = width >= WITH_UTILITY
    bar_length, longest = (WIDE_BAR, WIDE_NAME) if wide else (BAR, NAME)
    short_names = [_cut(names[row.label], longest) for row in rows]
    name_width = max(map(len, short_names))
    values = [row.values["worst"] for row in rows]
    number_width = max(len(_text(value, worst)) for value in values)
    plain = next((row.number("worst") for row in rows if row.label == ranking.baseline), None)
    scale = Scale.of(values, plain)
    for row, name, value in zip(rows, short_names, values, strict=True):
        position = ranking.places[row.label]
        rank = row.number("rank")
        mark = f"{rank:.0f}" if rank is not None else "" if position.control else "x"
        bar = text_bar(value, scale, bar_length)
        use = f" {_text(row.values.get('utility', Value()), utility):>8}" if wide and utility is not None else ""
        start = f"  {mark:>2} {name:<{name_width}} {_text(value, worst):>{number_width}} {bar}{use} "
        style = WON if row.label == ranking.winner else "" if position.eligible else DIM
        yield Line((start + _cut(_remark(position), width - len(start))).rstrip(), style)


def _remark(position: Place) -> str:
    """Return what stands at the end of a row: what control it is, why it cannot win, or its p against no defense."""
    if position.control:
        return position.control
    if not position.eligible:
        return WHY[bar_of(position)]
    against = position.against
    if against is None or against.p is None or against.p_holm is None:
        return ""
    return f"p {p_text(against.p):<6} ({p_text(against.p_holm)})"


def _text(value: Value, column: ColumnSpec | None) -> str:
    return "-" if value.value is None or column is None else column.text(value.value)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
