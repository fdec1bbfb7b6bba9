"""What is done to a whole store: check it, pack its small files into segments, copy it. Loads no torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from imharness.errors import DamagedError, StoreError
from imharness.results.store import Store
from imharness_storage import in_parallel, sha256_of
from imharness_storage.cells import Survey, task_file
from imharness_storage.segments import FOLDER, Cell, Segment, digest_in, write_segment

CELLS = 4096
"""Cells in a full segment; one with less than half of them is packed again, together with new cells."""
DOCUMENTS = ("logs", "sweeps", "boards", "submissions", "times")
LEDGER = "ledger.jsonl"
Advance = Callable[[int, int], None]
Place = tuple[str, str]
"""A track and a step."""


def existing(address: str) -> Store:
    """Return a store that is there; raises `StoreError` where nothing was ever written."""
    store = Store(address)
    documents = (store.names(folder) for folder in ("sweeps", "boards", "runs", "submissions"))
    if not any(documents) and not any(store.all_keys()) and not store.names("logs"):
        raise StoreError(f"store {store.address} is not there, or empty; `harness run` makes one")
    return store


def verify(store: Store) -> Iterator[str]:
    """Re-hash everything, several files at a time; yield one line for each that is damaged."""
    survey = store.survey()
    threads = max(store.backend.at_once, min(8, os.cpu_count() or 1))
    yield from store.segments.damaged.values()
    yield from filter(None, in_parallel(_damage, (s.verify_rows for s in store.segments.all), threads))
    checks = (partial(_check, store, survey, *found) for found in survey.contents(survey.keys(), store.is_sound))
    yield from filter(None, in_parallel(_damage, checks, threads))


def _check(store: Store, survey: Survey, key: str, content: bytes) -> None:
    record = store.complete(store.opened(key, content), survey.size)
    for file in (record.rows, record.arrays):
        if file is not None and (survey.size(file.file) >= 0 or file is record.arrays):
            store.content(file)


def _damage(check: Callable[[], None]) -> str:
    try:
        check()
    except DamagedError as error:
        return str(error)
    return ""


def compact(store: Store, advance: Advance = lambda done, total: None) -> int:
    """Pack finished cells whose record is a file of its own into segments, step by step; return how many.

    A file is removed when the segment that has its content can be read, its record last; whoever is stopped at any
    moment has lost nothing, and the next call goes on. Small segments are packed again with the new cells. Cells that
    are damaged stay as they are.
    """
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
        small = [s for s in store.segments.all if s.name.startswith(f"{FOLDER}/{folder}/") and len(s.keys) < CELLS // 2]
        left = [key for segment in small for key, seal in zip(segment.keys, segment.seals, strict=True)
                if key not in survey.singles and store.segments.places[key].seal == seal]  # fmt: skip
        wanted = sorted({*keys, *left})
        for start in range(0, len(wanted), CELLS):
            batch = wanted[start : start + CELLS]
            _pack(store, survey, folder, batch)
            done += len(survey.singles.intersection(batch))
            advance(done, total)
        _remove(store, small)
    return done


def _pack(store: Store, survey: Survey, folder: str, keys: Iterable[str]) -> None:
    """Write cells as segments, one for each schema of rows; then remove the files whose content is in them."""
    cells: dict[pa.Schema | None, list[Cell]] = {}
    for key, content in survey.contents(keys, store.is_sound):
        try:
            record = store.opened(key, content)
            rows = None if record.rows is None else store.table(record, record.rows)
        except DamagedError:
            continue
        cell = Cell(
            key=key, seal=record.seal, started=record.started, record=content, rows=rows,
            arrays=record.arrays.file if record.arrays else "", arrays_size=record.arrays.size if record.arrays else 0,
        )  # fmt: skip
        cells.setdefault(rows.schema if rows is not None else None, []).append(cell)
    groups = [sorted(group, key=lambda cell: cell.key) for group in cells.values()]
    written = {write_segment(store.backend, folder, group) for group in groups}
    store.segments.refresh()
    if not written <= {segment.name for segment in store.segments.all}:
        raise StoreError(f"segments of {store.address} cannot be read back; nothing was removed")
    packed = [cell for group in groups for cell in group if cell.key in survey.singles]
    list(in_parallel(partial(_drop, store), packed, store.backend.at_once))


def _drop(store: Store, cell: Cell) -> None:
    """Remove the files of a cell that is in a segment, unless its record was written anew since."""
    place = store.segments.places.get(cell.key)
    if place is not None and place.seal == cell.seal and store.backend.get(task_file(cell.key)) == cell.record:
        store.backend.delete(f"rows/{cell.key[:2]}/{cell.key}.parquet")
        store.backend.delete(task_file(cell.key))


def _remove(store: Store, small: Sequence[Segment]) -> None:
    """Remove segments whose cells are all in others, as they are or computed anew."""
    others = [segment for segment in store.segments.all if segment not in small]
    elsewhere = {pair for segment in others for pair in zip(segment.keys, segment.seals, strict=True)}
    for segment in small:
        pairs = zip(segment.keys, segment.seals, strict=True)
        if all(pair in elsewhere or store.segments.places[pair[0]].segment in others for pair in pairs):
            store.backend.delete(segment.name)
            if segment.rows_name:
                store.backend.delete(segment.rows_name)
    store.segments.refresh()


def copy(source: Store, target: Store, advance: Advance = lambda done, total: None) -> int:
    """Copy a store into another, verified; return how many tasks were not there before.

    Tasks come first and what points to them after that, so that whoever reads the copy while it is made sees whole
    tasks alone. A call after one that was stopped goes on. Documents replace those of the same name. Raises
    `DamagedError` where the source is damaged, `StoreError` when the target has a ledger of its own.
    """
    target.prepare()
    survey, there = source.survey(), target.survey()
    keys, before, copied = survey.keys(), set(there.keys()), 0
    work = partial(_copy_task, source, target, survey, there)
    contents = survey.contents(keys, source.is_sound)
    at_once = max(source.backend.at_once, target.backend.at_once)
    for done, key in enumerate(in_parallel(lambda found: work(*found), contents, at_once), start=1):
        copied += key not in before
        advance(done, len(keys))
    known = target.backend.sizes(FOLDER)
    list(in_parallel(partial(_copy_segment, source, target, known), source.segments.all, at_once))
    _copy_documents(source, target)
    return copied


def _copy_task(source: Store, target: Store, survey: Survey, there: Survey, key: str, content: bytes) -> str:
    """Copy the files of a task and, where it is a file of its own, its record, last; return its key."""
    record = source.complete(source.opened(key, content), survey.size)
    alone = key in survey.singles
    same = target.backend.get(task_file(key)) == content if key in there.singles else not alone
    for file in (record.rows, record.arrays):
        if file is None or (same and there.size(file.file) == file.size):
            continue
        if file is record.arrays or survey.size(file.file) >= 0:
            target.put(file.file, source.content(file))
    if alone and not same:
        target.backend.put(task_file(key), content)
    return key


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
        board = source.board(track)
        if board is not None and board.numbers is not None:
            target.put(board.numbers.file, source.content(board.numbers))
    at_once = max(source.backend.at_once, target.backend.at_once)
    for folder in DOCUMENTS:
        list(in_parallel(partial(_copy_document, source, target, folder), source.names(folder), at_once))
    lines, before = source.backend.lines(LEDGER), target.backend.lines(LEDGER)
    if lines[: len(before)] != before:
        raise StoreError(f"store {target.address} has a ledger of its own; copy into another store")
    for line in lines[len(before) :]:
        target.backend.append(LEDGER, partial(_unchanged, line))


def _copy_document(source: Store, target: Store, folder: str, name: str) -> None:
    file = f"{folder}/{name}.json"
    content = source.backend.current(file)
    if content is not None and content != target.backend.current(file):
        target.backend.replace(file, content)


def _unchanged(line: bytes, known: Sequence[bytes]) -> bytes:
    return line
