"""What can be done to a whole store: check it, copy it. Loads no torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from imharness.documents.seasons import check_published
from imharness.documents.stored import read_leaderboard
from imharness.errors import DamagedError, StoreError
from imharness.results.storage import in_parallel
from imharness.results.storage.files import StoredFile
from imharness.results.storage.taskfiles import TaskFile
from imharness.results.store import Store, Survey
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord

DOCUMENTS = ("logs", "sweeps", "leaderboards", "submissions", "times", "seasons", "examined", "withdrawals")
"""The folders of documents that are copied."""
VERIFIED = (*DOCUMENTS, "runs")
"""The folders of documents that are verified."""
SECRET = "secret.json"
LEDGER = "ledger.jsonl"
Advance = Callable[[int, int], None]


def existing(address: str) -> Store:
    """Return a store that exists; raises `StoreError` if nothing was ever written there."""
    store = Store(address)
    documents = (store.names(folder) for folder in ("sweeps", "leaderboards", "runs", "submissions", "seasons"))
    if not any(documents) and not any(store.all_keys()) and not store.names("logs"):
        raise StoreError(f"store {store.address} does not exist or is empty; `harness run` makes one.")
    return store


def verify(store: Store) -> Iterator[str]:
    """Hash everything again, several files at a time, and yield one line for each damaged file.

    Results that are damaged are discarded, so that the next run computes them again.
    """
    threads = max(store.backend.at_once, min(8, os.cpu_count() or 1))
    files = [file for task_files in store.survey().tasks.values() for file in task_files]
    checks_of_tasks = (partial(_check, store, file) for file in files)
    yield from filter(None, in_parallel(_damage, checks_of_tasks, threads))
    documents = (f"{folder}/{name}.json" for folder in VERIFIED for name in store.names(folder))
    yield from filter(None, (_damage(partial(store.sealed, name)) for name in [*documents, SECRET]))
    checks_of_numbers = [partial(_check_numbers, store, track) for track in store.ranked()]
    yield from filter(None, map(_damage, [*checks_of_numbers, partial(_check_ledger, store)]))


def _check(store: Store, file: TaskFile) -> None:
    """Read a task and its arrays again; if they are damaged, discard it and raise `DamagedError`."""
    try:
        record = store.opened(file, store.verified(file.name, file.sha256))
        if record.arrays is not None:
            store.check(record.arrays)
    except DamagedError as error:
        if file in store.files(file.key):  # otherwise it was computed again since
            raise DamagedError(_discarded(error, partial(store.backend.delete, file.name))) from None


def _discarded(damage: object, remove: Callable[[], None]) -> str:
    """Remove a damaged result, so that the next run computes it again; return the line that names it."""
    try:
        remove()
    except StoreError as error:
        return f"{damage}; it is still there: {error}"
    return str(damage)


def _check_numbers(store: Store, track: str) -> None:
    """Read the scores of a track's comparisons again; raises `DamagedError`. Damaged tables were named before."""
    leaderboard = None
    with suppress(DamagedError):
        leaderboard = read_leaderboard(store, track)
    if leaderboard is not None and leaderboard.numbers is not None:
        try:
            store.check(leaderboard.numbers)
        except DamagedError:
            if read_leaderboard(store, track) == leaderboard:  # otherwise the tables have been made again since
                raise


def _check_ledger(store: Store) -> None:
    """Let the package that keeps the ledger of a store read it; raises `DamagedError`."""
    if store.backend.lines(LEDGER):
        from imharness.ranking.entries import known_entries

        known_entries(store)


def _damage(check: Callable[[], object]) -> str:
    """Run a check; return its `DamagedError` as one line, or "" if nothing is damaged."""
    try:
        check()
    except DamagedError as error:
        return str(error)
    return ""


def copy(
    source: Store,
    target: Store,
    advance: Advance = lambda done, total: None,
    differing: Callable[[str], None] = lambda key: None,
) -> int:
    """Copy a store into another and verify it; return how many tasks were not there before.

    Tasks are copied before what points to them, so that a reader of the unfinished copy sees only complete tasks. A
    call after an interrupted one continues it. Documents replace those with the same name; a configuration that both
    ran has the tasks of both. Where both stores computed a task apart, a result counts before a failure, and otherwise
    that of the target stays; `differing` gets the key if rows differ.

    Raises:
        DamagedError: the source is damaged.
        StoreError: the target has a ledger of its own; nothing was copied.
        UsageError: a season on unpublished photographs is open in the source.
    """
    check_published(source, "a copy")
    _new_decisions(source, target)
    target.prepare()
    files, before = source.survey().tasks, target.survey()
    at_once = max(source.backend.at_once, target.backend.at_once)
    copies = in_parallel(lambda key: _copy_task(source, target, before, key, files[key]), sorted(files), at_once)
    for done, (key, agrees) in enumerate(zip(sorted(files), copies, strict=True), start=1):
        if not agrees:
            differing(key)
        advance(done, len(files))
    _copy_documents(source, target)
    return len(files.keys() - before.tasks.keys())


def _copy_task(source: Store, target: Store, before: Survey, key: str, files: Sequence[TaskFile]) -> bool:
    """Copy a task: its arrays first, then its file. Return False if the target keeps other rows for it.

    `before` is what the target held before the copy, `files` are the task's files in the source. If the source computes
    the task again meanwhile, its new files are copied.
    """
    while True:
        try:
            agrees = True
            for file in files:
                agrees = _copy_file(source, target, before, key, file)
            return agrees
        except DamagedError:
            outdated, files = files, source.files(key)
            if {*outdated} == {*files}:
                raise


def _copy_file(source: Store, target: Store, before: Survey, key: str, file: TaskFile) -> bool:
    """Copy one file of a task with its arrays, if it counts; return False if the target keeps other rows instead."""
    in_target = before.tasks.get(key, [])
    content = source.verified(file.name, file.sha256)
    record = source.opened(file, content)
    wanted = _file_in_target(file, record, target, in_target)
    if wanted.file is None:
        return wanted.agrees
    arrays = record.arrays
    if arrays is not None and not target.intact(arrays, before.arrays.get(arrays.file, -1)):
        target.put(arrays.file, source.content(arrays))
    stored = StoredFile(file=wanted.file.name, sha256=wanted.file.sha256, size=len(content))
    if wanted.file not in in_target or not target.intact(stored, target.backend.size(wanted.file.name)):
        target.put(wanted.file.name, content)
    return wanted.agrees


class _Wanted(NamedTuple):
    """What the target shall hold of a file of the source: the file to write, or None to leave the task as it is.

    `agrees` is False if the target keeps rows for the task that differ from those of the source.
    """

    file: TaskFile | None
    agrees: bool = True


def _file_in_target(file: TaskFile, record: TaskRecord, target: Store, in_target: Sequence[TaskFile]) -> _Wanted:
    """Return what the target shall hold of a file of the source; `in_target` are its files of the same task.

    Of several files of a task the one with the highest number counts. Two stores that computed the task apart number
    their files apart, so their contents decide: a result counts before a failure, and otherwise the target keeps its
    own.
    """
    same_content = [candidate for candidate in in_target if candidate.sha256 == file.sha256]
    if same_content:
        return _Wanted(same_content[0])
    if not in_target:
        return _Wanted(file)
    last = in_target[-1]
    if record.status == "failed" and last.kind != "failed":
        return _Wanted(None)
    if file.number > last.number:  # the source has computed the task again since an earlier copy
        return _Wanted(file)
    next_file = file._replace(number=last.number + 1)
    try:
        target_record = target.opened(last, target.verified(last.name, last.sha256))
    except DamagedError:
        return _Wanted(next_file)
    if last.kind == "failed":
        return _Wanted(next_file if record.status == "done" else None)
    same_rows = (target_record.rows, target_record.arrays) == (record.rows, record.arrays)
    return _Wanted(None, agrees=same_rows)


def _copy_documents(source: Store, target: Store) -> None:
    for track in source.ranked():
        _copy_numbers(source, target, track)
    at_once = max(source.backend.at_once, target.backend.at_once)
    for folder in DOCUMENTS:
        list(in_parallel(partial(_copy_document, source, target, folder), source.names(folder), at_once))
    for line in _new_decisions(source, target):
        target.backend.append(LEDGER, partial(_unchanged, line))


def _new_decisions(source: Store, target: Store) -> list[bytes]:
    """Return the lines of the ledger of the source that come after all of the target's; raises as `copy` does."""
    _check_ledger(source)
    lines, before = source.backend.lines(LEDGER), target.backend.lines(LEDGER)
    if lines[: len(before)] != before:
        raise StoreError(f"store {target.address} has a ledger of its own; copy into another store")
    return list(lines[len(before) :])


def _copy_numbers(source: Store, target: Store, track: str) -> None:
    while (leaderboard := read_leaderboard(source, track)) is not None and leaderboard.numbers is not None:
        try:
            target.put(leaderboard.numbers.file, source.content(leaderboard.numbers))
            return
        except DamagedError:
            if read_leaderboard(source, track) == leaderboard:  # otherwise the tables have been made again since
                raise


def _copy_document(source: Store, target: Store, folder: str, name: str) -> None:
    file = f"{folder}/{name}.json"
    content, in_target = source.sealed(file), None
    with suppress(DamagedError):
        in_target = target.sealed(file)
    if content is None or content == in_target:
        return
    joined = None
    if folder == "sweeps":
        with suppress(DamagedError):
            joined = _joined(source.current(file, Sweep), target.current(file, Sweep))
    if joined is None:
        target.backend.replace(file, content)
    else:
        target.replace(file, joined)


def _joined(of_source: Sweep | None, of_target: Sweep | None) -> Sweep | None:
    """Return the source's run with the tasks that only the target has; None if there are no such tasks.

    A mere copy of the source's run would leave entries that only the target has out of the target's tables.
    """
    if of_source is None or of_target is None:
        return None
    in_source = {*of_source.tasks, *of_source.failed}
    further = {address: key for address, key in of_target.tasks.items() if address not in in_source}
    return of_source.model_copy(update={"tasks": {**of_source.tasks, **further}}) if further else None


def _unchanged(line: bytes, existing: Sequence[bytes]) -> bytes:
    return line
