"""Results at an address (see `imharness.results.storage.address`), each complete or not there. Imports no torch.

::

    tasks/ab/<key>.json              the record, sealed, written last
    rows/ab/<key>.parquet            one row per image
    artifacts/ab/<key>.safetensors   arrays: attacked images, trained weights
    segments/<track>/<step>/         records and rows of many tasks (see `imharness.results.storage.segments`)
    sweeps/<track>/<run_configuration>.json    what was planned
    boards/<track>.json              the tables
    boards/<track>.<digest>.safetensors        the scores that are compared pairwise
    examined/<digest>.json           which quick checks a component from outside failed
    submissions/<name>.json          manifest, offer and report of a submission
    logs/ab/<key>.json               what a task printed, warned and logged (see `imharness.running.logs`)
    shards/ab/<key>/                 parts of a task that are not joined yet (see `imharness.running.shards`)
    runs/<run>.json, times/<device>.json       the state of each run, how long tasks took
    seasons/<name>.json              the protocol and the last day of a board
    ledger.jsonl                     the decisions about entries
    secret.json                      the seed of what strangers' evaluators are measured on; copies leave it out
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy

from imharness.errors import DamagedError
from imharness.results.boards import Board
from imharness.results.identity import digest
from imharness.results.storage import sha256_of
from imharness.results.storage.cells import Survey, lost, one, row_files, table, task_file
from imharness.results.storage.files import Files, StoredFile, packed, text_of
from imharness.results.storage.segments import Segments
from imharness.results.sweeps import Sweep
from imharness.results.tasks import EXTERNAL, TaskRecord


class Store(Files):
    """Results at an address."""

    def __init__(self, address: str | Path) -> None:
        super().__init__(address)
        self.segments = Segments(self.backend)

    def commit(
        self,
        record: TaskRecord,
        rows: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> TaskRecord:
        """Write rows and arrays, then the sealed record; return the record."""
        key, changes = record.key, dict[str, object]()
        if rows:
            table = pa.table({name: pa.array(column) for name, column in rows.items()})
            changes |= {"rows": self._put_rows(key, table), "n_rows": table.num_rows}
        if arrays:
            content = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
            changes["arrays"] = self.put(f"artifacts/{key[:2]}/{key}.safetensors", content)
        return self._put_record(record.model_copy(update=changes).sealed())

    def record(self, key: str) -> TaskRecord | None:
        """Return the record of a task, or None if there is none; raises `DamagedError` if it is damaged."""
        content = one(self.backend, self.segments, self.is_sound, key)
        found = None if content is None else self.judged(key, content, self.backend.size)[0]
        if isinstance(found, DamagedError):
            raise found
        return found

    def records(self, keys: Iterable[str] | None = None) -> Iterator[tuple[str, TaskRecord | DamagedError]]:
        """Yield the records of these tasks, or of all, in no particular order; a damaged one yields its error."""
        survey = self.survey()
        for key, text in survey.contents(survey.keys() if keys is None else keys, self.is_sound):
            yield key, self.judged(key, text, survey.size)[0]

    def finished(self, keys: Iterable[str]) -> tuple[set[str], list[str]]:
        """Return which tasks are done, and a line for each damaged one, whose record is removed.

        Records in segments are not opened, because the index of a segment is verified as a whole.
        """
        wanted, survey = list(keys), self.survey()
        done, lines = survey.packed(wanted)
        for key, text in survey.contents(survey.singles.intersection(wanted), self.is_sound):
            record, text = self.judged(key, text, survey.size)
            if isinstance(record, DamagedError):
                lines.append(str(record))
                self.backend.remove(task_file(key), sha256_of(text))
            elif record.status == "done":
                done.add(key)
        return done, [*self.segments.damaged.values(), *lines]

    def survey(self) -> Survey:
        """Return a view of the whole store, which takes a few listings."""
        return Survey(self.backend, self.segments)

    def opened(self, key: str, content: bytes) -> TaskRecord:
        """Return the record in a file or segment; raises `DamagedError` if it was changed."""
        record = self.valid(task_file(key), content, TaskRecord)
        if record.key != key or record.seal != record.expected_seal():
            raise DamagedError(
                f"{self.address}/{task_file(key)} was changed after it was written: its seal does not fit; "
                "delete it to compute it again"
            )
        return record

    def judged(self, key: str, content: bytes, size: Callable[[str], int]) -> tuple[TaskRecord | DamagedError, bytes]:
        """Return a record, or what is wrong with it, and its content, which may have been written again meanwhile."""
        while True:
            try:
                return self.complete(self.opened(key, content), size), content
            except DamagedError as error:
                now = one(self.backend, self.segments, self.is_sound, key)
                if now is None or now == content:
                    return error, content
                content = now

    def is_sound(self, key: str, content: bytes) -> bool:
        """Return whether `content` is the complete record of a task."""
        try:
            return bool(self.opened(key, content))
        except DamagedError:
            return False

    def complete(self, record: TaskRecord, size: Callable[[str], int]) -> TaskRecord:
        """Return the record if its files are there; raises `DamagedError` otherwise."""
        cell = record.key, record.seal, record.rows, record.arrays
        reason = lost(self.backend, self.segments, cell, size)
        if reason:
            raise DamagedError(reason)
        return record

    def all_keys(self) -> Iterator[str]:
        """Yield the keys of all records, sorted."""
        yield from self.survey().keys()

    def rows(self, record: TaskRecord) -> dict[str, npt.NDArray[Any]]:
        """Return the rows of a task as columns, verified."""
        if record.rows is None:
            return {}
        table = self.table(record, record.rows)
        return {name: table[name].to_numpy() for name in table.column_names}

    def table(self, record: TaskRecord, file: StoredFile) -> pa.Table:
        """Return the rows that a task wrote to a file, verified."""
        return table(self, self.segments, record.key, record.seal, file)

    def row_files(self, records: Iterable[TaskRecord]) -> dict[str, tuple[Path, int]]:
        """Return key -> where the rows of the record are; see `imharness.results.storage.cells.row_files`."""
        self.segments.refresh()
        wanted = [(record.key, record.seal, record.rows) for record in records if record.rows is not None]
        return row_files(self.backend, self.segments, wanted)

    def arrays(self, record: TaskRecord) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a task, verified."""
        return self._arrays(record.arrays)

    def forget(self, key: str) -> None:
        """Remove the record of a task; its files are overwritten when the task is computed again."""
        self.backend.delete(task_file(key))

    def save_sweep(self, sweep: Sweep) -> None:
        """Write what was planned for a track."""
        self.replace(f"sweeps/{_folder(sweep.track)}/{sweep.run_configuration}.json", sweep)

    def sweep(self, track: str, run_configuration: str) -> Sweep | None:
        """Return one configuration of a track, or None."""
        return self.current(f"sweeps/{_folder(track)}/{run_configuration}.json", Sweep)

    def sweeps(self, track: str) -> list[Sweep]:
        """Return all configurations of a track that were run here."""
        names = (name for name in self.names(f"sweeps/{_folder(track)}") if name != EXTERNAL)
        return [sweep for name in names if (sweep := self.sweep(track, name))]

    def latest(self, track: str) -> Sweep | None:
        """Return the configuration of a track that was run last, or None."""
        return max(self.sweeps(track), key=lambda sweep: (sweep.number, sweep.finished), default=None)

    def ranked_from(self, track: str) -> Sweep | None:
        """Return the configuration that tables are made of: the latest, or one without cells where all was imported."""
        imported = self.sweep(track, EXTERNAL)
        alone = {"cells": {}, "profile": "none", "run_configuration": "none"}
        return self.latest(track) or (imported.model_copy(update=alone) if imported else None)

    def keys_of(self, sweep: Sweep) -> list[str]:
        """Return the keys of the tasks of a configuration, and of those that were imported."""
        imported = self.sweep(sweep.track, EXTERNAL)
        return [*sweep.cells.values(), *(imported.cells.values() if imported else ())]

    def sources(self, sweep: Sweep) -> str:
        """Return a digest of the tasks of a configuration, without opening them."""
        return digest(sorted({*self.keys_of(sweep)}))

    def save_board(self, board: Board, numbers: Mapping[str, npt.NDArray[np.floating]] | None = None) -> Board:
        """Write the scores of a track's comparisons and then its tables; return the board."""
        file = f"boards/{_folder(board.track)}"
        if numbers:
            content = packed(numbers)
            stored = self.put(f"{file}.{sha256_of(content)[:16]}.safetensors", content)
            board = board.model_copy(update={"numbers": stored})
        before = None
        with suppress(DamagedError):
            before = self.board(board.track)
        self.replace(f"{file}.json", board)
        if before is not None and before.numbers is not None and before.numbers != board.numbers:
            self.backend.delete(before.numbers.file)
        return board

    def numbers(self, board: Board) -> dict[str, npt.NDArray[np.floating]]:
        """Return the scores of a board's comparisons, verified."""
        return self._arrays(board.numbers)

    def board(self, track: str) -> Board | None:
        """Return the tables of a track, or None; raises `DamagedError` if they are damaged."""
        return self.current(f"boards/{_folder(track)}.json", Board)

    def ranked(self) -> list[str]:
        """Return the tracks that have tables."""
        return [name.replace("--", "/", 1) for name in self.names("boards")]

    def tracks(self) -> list[str]:
        """Return the tracks that were run here."""
        found = (name.rpartition("/") for name in self.names("sweeps"))
        return sorted({folder.replace("--", "/", 1) for folder, _, name in found if name != EXTERNAL})

    def rankable(self) -> list[str]:
        """Return the tracks that were run here, or of which results were imported."""
        return sorted({name.rpartition("/")[0].replace("--", "/", 1) for name in self.names("sweeps")})

    def _arrays(self, file: StoredFile | None) -> dict[str, npt.NDArray[Any]]:
        return {} if file is None else dict(safetensors.numpy.load(self.content(file)))

    def _put_rows(self, key: str, table: pa.Table) -> StoredFile:
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd")
        return self.put(f"rows/{key[:2]}/{key}.parquet", content.getvalue())

    def _put_record(self, record: TaskRecord) -> TaskRecord:
        self.backend.put(task_file(record.key), text_of(record))
        return record


def _folder(track: str) -> str:
    return track.replace("/", "--")
