"""`harness results`: look at what is in a store."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.errors import StoreError, StoreUnreachable, UsageError
from imharness_cli import console

if TYPE_CHECKING:
    from imharness.results.records import TaskRecord
    from imharness.results.store import Store

LISTED = 1000
"""Tasks that a table for people lists."""
_store = click.option("--store", "store_dir", type=click.Path(path_type=Path), default="store", show_default=True)


@click.group()
def results() -> None:
    """List, show, verify and export stored results."""


@results.command("list")
@_store
@click.option("--failed", is_flag=True, help="Only tasks that failed.")
@click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")
def list_results(store_dir: Path, failed: bool, as_json: bool) -> None:
    """List the tasks of a store; a table has the first 1,000 at most, `--json` all."""
    from imharness.results.store import Store

    found = _records(Store(store_dir), failed=failed)
    if as_json:
        console.emit_each(record.model_dump(mode="json") for record in found)
        return
    rows = ((r.key[:12], r.status, r.spec.track, r.spec.describe(), r.n_rows, f"{r.seconds:.2f}") for r in found)
    shown = list(itertools.islice(rows, LISTED))
    more = sum(1 for _ in rows)
    console.table(f"{len(shown) + more} tasks", ["key", "status", "track", "task", "rows", "s"], shown)
    if more:
        console.say(f"{more} more are not shown; `--json` prints all.")


def _records(store: Store, *, failed: bool) -> Iterator[TaskRecord]:
    """Yield the records that can be read, one at a time; warn of the others."""
    for key in store.all_keys():
        try:
            record = store.record(key)
        except StoreUnreachable:
            raise
        except StoreError as error:
            console.warn(str(error))
            continue
        if record is not None and (record.status == "failed" or not failed):
            yield record


@results.command()
@click.argument("key")
@_store
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
def show(key: str, store_dir: Path, as_json: bool) -> None:
    """Show what became of one task, with its failure and notes; the first digits of its key are enough."""
    from imharness.results.store import Store

    store = Store(store_dir)
    matches = [known for known in store.all_keys() if known.startswith(key)]
    if len(matches) != 1:
        raise UsageError(f"{len(matches)} tasks start with {key!r}; see `harness results list`.")
    record = store.record(matches[0])
    if record is None:
        return
    if as_json:
        console.emit(record.model_dump(mode="json"))
        return
    for line in _told(record):
        console.say(line)


def _told(record: TaskRecord) -> Iterator[str]:
    """Yield a record in lines: what it is of, when and where it was computed, what came out or why nothing did."""
    yield f"{record.key}: {record.status}"
    yield f"{record.spec.track}, version {record.spec.version}, seed {record.spec.seed}, limit {record.spec.limit}"
    yield record.spec.describe()
    yield f"{record.started}, {record.seconds:.2f} s on {record.device}, isolation: {record.isolation}"
    yield from (f"needs {name}: {need}" for name, need in record.spec.needs.items())
    yield from (f"{file.file}: {file.size:,} bytes" for file in (record.rows, record.arrays) if file is not None)
    yield from (f"{name} = {value:g}" for name, value in record.facts.items())
    yield ", ".join(f"{name} {version}" for name, version in record.versions.items())
    yield from (f"note: {note}" for note in record.notes)
    if record.failure is not None:
        yield f"failed by {record.failure.who}: {record.failure.error}: {record.failure.message}"
        yield from record.failure.traceback.splitlines()


@results.command()
@_store
def verify(store_dir: Path) -> None:
    """Re-hash every file of a store; exit 1 when one is damaged."""
    from imharness.results.store import Store

    damaged = list(Store(store_dir).verify())
    for line in damaged:
        console.say(line)
    console.say(f"{len(list(Store(store_dir).all_keys()))} records, {len(damaged)} damaged")
    sys.exit(1 if damaged else 0)


@results.command()
@_store
@click.option("--format", "form", type=click.Choice(["csv", "json", "parquet"]), required=True)
@click.option("--out", type=click.Path(path_type=Path), default="export", show_default=True, help="Folder to write.")
def export(store_dir: Path, form: str, out: Path) -> None:
    """Write all rows, one file per track and step, with the task's components and options beside each row."""
    from imharness.results.query import ResultQuery
    from imharness.results.store import Store

    store = Store(store_dir)
    groups: dict[tuple[str, str], list[TaskRecord]] = {}
    for key in store.all_keys():
        record = store.record(key)
        if record is not None and record.rows is not None:
            groups.setdefault((record.spec.track, record.spec.step), []).append(record)
    out.mkdir(parents=True, exist_ok=True)
    options = {"csv": "(FORMAT csv, HEADER)", "json": "(FORMAT json, ARRAY true)", "parquet": "(FORMAT parquet)"}
    for (track, step), records in sorted(groups.items()):
        path = out / f"{track.partition('/')[2]}-{step}.{form}"
        target, view = str(path).replace("'", "''"), step.replace("-", "_")
        ResultQuery(store, records)(f"COPY (SELECT * EXCLUDE (filename) FROM \"{view}\") TO '{target}' {options[form]}")
        console.say(f"{path}: {sum(record.n_rows for record in records)} rows")


@results.command()
@_store
@click.option("--track", "tracks", multiple=True, metavar="NAME", help="Only this track; may be given several times.")
def rank(store_dir: Path, tracks: tuple[str, ...]) -> None:
    """Make the tables again from the raw rows; computes no cell."""
    from imharness.components.registry import installed
    from imharness.results.store import Store
    from imharness_cli.entries import known_entries, rescore

    store, registry = Store(store_dir), installed()
    chosen = [registry.track(name) for name in tracks or store.tracks()]
    if not chosen:
        raise UsageError(f"store {store_dir} has no run; `harness run --all` makes one.")
    known = known_entries(store)
    for track in chosen:
        board = rescore(store, track, known, lambda title: console.progress(title))
        console.say(f"{track.info.id}: {len(board.tables)} tables of {board.cells_done} cells")
