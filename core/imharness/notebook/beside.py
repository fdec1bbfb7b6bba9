"""Adds a user's entries to the tables of a published leaderboard, in memory: nothing is sent or published.

In this module "published" or "their" is what the leaderboard states, "mine" or "your" is what the user measured.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value, joined, several
from imharness.errors import UsageError
from imharness.results.labels import components_in

if TYPE_CHECKING:
    from imharness.notebook.result import Result

COMPARING = ("rank", "behind")
"""Columns that compare an entry with the others, unit by unit. A user's entry has no number in them."""
UNRANKED = "measured by you: it has no rank among entries whose single scores are not here"
SAME = 0.01
"""How far the numbers of one entry may differ between two machines, as a share of the number."""


def with_rows_of(published: Result, mine: Result) -> tuple[Table, ...]:
    """Return the published tables, each with the rows of entries that only `mine` has at the top.

    Raises:
        UsageError: `mine` was computed with other settings or components, its numbers of an entry in both are other
            ones, or it has no entry that the leaderboard lacks.
    """
    tables, added = list(published.table_list), list[str]()
    for index, table in enumerate(tables):
        theirs = published.leaderboards[table.id]
        users_table = _same_table(mine, theirs.track, table.id)
        if users_table is None or table.shading is not None:
            continue
        yours, rows = mine.leaderboards[users_table.id], _further(table, users_table)
        entry_kinds = _kinds_in_rows(table, theirs)
        rows_are_groups = bool(theirs.entries) and not entry_kinds
        if not rows or rows_are_groups:
            continue
        _check_settings(theirs, yours)
        _check_components(theirs, yours, entry_kinds)
        _check_numbers(table, users_table, is_secret=bool(theirs.secret))
        added += [row.label for row in rows]
        tables[index] = _with_rows(table, rows, theirs)
    if not added:
        raise UsageError(
            "mine: it has no entry that the leaderboard lacks; run your own with an entry of the leaderboard, such as "
            "harness run --track iqa --defense none --defense acme/mine."
        )
    return tuple(tables)


def _without_track(track: str, table: str) -> str:
    """Return the id of a table without the track's name, which stands before it in a result of several tracks."""
    return table.removeprefix(f"{track.partition('/')[2]}/")


def _same_table(mine: Result, track: str, table: str) -> Table | None:
    """Return the user's table of a track that has the id `table`, or None."""
    for users_table in mine.table_list:
        leaderboard = mine.leaderboards.get(users_table.id)
        is_same = leaderboard is not None and leaderboard.track == track
        if is_same and _without_track(track, users_table.id) == _without_track(track, table):
            return users_table
    return None


def _check_settings(published: Leaderboard, mine: Leaderboard) -> None:
    """Raise `UsageError` unless both were computed with the same profile, seed, limit and options."""
    for name in ("profile", "seed", "limit", "set_up"):
        theirs, yours = getattr(published, name), getattr(mine, name)
        if theirs != yours:
            what = "other options of the track" if name == "set_up" else f"{name} {yours}, the leaderboard {theirs}"
            raise UsageError(f"mine: {published.track} was computed with {what}; run it with the same settings.")


def _kinds_in_rows(table: Table, leaderboard: Leaderboard) -> set[str]:
    """Return the kinds of the components in the rows of a table; none if a row stands for a group of components."""
    in_rows = {component for row in table.rows for component in components_in(row.label)}
    return {entry.kind for entry in leaderboard.entries if entry.label in in_rows}


def _check_components(published: Leaderboard, mine: Leaderboard, entry_kinds: Set[str]) -> None:
    """Raise `UsageError` unless all other published components, with which entries were measured, are in `mine`, too.

    They must have the same version. Components of `entry_kinds` are entries, of which `mine` need not have all.
    """
    yours = {(entry.kind, entry.label, entry.version) for entry in mine.entries}
    lacking = [
        f"{entry.kind} {entry.label}, version {entry.version}"
        for entry in published.entries
        if entry.kind not in entry_kinds and (entry.kind, entry.label, entry.version) not in yours
    ]
    if lacking:
        others = f" and {several(len(lacking) - 1, 'other component')}" if lacking[1:] else ""
        raise UsageError(f"mine: it was computed without {lacking[0]}{others} of the leaderboard; run the same.")


def _further(table: Table, users_table: Table) -> list[Row]:
    """Return the user's rows whose labels the published table lacks."""
    labels = {row.label for row in table.rows}
    return [row for row in users_table.rows if row.label not in labels]


def _check_numbers(table: Table, users_table: Table, *, is_secret: bool) -> None:
    """Raise `UsageError` unless both tables have an entry in common, and the numbers of all such entries agree.

    The first column that has a better direction is compared. `is_secret`: whether the leaderboard measured on a secret
    split, which the user does not have.
    """
    measure = next((column for column in table.columns if column.better and column.key not in COMPARING), None)
    if measure is None:
        return
    their_rows = {row.label: row for row in table.rows}
    compared = list[tuple[str, Value, Value]]()
    for row in users_table.rows:
        if row.label in their_rows:
            theirs = their_rows[row.label].values.get(measure.key, Value())
            if theirs.value is not None:
                compared.append((row.label, theirs, row.values.get(measure.key, Value())))
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
    """Say whether two numbers of one entry agree: up to rounding and `SAME`, and with the same count.

    If theirs is of a secret split, yours must lie in their interval instead.
    """
    number, users_number = theirs.number_or(float("nan")), yours.number_or(float("nan"))
    if is_secret and theirs.low is not None and theirs.high is not None:
        return theirs.low <= users_number <= theirs.high
    return theirs.n == yours.n and abs(users_number - number) <= max(10.0**-measure.decimals, SAME * abs(number))


def _with_rows(table: Table, rows: Sequence[Row], leaderboard: Leaderboard) -> Table:
    """Return a published table with the user's rows at the top, and a note that names them."""
    columns = {column.key for column in table.columns}
    unranked = {key: Value(missing=UNRANKED) for key in COMPARING if key in columns}
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
