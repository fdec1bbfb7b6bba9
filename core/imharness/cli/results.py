"""`harness results`: look at what is in a store."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import click

from imharness.cli import LazyGroup, console
from imharness.cli.options import Choice, json_option, store_option
from imharness.errors import DamagedError, UsageError

if TYPE_CHECKING:
    from imharness.results.store import Store
    from imharness.results.tasks import TaskRecord

PAGE = 100
"""The number of tasks on a page of the list."""
_store = store_option("address")
COMMANDS = {"export": "imharness.cli.exporting:export", "rank": "imharness.cli.ranking:rank"}


@click.group(cls=LazyGroup, lazy=COMMANDS, prefix="results.")
def results() -> None:
    """List, show, verify, withdraw, export, rank and copy stored results."""


@results.command("list")
@_store
@click.option("--track", metavar="NAME", help="Only tasks of this track.")
@click.option("--step", metavar="NAME", help="Only tasks of this step.")
@click.option(
    "--component",
    "components",
    multiple=True,
    metavar="NAME",
    help="Only tasks with this component; may be given several times, for tasks with all of them.",
)
@click.option("--status", type=Choice(["done", "failed"]), help="Only tasks with this status.")
@click.option("--failed", is_flag=True, help="The same as --status failed.")
@click.option(
    "--page",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help=f"Page to show, of {PAGE} tasks each.",
)
@json_option(": the whole records, of all pages")
def list_results(
    address: str,
    track: str | None,
    step: str | None,
    components: Sequence[str],
    status: str | None,
    failed: bool,
    page: int,
    as_json: bool,
) -> None:
    """List the tasks of a store, by track, step and the names of the components that took part.

    Give a component by its label, its id or its method, as in `jpeg[quality=30]`, `harness/jpeg` and `jpeg`.
    """
    from imharness.cli.listing import Filter
    from imharness.cli.stores import existing

    wanted, store = Filter(track, step, tuple(components), "failed" if failed else status), existing(address)
    recorded_failures = set[tuple[str, str]]()  # filled while `selected` is read
    selected = (record for record in _records(store, recorded_failures) if wanted.takes(record))
    others = (
        failure
        for failure in _unrecorded(store, recorded_failures)
        if wanted.takes_failed(failure.track, failure.address)
    )
    if as_json:
        facts = (
            {"track": failure.track, "address": failure.address, "status": "failed", "why": failure.why}
            for failure in others
        )
        console.emit_each("records", chain((record.model_dump(mode="json") for record in selected), facts))
        wanted.check()
        return
    rows = sorted([*map(_row_of_record, selected), *map(_row_of_failure, others)])
    wanted.check()
    pages = max(1, math.ceil(len(rows) / PAGE))
    if page > pages:
        raise UsageError(f"there is no page {page}; the last one is {pages}.")
    title = f"{len(rows)} tasks" + (f", page {page} of {pages}" if pages > 1 else "")
    page_rows = [
        (row.track, row.step, row.status, row.seconds, row.key, row.task)
        for row in rows[(page - 1) * PAGE : page * PAGE]
    ]
    console.table(title, ["track", "step", "status", "s", "key", "task"], page_rows)
    if page < pages:
        console.note(f"more: --page {page + 1}")


class _Row(NamedTuple):
    """A line of the list, as text; lines are sorted by these fields in their order."""

    track: str
    step: str
    task: str
    status: str
    seconds: str
    key: str


class _Unrecorded(NamedTuple):
    """A task of a run that failed without a record, because it was never computed; see `tasks.address_of`."""

    track: str
    address: str
    why: str


def _row_of_record(record: TaskRecord) -> _Row:
    from imharness.cli.listing import name_of

    spec = record.spec
    names = spec.describe().partition(": ")[2].split(", ")  # components and options, without the step
    task = ", ".join(map(name_of, names))
    return _Row(name_of(spec.track), spec.step, task, record.status, f"{record.seconds:.2f}", record.key[:12])


def _row_of_failure(failure: _Unrecorded) -> _Row:
    from imharness.cli.listing import name_of

    step, _, names = failure.address.partition(" ")
    task = f"{', '.join(map(name_of, names.split(' ')))}: {failure.why}"
    return _Row(name_of(failure.track), step, task, "failed", "-", "-")


def _records(store: Store, failures: set[tuple[str, str]]) -> Iterator[TaskRecord]:
    """Yield the records that can be read, one at a time, and warn about the others.

    The track and the address of each task that failed are added to `failures`.
    """
    for _, record in store.records():
        if isinstance(record, DamagedError):
            console.warn(str(record))
        else:
            if record.status == "failed":
                failures.add((record.spec.track, record.spec.address))
            yield record


def _unrecorded(store: Store, recorded: set[tuple[str, str]]) -> Iterator[_Unrecorded]:
    """Yield each failed task of a run that has no record; `recorded` has track and address of those that have one."""
    seen = set(recorded)
    for track in store.tracks():
        for sweep in store.sweeps(track):
            for address, why in sweep.failed.items():
                if (track, address) not in seen:
                    seen.add((track, address))
                    yield _Unrecorded(track, address, " ".join(why.split()))


@results.command()
@click.argument("key")
@_store
@json_option(": the whole record, and the log")
def show(key: str, address: str, as_json: bool) -> None:
    """Show what happened to one task, with its failure, its notes and its log; the first digits of KEY are enough.

    A task that is running, or ended without a result, has a log, too, as soon as it has printed something.
    """
    from imharness.cli.logs import found_task, log_lines
    from imharness.cli.stores import existing

    store = existing(address)
    details = found_task(store, key)
    for line in details.damaged:
        console.warn(line)
    if as_json:
        log = details.log.model_dump(mode="json") if details.log else None
        record = (
            details.record.model_dump(mode="json") if details.record else {"key": details.key, "status": "no result"}
        )
        console.emit(record | {"log": log})
        return
    for line in (*(_lines_of(details.record) if details.record else ()), *log_lines(details)):
        console.say(line)


def _lines_of(record: TaskRecord) -> Iterator[str]:
    """Yield a record as lines: the task, when and where it was computed, and its files or why it failed."""
    yield f"{record.key}: {record.status}"
    yield f"{record.spec.track}, version {record.spec.version}, seed {record.spec.seed}, limit {record.spec.limit}"
    yield record.spec.describe()
    yield f"{record.started}, {record.seconds:.2f} s on {record.device}, isolation: {record.isolation}"
    yield from (f"needs {name}: {need}" for name, need in record.spec.needs.items())
    yield f"{record.n_rows:,} rows, {record.size:,} bytes"
    if record.arrays is not None:
        yield f"{record.arrays.file}: {record.arrays.size:,} bytes"
    yield from (f"{name} = {value:g}" for name, value in record.facts.items())
    yield ", ".join(f"{name} {version}" for name, version in record.versions.items())
    yield from (f"note: {note}" for note in record.notes)
    if record.failure is not None:
        yield f"failed by {record.failure.who}: {record.failure.error}: {record.failure.message}"
        yield from record.failure.traceback.splitlines()


@results.command()
@_store
def verify(address: str) -> None:
    """Check the sha256 of every file of a store; exit with 1 if one is damaged."""
    from imharness.cli.stores import existing
    from imharness.cli.stores import verify as damaged_in

    store = existing(address)
    damaged = list(damaged_in(store))
    for line in damaged:
        console.say(line)
    console.say(f"{len(list(store.all_keys()))} records, {len(damaged)} damaged")
    sys.exit(1 if damaged else 0)


@results.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(source: str, target: str) -> None:
    """Copy the store FROM to the address TO and verify it; call it again to continue a copy that was interrupted."""
    from imharness.cli.stores import copy as copy_store
    from imharness.cli.stores import existing
    from imharness.documents.tables import several
    from imharness.results.store import Store

    differing: list[str] = []
    with console.progress("copying") as advance:
        copied = copy_store(existing(source), Store(target), advance, differing.append)
    console.say(f"{several(copied, 'task')} copied to {target}")
    if differing:
        have = "has" if len(differing) == 1 else "have"
        console.warn(
            f"{several(len(differing), 'task')} {have} other rows in {target}, which stay there, such as "
            f"{differing[0][:12]}: the stores were computed apart; `harness results rank --store {target}` makes its "
            "tables again"
        )


@results.command()
@click.argument("component", metavar="ID")
@click.argument("version")
@click.option(
    "--reason", default="", metavar="TEXT", help="Why, for the readers of tables. Default: none, with --undo."
)
@click.option("--undo", is_flag=True, help="Take the results of this version into the tables again.")
@_store
def withdraw(component: str, version: str, reason: str, undo: bool, address: str) -> None:
    """Leave the results of one VERSION of the component ID out of all tables, such as those of a fault that was found.

    They stay in the store, and tables say that they were withdrawn, and why. Another version is computed and ranked.
    """
    from imharness.cli.stores import existing
    from imharness.documents.tables import several
    from imharness.documents.withdrawals import address_of
    from imharness.documents.withdrawals import withdraw as withdrawn
    from imharness.reading.text import plain

    if undo == bool(reason):
        raise UsageError("say by --reason why the results are withdrawn, or give --undo.")
    tasks = withdrawn(existing(address), component, version, plain(reason))
    what = "ranked again" if undo else f"withdrawn: {plain(reason)}"
    console.say(f"{several(tasks, 'task')} of {address_of(component, version)}: {what}")
    console.say(f"`harness results rank --store {address}` makes the tables")
