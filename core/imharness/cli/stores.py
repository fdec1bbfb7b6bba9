"""What can be done to a whole store: check it, pack its small files into segments, copy it. Loads no torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial

import pyarrow as pa

from imharness.errors import DamagedError, StoreError, UsageError
from imharness.results.storage import in_parallel, sha256_of
from imharness.results.storage.cells import Survey, one, task_file
from imharness.results.storage.files import StoredFile
from imharness.results.storage.segments import FOLDER, Cell, Segment, digest_in, write_segment
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

CELLS = 4096
"""The number of cells in a full segment; one with less than half as many is packed again together with new cells."""
TRIES = 3
DOCUMENTS = ("logs", "sweeps", "boards", "submissions", "times", "seasons")
LEDGER = "ledger.jsonl"
Advance = Callable[[int, int], None]
Place = tuple[str, str]
"""A track and a step."""


def existing(address: str) -> Store:
    """Return a store that exists; raises `UsageError` if nothing was ever written there."""
    store = Store(address)
    documents = (store.names(folder) for folder in ("sweeps", "boards", "runs", "submissions", "seasons"))
    if not any(documents) and not any(store.all_keys()) and not store.names("logs"):
        raise UsageError(f"store {store.address} does not exist or is empty; `harness run` makes one.")
    return store


def verify(store: Store) -> Iterator[str]:
    """Hash everything again, several files at a time, and yield one line for each damaged file."""
    survey = store.survey()
    threads = max(store.backend.at_once, min(8, os.cpu_count() or 1))
    checks = (partial(_check, store, survey, *found) for found in survey.contents(survey.keys(), store.is_sound))
    yield from filter(None, in_parallel(_damage, checks, threads))
    checked, looking = set[Segment](), True
    while looking:
        looking, new = False, [segment for segment in store.segments.all if segment not in checked]
        checked.update(new)
        found = in_parallel(_damage, (segment.verify_rows for segment in new), threads)
        for segment, line in zip(new, found, strict=True):
            if line and store.backend.size(segment.name) < 0:  # it has become part of another
                looking = True
            elif line:
                yield line
        if looking:
            store.segments.refresh()
    yield from store.segments.damaged.values()


def _check(store: Store, survey: Survey, key: str, content: bytes) -> None:
    """Read the files of a task again; raises `DamagedError`. Rows in a segment are checked with the segment."""
    _steady(store, survey, key, content, lambda record, content, file: store.content(file))


def _steady(
    store: Store, survey: Survey, key: str, content: bytes, read: Callable[[TaskRecord, bytes, StoredFile], object]
) -> tuple[TaskRecord, bytes]:
    """Read each file of a task, except rows in a segment, and return the record and its content.

    If the task is packed or recomputed meanwhile, all its files are read again. Raises `DamagedError`.
    """
    size: Callable[[str], int] = survey.size
    while True:
        record, content = store.judged(key, content, size)
        if isinstance(record, DamagedError):
            raise record
        try:
            for file in (record.rows, record.arrays):
                if file is not None and (file is record.arrays or size(file.file) >= 0):
                    read(record, content, file)
        except DamagedError:
            now = one(store.backend, store.segments, store.is_sound, key)
            if now in (None, content) and size == store.backend.size:
                raise
            content, size = now or content, store.backend.size
        else:
            return record, content


def _damage(check: Callable[[], None]) -> str:
    try:
        check()
    except DamagedError as error:
        return str(error)
    return ""


def compact(store: Store, advance: Advance = lambda done, total: None) -> int:
    """Pack finished cells whose record is a file of its own into segments, step by step; return how many.

    A file is removed only after the segment with its content could be read, and the record is removed last. If the
    process is interrupted, nothing is lost, and the next call continues. Small segments are packed again with the new
    cells. Damaged cells stay as they are. Others may read and compute meanwhile. Raises `StoreError` while another
    process is packing.
    """
    with store.backend.packing():
        return _compact(store, advance)


def _compact(store: Store, advance: Advance) -> int:
    survey = store.survey()
    groups: dict[Place, list[str]] = {}
    for key, content in survey.contents(survey.singles, store.is_sound):
        try:
            record = store.complete(store.opened(key, content), survey.size)
        except DamagedError:
            continue
        if record.status == "done":
            groups.setdefault((record.spec.track, record.spec.step), []).append(key)
    total, done = sum(map(len, groups.values())), 0
    for (track, step), keys in sorted(groups.items()):
        folder = f"{track.replace('/', '--')}/{step}"
        known, places = store.segments.all, store.segments.places
        small = [s for s in known if s.name.startswith(f"{FOLDER}/{folder}/") and len(s.keys) < CELLS // 2]
        left = [
            key
            for segment in small
            for key, seal in zip(segment.keys, segment.seals, strict=True)
            if key not in survey.singles and places[key].seal == seal
        ]
        wanted = sorted({*keys, *left})
        for start in range(0, len(wanted), CELLS):
            batch = wanted[start : start + CELLS]
            _pack(store, survey, folder, batch)
            done += len(survey.singles.intersection(batch))
            advance(done, total)
        _remove(store, {segment.name for segment in small})
    return done


def _pack(store: Store, survey: Survey, folder: str, keys: Iterable[str]) -> None:
    """Write cells as segments, one for each schema of rows, and then remove the files whose content is in them."""
    cells: dict[pa.Schema | None, list[Cell]] = {}
    files: dict[str, StoredFile | None] = {}
    for key, content in survey.contents(keys, store.is_sound):
        try:
            record = store.opened(key, content)
            rows = None if record.rows is None else store.table(record, record.rows)
        except DamagedError:
            continue
        files[key] = record.rows
        cell = Cell(
            key=key,
            seal=record.seal,
            started=record.started,
            record=content,
            rows=rows,
            arrays=record.arrays.file if record.arrays else "",
            arrays_size=record.arrays.size if record.arrays else 0,
        )
        cells.setdefault(rows.schema if rows is not None else None, []).append(cell)
    groups = [sorted(group, key=lambda cell: cell.key) for group in cells.values()]
    for _ in range(TRIES):  # without locks, others may replace a segment as soon as it is there
        written = {write_segment(store.backend, folder, group) for group in groups}
        store.segments.refresh()
        if written <= {segment.name for segment in store.segments.all}:
            break
    else:
        raise StoreError(f"segments of {store.address} cannot be read back; nothing was removed")
    packed = [cell for group in groups for cell in group if cell.key in survey.singles]
    list(in_parallel(lambda cell: _drop(store, cell, files[cell.key]), packed, store.backend.at_once))


def _drop(store: Store, cell: Cell, rows: StoredFile | None) -> None:
    """Remove the files of a cell that is in a segment, except files that have been written again since."""
    place = store.segments.places.get(cell.key)
    if place is not None and place.seal == cell.seal:
        if rows is not None:
            store.backend.remove(rows.file, rows.sha256)
        store.backend.remove(task_file(cell.key), sha256_of(cell.record))


def _remove(store: Store, small: Set[str]) -> None:
    """Remove segments whose cells are all in other segments, unchanged or recomputed.

    Equal rows have the same name, so rows that another segment uses, too, stay. An index is removed before its rows, so
    that missing rows always belong to an index that has been removed.
    """
    known, places = store.segments.all, store.segments.places
    others = [segment for segment in known if segment.name not in small]
    elsewhere = {pair for segment in others for pair in zip(segment.keys, segment.seals, strict=True)}
    kept = {segment.rows_name for segment in others}
    gone = []
    for segment in known:
        pairs = zip(segment.keys, segment.seals, strict=True)
        if segment.name in small and all(p in elsewhere or places[p[0]].segment in others for p in pairs):
            gone.append(segment)
        else:
            kept.add(segment.rows_name)
    for segment in gone:
        store.backend.delete(segment.name)
        if segment.rows_name and segment.rows_name not in kept:
            store.backend.delete(segment.rows_name)
    store.segments.refresh()


def copy(source: Store, target: Store, advance: Advance = lambda done, total: None) -> int:
    """Copy a store into another and verify it; return how many tasks were not there before.

    Tasks are copied before what points to them, so that a reader of the unfinished copy sees only complete tasks. A
    call after an interrupted one continues it. Documents replace those with the same name. Raises `DamagedError` if the
    source is damaged, and `StoreError` if the target has a ledger of its own.
    """
    target.prepare()
    survey, there = source.survey(), target.survey()
    keys, before, copied = survey.keys(), set(there.keys()), 0
    work = partial(_copy_task, source, target, survey, there)
    contents = survey.contents(keys, source.is_sound)
    at_once = max(source.backend.at_once, target.backend.at_once)
    late = dict[str, bytes]()
    for done, (key, content) in enumerate(in_parallel(lambda found: work(*found), contents, at_once), start=1):
        copied += key not in before
        if content is not None:
            late[key] = content
        advance(done, len(keys))
    _copy_segments(source, target, at_once)
    for key, content in late.items():
        target.backend.put(task_file(key), content)
    _copy_documents(source, target)
    return copied


def _copy_task(
    source: Store, target: Store, survey: Survey, there: Survey, key: str, content: bytes
) -> tuple[str, bytes | None]:
    """Copy the files of a task and then its record, if that is a file of its own.

    Returns its key, and its record if that has to wait for the segments that hold its rows.
    """
    alone, rows = key in survey.singles, set[str]()

    def same(content: bytes) -> bool:
        return target.backend.get(task_file(key)) == content if key in there.singles else not alone

    def copied(record: TaskRecord, content: bytes, file: StoredFile) -> None:
        if file is record.rows:
            rows.add(file.sha256)
        if not same(content) or there.size(file.file) != file.size:
            target.put(file.file, source.content(file))

    record, content = _steady(source, survey, key, content, copied)
    if not alone or same(content):
        return key, None
    if record.rows is not None and record.rows.sha256 not in rows:  # a segment holds them, perhaps with another record
        return key, content
    target.backend.put(task_file(key), content)
    return key, None


def _copy_segments(source: Store, target: Store, at_once: int) -> None:
    """Copy the segments; others may replace them meanwhile."""
    source.segments.refresh()
    known = target.backend.sizes(FOLDER)
    while True:
        places = source.segments.places
        try:
            list(in_parallel(partial(_copy_segment, source, target, known), source.segments.all, at_once))
            return
        except DamagedError:
            if not source.segments.moved_on(places):
                raise


def _copy_segment(source: Store, target: Store, known: Mapping[str, int], segment: Segment) -> None:
    for name in (segment.rows_name, segment.name):
        if not name or name in known:
            continue
        content = source.backend.get(name, partial(_is_named, name))
        if content is None or not _is_named(name, content):
            raise DamagedError(f"{source.address}/{name} is damaged: its name is not its sha256")
        target.backend.put(name, content)


def _is_named(name: str, content: bytes) -> bool:
    return sha256_of(content) == digest_in(name)


def _copy_documents(source: Store, target: Store) -> None:
    for track in source.ranked():
        _copy_numbers(source, target, track)
    at_once = max(source.backend.at_once, target.backend.at_once)
    for folder in DOCUMENTS:
        list(in_parallel(partial(_copy_document, source, target, folder), source.names(folder), at_once))
    lines, before = source.backend.lines(LEDGER), target.backend.lines(LEDGER)
    if lines[: len(before)] != before:
        raise StoreError(f"store {target.address} has a ledger of its own; copy into another store")
    for line in lines[len(before) :]:
        target.backend.append(LEDGER, partial(_unchanged, line))


def _copy_numbers(source: Store, target: Store, track: str) -> None:
    while (board := source.board(track)) is not None and board.numbers is not None:
        try:
            target.put(board.numbers.file, source.content(board.numbers))
            return
        except DamagedError:
            if source.board(track) == board:  # otherwise the tables have been made again since
                raise


def _copy_document(source: Store, target: Store, folder: str, name: str) -> None:
    file = f"{folder}/{name}.json"
    content = source.backend.current(file)
    if content is not None and content != target.backend.current(file):
        target.backend.replace(file, content)


def _unchanged(line: bytes, known: Sequence[bytes]) -> bytes:
    return line
