"""Entries of one's own beside a published leaderboard: nothing is sent, and nothing that is published changes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from imharness.errors import UsageError
from imharness.results.labels import components_in
from imharness.results.leaderboards import Leaderboard
from imharness.results.tables import ColumnSpec, Row, Table, Value, joined, several

if TYPE_CHECKING:
    from imharness.notebook.result import Result

AMONG = ("rank", "behind")
"""Columns that say where an entry stands among those whose single scores were compared."""
UNRANKED = "measured by you: it has no rank among entries whose single scores are not here"
SAME = 0.01
"""By how much, as a share, numbers of one entry may differ between two machines."""


def with_rows_of(published: Result, mine: Result) -> tuple[Table, ...]:
    """Return the published tables with the rows of entries that only `mine` has, before the others.

    Raises `UsageError` where no leaderboard of `mine` has the settings of a published one, where entries of both have
    other numbers, and where `mine` has no further entry.
    """
    tables, added = list(published.table_list), list[str]()
    for index, table in enumerate(tables):
        leaderboard = published.leaderboards[table.id]
        users_table = _same_table(mine, leaderboard.track, table.id)
        if users_table is None or table.shading is not None:
            continue
        yours, rows = mine.leaderboards[users_table.id], _further(table, users_table)
        ranked = _kinds_in_rows(table, leaderboard)
        rows_are_groups = bool(leaderboard.entries) and not ranked
        if not rows or rows_are_groups:
            continue
        _check_settings(leaderboard, yours)
        _check_components(leaderboard, yours, ranked)
        _check_numbers(table, users_table, is_secret=bool(leaderboard.secret))
        added += [row.label for row in rows]
        tables[index] = _with(table, rows, leaderboard)
    if not added:
        raise UsageError(
            "mine: it has no entry that the leaderboard lacks; run your own with an entry of the leaderboard, such as "
            "harness run --track iqa --defense none --defense acme/mine."
        )
    return tuple(tables)


def _bare(track: str, table: str) -> str:
    """Return the id of a table without the track, which stands before it where a result has several."""
    return table.removeprefix(f"{track.partition('/')[2]}/")


def _same_table(mine: Result, track: str, table: str) -> Table | None:
    for users_table in mine.table_list:
        leaderboard = mine.leaderboards.get(users_table.id)
        is_same = leaderboard is not None and leaderboard.track == track
        if is_same and _bare(track, users_table.id) == _bare(track, table):
            return users_table
    return None


def _check_settings(published: Leaderboard, mine: Leaderboard) -> None:
    for name in ("profile", "seed", "limit", "set_up"):
        theirs, yours = getattr(published, name), getattr(mine, name)
        if theirs != yours:
            what = "other options of the track" if name == "set_up" else f"{name} {yours}, the leaderboard {theirs}"
            raise UsageError(f"mine: {published.track} was computed with {what}; run it with the same settings.")


def _kinds_in_rows(table: Table, leaderboard: Leaderboard) -> set[str]:
    """Return the kinds of the components that the rows of a table are of; none where rows are groups of them."""
    in_rows = {component for row in table.rows for component in components_in(row.label)}
    return {entry.kind for entry in leaderboard.entries if entry.label in in_rows}


def _check_components(published: Leaderboard, mine: Leaderboard, ranked: Set[str]) -> None:
    """Raise `UsageError` where what entries of the kinds `ranked` were measured with is missing, or another version."""
    yours = {(entry.kind, entry.label, entry.version) for entry in mine.entries}
    lacking = [
        f"{entry.kind} {entry.label}, version {entry.version}"
        for entry in published.entries
        if entry.kind not in ranked and (entry.kind, entry.label, entry.version) not in yours
    ]
    if lacking:
        others = f" and {several(len(lacking) - 1, 'other component')}" if lacking[1:] else ""
        raise UsageError(f"mine: it was computed without {lacking[0]}{others} of the leaderboard; run the same.")


def _further(table: Table, users_table: Table) -> list[Row]:
    labels = {row.label for row in table.rows}
    return [row for row in users_table.rows if row.label not in labels]


def _check_numbers(table: Table, users_table: Table, *, is_secret: bool) -> None:
    """Raise `UsageError` unless the entries that both tables have show that numbers agree."""
    labels = {row.label: row for row in table.rows}
    shared = [(labels[row.label], row) for row in users_table.rows if row.label in labels]
    measure = next((column for column in table.columns if column.better and column.key not in AMONG), None)
    if measure is None:
        return
    pairs = [(a.label, a.values.get(measure.key, Value()), b.values.get(measure.key, Value())) for a, b in shared]
    compared = [(label, theirs, yours) for label, theirs, yours in pairs if theirs.value is not None]
    if not compared:
        raise UsageError(
            f"mine: no entry of the table {table.id} is in both, so nothing shows that this machine gives its numbers; "
            "run one of its entries, too."
        )
    for label, theirs, yours in compared:
        if not _agree(theirs, yours, measure, is_secret=is_secret):
            numbers = [
                f"{value.number_or(float('nan')):.{measure.decimals}f} of {value.n}" for value in (yours, theirs)
            ]
            raise UsageError(
                f"mine: {label} has {measure.label} {numbers[0]}, the leaderboard {numbers[1]}; run the same attacks, "
                "data and version, or numbers say nothing beside each other."
            )


def _agree(theirs: Value, yours: Value, measure: ColumnSpec, *, is_secret: bool) -> bool:
    """Say whether two numbers of one entry agree; of a secret split, whether yours lies in the interval of theirs."""
    number, users_number = theirs.number_or(float("nan")), yours.number_or(float("nan"))
    if is_secret and theirs.low is not None and theirs.high is not None:
        return theirs.low <= users_number <= theirs.high
    return theirs.n == yours.n and abs(users_number - number) <= max(10.0**-measure.decimals, SAME * abs(number))


def _with(table: Table, rows: Sequence[Row], leaderboard: Leaderboard) -> Table:
    columns = {column.key for column in table.columns}
    unranked = {key: Value(missing=UNRANKED) for key in AMONG if key in columns}
    users_rows = [
        row.model_copy(update={"values": {k: v for k, v in row.values.items() if k in columns} | unranked})
        for row in rows
    ]
    split = ", on the public split" if leaderboard.secret else ""
    names = joined([row.label for row in rows])
    note = f"Measured by you{split}, not published, and so without a rank: {names}."
    return table.model_copy(
        update={"rows": (*users_rows, *table.rows), "note": " ".join(filter(None, (table.note, note)))}
    )
