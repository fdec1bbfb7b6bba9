"""What can be done to a whole store: check it, copy it. Loads no torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from imharness.errors import DamagedError, StoreError
from imharness.results.seasons import check_published
from imharness.results.storage import in_parallel
from imharness.results.storage.files import StoredFile
from imharness.results.storage.taskfiles import TaskFile
from imharness.results.store import Store, Survey
from imharness.results.sweeps import Sweep
from imharness.results.tasks import TaskRecord

DOCUMENTS = ("logs", "sweeps", "leaderboards", "submissions", "times", "seasons", "examined", "withdrawals")
"""The folders of documents that are copied."""
VERIFIED = (*DOCUMENTS, "runs")
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
    yield from filter(None, in_parallel(_damage, (partial(_check, store, file) for file in files), threads))
    documents = (f"{folder}/{name}.json" for folder in VERIFIED for name in store.names(folder))
    yield from filter(None, (_damage(partial(store.sealed, name)) for name in [*documents, SECRET]))
    further = [partial(_check_numbers, store, track) for track in store.ranked()]
    yield from filter(None, map(_damage, [*further, partial(_check_ledger, store)]))


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
        leaderboard = store.leaderboard(track)
    if leaderboard is not None and leaderboard.numbers is not None:
        try:
            store.check(leaderboard.numbers)
        except DamagedError:
            if store.leaderboard(track) == leaderboard:  # otherwise the tables have been made again since
                raise


def _check_ledger(store: Store) -> None:
    """Let the package that keeps the ledger of a store read it; raises `DamagedError`."""
    if store.backend.lines(LEDGER):
        from imharness.ranking.entries import known_entries

        known_entries(store)


def _damage(check: Callable[[], object]) -> str:
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
    that of the target stays; `differing` gets the key if rows differ. Raises `DamagedError` if the source is damaged,
    `StoreError`, before anything is copied, if the target has a ledger of its own, and `UsageError` while a season on
    unpublished photographs is open.
    """
    check_published(source, "a copy")
    _new_decisions(source, target)
    target.prepare()
    files, there = source.survey().tasks, target.survey()
    at_once = max(source.backend.at_once, target.backend.at_once)
    copies = in_parallel(lambda key: _copy_task(source, target, there, key, files[key]), sorted(files), at_once)
    for done, (key, agrees) in enumerate(zip(sorted(files), copies, strict=True), start=1):
        if not agrees:
            differing(key)
        advance(done, len(files))
    _copy_documents(source, target)
    return len(files.keys() - there.tasks.keys())


def _copy_task(source: Store, target: Store, there: Survey, key: str, files: Sequence[TaskFile]) -> bool:
    """Copy the arrays of a task and then its file; what was computed again meanwhile is copied as it is then.

    Return whether the target has these rows now.
    """
    existing, size, agrees = there.tasks.get(key, []), target.backend.size, True
    while True:
        try:
            for file in files:
                content = source.verified(file.name, file.sha256)
                record = source.opened(file, content)
                placed, agrees = _placed(file, record, target, existing)
                if placed is None:
                    continue
                arrays = record.arrays
                if arrays is not None and not target.intact(arrays, there.arrays.get(arrays.file, -1)):
                    target.put(arrays.file, source.content(arrays))
                stored = StoredFile(file=placed.name, sha256=placed.sha256, size=len(content))
                if placed not in existing or not target.intact(stored, size(placed.name)):
                    target.put(placed.name, content)
            return agrees
        except DamagedError:
            before, files = files, source.files(key)
            if {*before} == {*files}:
                raise


def _placed(
    file: TaskFile, record: TaskRecord, target: Store, existing: Sequence[TaskFile]
) -> tuple[TaskFile | None, bool]:
    """Return as what a file is to be stored beside those of its task in the target, and whether the rows agree then.

    None leaves the task as it is. The file that counts is the last in the order of its name, which says nothing of two
    stores that computed the task apart.
    """
    same = next((each for each in existing if each.sha256 == file.sha256), None)
    if same is not None or not existing:
        return same or file, True
    last = existing[-1]
    if record.status == "failed" and last.kind != "failed":
        return None, True
    if file.number > last.number:  # computed again since
        return file, True
    later = file._replace(number=last.number + 1)
    try:
        theirs = target.opened(last, target.verified(last.name, last.sha256))
    except DamagedError:
        return later, True
    if last.kind == "failed":
        return (later if record.status == "done" else None), True
    return None, (theirs.rows, theirs.arrays) == (record.rows, record.arrays)


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
    while (leaderboard := source.leaderboard(track)) is not None and leaderboard.numbers is not None:
        try:
            target.put(leaderboard.numbers.file, source.content(leaderboard.numbers))
            return
        except DamagedError:
            if source.leaderboard(track) == leaderboard:  # otherwise the tables have been made again since
                raise


def _copy_document(source: Store, target: Store, folder: str, name: str) -> None:
    file = f"{folder}/{name}.json"
    content, before = source.sealed(file), None
    with suppress(DamagedError):
        before = target.sealed(file)
    if content is None or content == before:
        return
    joined = None
    if folder == "sweeps":
        with suppress(DamagedError):
            joined = _joined(source.current(file, Sweep), target.current(file, Sweep))
    if joined is None:
        target.backend.replace(file, content)
    else:
        target.replace(file, joined)


def _joined(added: Sweep | None, before: Sweep | None) -> Sweep | None:
    """Return a configuration with what both stores computed, None where the target has nothing that the source lacks.

    Otherwise the tables of the target would lack entries that only the target has.
    """
    if added is None or before is None:
        return None
    further = {a: key for a, key in before.tasks.items() if a not in added.tasks and a not in added.failed}
    return added.model_copy(update={"tasks": {**added.tasks, **further}}) if further else None


def _unchanged(line: bytes, existing: Sequence[bytes]) -> bytes:
    return line
