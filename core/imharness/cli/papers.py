"""`harness papers`: what the published studies measured, and how a store compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import Group, assets_option, json_option, site_option, store_option
from imharness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imharness.papers.order import Order
    from imharness.papers.published import PublishedTable
    from imharness.papers.verdicts import Cell, Comparison

_json = json_option()


@click.group(cls=Group)
def papers() -> None:
    """Show the tables of the published studies, and compare the numbers of a store with them."""


@papers.command()
@click.argument("name", metavar="[TABLE]", required=False)
@_json
def show(name: str | None, as_json: bool) -> None:
    """Show TABLE, such as iqa/2, as it is printed; without TABLE, list all, with the reason for those left out."""
    from imharness.papers.comparison import compare as compare_with
    from imharness.papers.facts import cited, table_facts
    from imharness.papers.published import find_table, published_tables

    if name is None:
        tables = published_tables()
        if as_json:
            listed = [{k: v for k, v in table_facts(t).items() if k not in ("rows", "columns")} for t in tables]
            console.emit({"tables": listed})
            return
        rows = [(t.address, t.title, _size(t), t.left_out or _notes(t)) for t in tables]
        console.table(f"{len(tables)} published tables", ["table", "what it holds", "size", "notes"], rows)
        return
    table = find_table(name)
    if as_json:
        console.emit(table_facts(table))
        return
    console.say(cited(table))
    if table.left_out:
        console.say(f"not transcribed: {table.left_out}")
        return
    lines = [(row.label, *(value.text for value in row.values)) for row in table.rows]
    console.table(table.title, ["", *(column.label for column in table.columns)], lines)
    console.say(f"setting: {table.setting}")
    noted = [(row.label, row.note) for row in table.rows] + [(column.label, column.note) for column in table.columns]
    for note in (*table.notes, *(f"{label}: {note}" for label, note in noted if note)):
        console.say(f"note: {note}")
    for line in compare_with(table, None).otherwise:
        console.say(f"computed otherwise by the authors' code: {line}")


def _size(table: PublishedTable) -> str:
    numbers = sum(value.value is not None for row in table.rows for value in row.values)
    return f"{len(table.rows)} x {len(table.columns)}, {numbers} numbers" if table.rows else "not transcribed"


def _notes(table: PublishedTable) -> str:
    noted = len(table.notes) + sum(bool(row.note) for row in table.rows) + sum(bool(c.note) for c in table.columns)
    return f"{noted}, see `harness papers show {table.address}`" if noted else ""


@papers.command()
@click.argument("name", metavar="[TABLE]", required=False)
@store_option("address")
@_json
def compare(name: str | None, address: str, as_json: bool) -> None:
    """Compare a published table with the numbers in a store; without TABLE, show the verdict on each table.

    The numbers come from the tables in the store; `harness results rank` makes these again.
    """
    from imharness.documents.stored import read_leaderboard
    from imharness.papers.comparison import compare as compare_with
    from imharness.papers.facts import comparison_facts
    from imharness.papers.published import find_table, published_tables
    from imharness.results.store import Store

    tables = [find_table(name)] if name else [table for table in published_tables() if table.rows]
    store = Store(address)
    leaderboards = {track: read_leaderboard(store, track) for track in sorted({table.track for table in tables})}
    comparisons = [compare_with(table, leaderboards[table.track]) for table in tables]
    if as_json:
        console.emit({"comparisons": [comparison_facts(comparison) for comparison in comparisons]})
    elif name:
        _print_comparison(comparisons[0])
    else:
        _print_verdicts(comparisons)


@papers.command()
@click.argument("name", metavar="TABLE")
@store_option("address")
@site_option()
@assets_option()
@click.option("--offline", is_flag=True, help="Do not download.")
@click.option("--dry-run", is_flag=True, help="Only say what would be got and run, and what is missing.")
def reproduce(name: str, address: str, site_dir: Path, assets: Path | None, offline: bool, dry_run: bool) -> None:
    """Compute the numbers of TABLE that the store lacks, with the paper's profile, and compare them with the paper's.

    What has an address is downloaded first. What cannot be got or computed is named at the end, with the command that
    gets it; exit code 1 says that there is some.
    """
    from imharness.cli.reproducing import Reproduction
    from imharness.documents.stored import read_leaderboard
    from imharness.papers.comparison import compare as compare_with
    from imharness.papers.published import find_table
    from imharness.results.store import Store

    table, store = find_table(name), Store(address)
    if table.left_out:
        raise UsageError(f"{name} is not transcribed: {table.left_out}")
    needed = compare_with(table, read_leaderboard(store, table.track)).runs
    missing = list[tuple[str, str]]()
    for command in needed.commands:
        attempt = Reproduction(command, address, site_dir, assets)
        missing += attempt.prepare(offline=offline or dry_run)
        if dry_run:
            console.say(f"would run: {command}")
        elif reason := attempt.run():
            missing.append((command, reason))
    missing += [(pointer, "it is not in the profile") for pointer in needed.without]
    _print_comparison(compare_with(table, read_leaderboard(store, table.track)))
    if missing:
        console.table("Missing", ["what", "get it with, or why"], list(dict.fromkeys(missing)))
        sys.exit(1)


def _print_verdicts(comparisons: Sequence[Comparison]) -> None:
    """Print one line for each published table: the verdict on it, and how many quantities have which verdict."""
    from imharness.papers.facts import counts

    rows = [
        (
            comparison.table.address,
            comparison.table.title,
            comparison.verdict if comparison.series else "",
            counts(comparison),
        )
        for comparison in comparisons
    ]
    console.table("Published and ours", ["table", "what it holds", "verdict", "quantities"], rows)
    console.say("`harness papers compare TABLE` shows the numbers.")


def _print_comparison(comparison: Comparison) -> None:
    """Print the verdict on each quantity, the numbers, and why they may differ."""
    from imharness.papers.facts import cited, counts
    from imharness.papers.verdicts import NOT_RUN

    console.say(cited(comparison.table))
    if not comparison.table.rows:
        console.say(f"not transcribed: {comparison.table.left_out}")
        return
    rows = [
        (series.label, series.ours, series.verdict, series.says, *_order_cells(series.order))
        for series in comparison.series
    ]
    console.table("Quantities", ["quantity", "our table", "verdict", "says", "tau-b", "95 %", "p", "entries"], rows)
    number_rows = [
        (series.label, *_number_cells(cell))
        for series in comparison.series
        for cell in series.cells
        if cell.verdict != NOT_RUN
    ]
    if number_rows:
        columns = ["quantity", "entry", "published", "ours", "95 %", "difference", "verdict", "ours is"]
        console.table("Numbers", columns, number_rows)
    for reason, entries in comparison.not_run.items():
        console.say(f"not run: {', '.join(entries)}: {reason}")
    for command in comparison.runs.commands:
        console.say(f"run it with: {command}")
    if comparison.runs.without:
        console.say(f"not in the profile: {', '.join(comparison.runs.without)}")
    for line in (*comparison.differs, *comparison.entries_differ):
        console.say(f"may differ: {line}")
    for line in comparison.otherwise:
        console.say(f"computed otherwise by the authors' code: {line}")
    for note in (*(series.note for series in comparison.series if series.note), *comparison.table.notes):
        console.say(f"note: {note}")
    console.say(counts(comparison))


def _order_cells(order: Order) -> tuple[str, str, str, str]:
    """Return tau-b, its interval, p and the number of entries; without tau-b, the reason instead of the interval."""
    if order.tau is None or order.p is None:
        return "-", order.reason, "", str(order.n)
    between = "" if order.low is None else f"{order.low:.2f} to {order.high:.2f}"
    return f"{order.tau:.2f}", between, f"{order.p:.2g}", str(order.n)


def _number_cells(cell: Cell) -> tuple[str, ...]:
    """Return entry, published number, our number, its interval, the difference, the verdict, and our label."""
    published = f"{cell.published:g}" + (f" ({cell.text})" if "±" in cell.text else "")
    return cell.entry, published, *_our_cells(cell), f"{cell.difference:+.4g}", cell.verdict, cell.label


def _our_cells(cell: Cell) -> tuple[str, str]:
    if cell.ours is None or cell.ours.value is None:
        return "-", ""
    between = f"{cell.within[0]:.4g} to {cell.within[1]:.4g}" if cell.within else ""
    return f"{cell.ours.value:.4g}", between
