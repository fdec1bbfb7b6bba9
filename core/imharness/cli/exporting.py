"""`harness results export`: tables for papers, spreadsheets and collections of results, or the rows behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import Choice, store_option
from imharness.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from imharness.documents.leaderboards import Leaderboard
    from imharness.exports import Sheet
    from imharness.results.store import Store
    from imharness.results.tasks import TaskRecord

SUFFIXES = {
    "latex": "tex", "typst": "typ", "markdown": "md", "csv": "csv", "json": "json",
    "parquet": "parquet", "xlsx": "xlsx",
}  # fmt: skip
"""Format of tables -> the extension of its files."""
ROWS = {"csv": "(FORMAT csv, HEADER)", "json": "(FORMAT json, ARRAY true)", "parquet": "(FORMAT parquet)"}
"""Format of rows -> the options of DuckDB's COPY."""
BINARY = ("parquet", "xlsx")
"""The formats that cannot be printed."""
SINGLE = ("csv", "parquet")
"""The formats whose files hold only one table."""
COLLECTIONS = ("every-eval-ever", "community-evals")
"""The formats of collections of results, which write a folder."""


@click.command()
@store_option("address")
@click.option(
    "--format",
    "form",
    type=Choice([*SUFFIXES, *COLLECTIONS]),
    required=True,
    metavar="FORM",
    help=f"Form of the tables: {', '.join(SUFFIXES)}, or records: {', '.join(COLLECTIONS)}.",
)
@click.option("--track", "tracks", multiple=True, metavar="NAME", help="Only this track; may be given several times.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="ID",
    help="Only this table; may be given several times. Default: the main one of each track.",
)
@click.option(
    "--columns",
    multiple=True,
    metavar="NAME,NAME",
    help="These columns, by key or label; may be given several times. Default: all.",
)
@click.option("--caption", metavar="TEXT", help="Caption. Default: that of each table.")
@click.option(
    "--rows", is_flag=True, help="Write the rows of the latest run and of imports, one file per track and step."
)
@click.option(
    "--hub",
    metavar="hf://datasets/OWNER/NAME",
    help="Where the leaderboard is published, which records say. Default: none.",
)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE|FOLDER",
    help="Where to write; a folder gets a file for each table. Default: print tables, write all else to `export/`.",
)
def export(
    address: str,
    form: str,
    tracks: Sequence[str],
    tables: Sequence[str],
    columns: Sequence[str],
    caption: str | None,
    rows: bool,
    hub: str | None,
    target: Path | None,
) -> None:
    """Write tables with their intervals, marks and notes, ready to paste; or the rows behind them.

    LaTeX needs the packages adjustbox and booktabs, and `xlsx` the extra of this name. A table that does not fit a
    page is printed smaller or in several parts. `every-eval-ever` and `community-evals` write records for the
    collections of these names, in which each entry is a model.
    """
    from imharness.cli.stores import existing

    store = existing(address)
    if rows:
        if tables or columns or caption or hub:
            raise UsageError("--rows does not write tables; leave out --table, --columns, --caption and --hub.")
        _export_rows(store, form, tracks, target or Path("export"))
        return
    if hub is None and form in COLLECTIONS:
        raise UsageError(f"say where the leaderboard is published, for {form}: --hub hf://datasets/OWNER/NAME.")
    if hub is not None and form not in COLLECTIONS:
        raise UsageError(f"--hub is for {' and '.join(COLLECTIONS)}, not for {form}.")
    leaderboards = _leaderboards(store, tracks)
    sheets = _sheets(leaderboards, tables, columns, caption)
    if hub is not None:
        _export_records(form, sheets, leaderboards, hub, target or Path("export"))
        return
    if target is not None and (target.is_dir() or not target.suffix):
        target.mkdir(parents=True, exist_ok=True)
        for sheet in sheets:
            name = f"{sheet.track.rpartition('/')[2]}-{sheet.id.replace('/', '-')}"
            _write(target / f"{name}.{SUFFIXES[form]}", _content(form, [sheet]))
        return
    if len(sheets) > 1 and form in SINGLE:
        table_names = ", ".join(f"{sheet.track} {sheet.id}" for sheet in sheets)
        raise UsageError(
            f"a {form} file holds one table: choose with --track and --table, or --to FOLDER: {table_names}."
        )
    if target is None and form in BINARY:
        raise UsageError(f"{form} cannot be printed; say where to write it with --to FILE.{SUFFIXES[form]}.")
    content = _content(form, sheets)
    if target is None:
        click.echo(content.decode(), nl=False)
    else:
        _write(target, content)


def chosen_tracks(wanted: Sequence[str], available: Sequence[str]) -> list[str]:
    """Return the ids of tracks in a store, given with or without owner, or all; raises `UsageError` for other names."""
    by_name = {id.rpartition("/")[2]: id for id in available} | {id: id for id in available}
    for name in wanted:
        if name not in by_name:
            raise UsageError(unknown_name(f"the store has no track {name!r}", name, available, "It has"))
    return [by_name[name] for name in wanted] if wanted else list(available)


def _leaderboards(store: Store, tracks: Sequence[str]) -> list[Leaderboard]:
    """Return the leaderboards of tracks, or of all; raises `UsageError` if the store has none."""
    from imharness.documents.stored import read_leaderboard

    stored = [read_leaderboard(store, id) for id in chosen_tracks(tracks, store.ranked())]
    leaderboards = [leaderboard for leaderboard in stored if leaderboard is not None]
    if not leaderboards:
        raise UsageError(f"store {store.address} has no tables; `harness results rank` makes them.")
    return leaderboards


def _sheets(
    leaderboards: Sequence[Leaderboard], tables: Sequence[str], columns: Sequence[str], caption: str | None
) -> list[Sheet]:
    from imharness.exports import chosen_tables, sheet_of

    chosen = chosen_tables(leaderboards, tables)
    if caption and len(chosen) > 1:
        raise UsageError(f"--caption is for one table, but there are {len(chosen)}: choose with --track and --table.")
    return [sheet_of(table, leaderboard, columns=columns, caption=caption or "") for leaderboard, table in chosen]


def _content(form: str, sheets: Sequence[Sheet]) -> bytes:
    """Return the content of a file with these sheets; in the formats `SINGLE` there is only one."""
    from imharness.exports import csv_of, json_of, latex, markdown, parquet_of, typst, xlsx_of

    of_all_sheets = {"json": json_of, "xlsx": xlsx_of}
    if form in of_all_sheets:
        return of_all_sheets[form](sheets)
    of_one_sheet = {"csv": csv_of, "parquet": parquet_of}
    if form in of_one_sheet:
        return of_one_sheet[form](sheets[0])
    as_text = {"latex": latex, "typst": typst, "markdown": markdown}[form]
    return "\n".join(map(as_text, sheets)).encode()


def _export_records(
    form: str, sheets: Sequence[Sheet], leaderboards: Sequence[Leaderboard], hub: str, folder: Path
) -> None:
    from imharness.exports import community_evals, every_eval_ever
    from imharness.exports.dataset import repository_in

    write = {"every-eval-ever": every_eval_ever, "community-evals": community_evals}[form]
    files = write(sheets, {leaderboard.track: leaderboard for leaderboard in leaderboards}, repository_in(hub))
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    console.say(f"{folder}: {len(files)} files")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    console.say(str(path))


def _export_rows(store: Store, form: str, tracks: Sequence[str], folder: Path) -> None:
    """Write one file per track and step; each row also has the components and options of its task.

    The views of `ResultQuery` also have the facts of each task, such as how long it took. These are left out, because
    two runs may differ in them.
    """
    from imharness.components.registry import installed
    from imharness.documents.seasons import check_published
    from imharness.ranking.current import current_records
    from imharness.ranking.entries import withdrawn_for
    from imharness.results.query import ResultQuery

    check_published(store, "rows")
    if form not in ROWS:
        raise UsageError(f"--rows writes {', '.join(ROWS)}, not {form}.")
    registry, withdrawn = installed(), withdrawn_for(store)
    records_of: dict[tuple[str, str], list[TaskRecord]] = {}  # by track and step
    for track in chosen_tracks(tracks, store.rankable()):
        if sweep := store.ranked_from(track):
            for record in current_records(store, registry.track(track), sweep, registry, withdrawn):
                if record.rows:
                    records_of.setdefault((track, record.spec.step), []).append(record)
    folder.mkdir(parents=True, exist_ok=True)
    for (track, step), records in sorted(records_of.items()):
        path = folder / f"{track.partition('/')[2]}-{step}.{form}"
        target, view = str(path).replace("'", "''"), step.replace("-", "_")
        left_out = dict.fromkeys(["filename", *(name for record in records for name in record.facts)])
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in left_out)
        ResultQuery(store, records)(f"COPY (SELECT * EXCLUDE ({columns}) FROM \"{view}\") TO '{target}' {ROWS[form]}")
        console.say(f"{path}: {sum(record.n_rows for record in records)} rows")
