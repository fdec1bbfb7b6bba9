"""Results at an address (see `imharness.results.storage.address`), each complete or not there. Imports no torch.

::

    tasks/ab/<key>.<...>.parquet     a row per image, and the record (see `imharness.results.storage.taskfiles`)
    artifacts/ab/<key>.<...>.safetensors       arrays: attacked images, trained weights
    sweeps/<track>/<run_configuration>.json    what was planned
    leaderboards/<track>.json              the tables (see `imharness.documents.stored`)
    leaderboards/<track>.<digest>.safetensors        the scores that are compared pairwise
    examined/<digest>.json           which quick checks a component from outside failed
    submissions/<name>.json          manifest, offer and report of a submission
    logs/ab/<key>.json               what a task printed, warned and logged (see `imharness.running.logs`)
    shards/ab/<key>/                 parts of a task that are not joined yet (see `imharness.running.shards`)
    runs/<run>.json, times/<device>.json       the state of each run, how long tasks took
    withdrawals/<digest>.json        a version of a component whose results are withdrawn
    seasons/<name>.json              the protocol and the last day of a leaderboard
    ledger.jsonl                     the decisions about entries
    secret.json                      the seed of what strangers' evaluators are measured on; copies leave it out
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import safetensors
import safetensors.numpy
from pydantic import ValidationError

from imharness.errors import DamagedError
from imharness.results.identity import digest
from imharness.results.storage import Backend, in_parallel, sha256_of
from imharness.results.storage.damage import damage
from imharness.results.storage.files import Files, StoredFile
from imharness.results.storage.taskfiles import (
    TASKS,
    TaskFile,
    content_of,
    digest_of,
    folder_of,
    record_in,
    rows_in,
    task_files,
)
from imharness.results.sweeps import Sweep
from imharness.results.tasks import EXTERNAL, TaskRecord

ARRAYS = re.compile(r"artifacts/[0-9a-f]{2}/([0-9a-f]{64})\.([0-9a-f]{16})\.safetensors")
"""The name of a file of arrays: the key of its task, and how its sha256 begins."""
T = TypeVar("T")


class Survey:
    """The files of tasks and arrays of a store, from two listings."""

    def __init__(self, backend: Backend) -> None:
        self.tasks = task_files(backend.sizes(TASKS))
        self.arrays = backend.sizes("artifacts")
        """Name -> size in bytes."""


class Store(Files):
    """Results at an address."""

    def commit(
        self,
        record: TaskRecord,
        rows: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> TaskRecord:
        """Write arrays, and then rows with their record; return the record."""
        key, changes = record.key, dict[str, object]()
        table = pa.table({name: pa.array(column) for name, column in rows.items()})
        if rows:
            changes |= {"rows": digest_of(table), "n_rows": table.num_rows}
        if arrays:
            content = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
            changes["arrays"] = self.put(f"artifacts/{key[:2]}/{key}.{sha256_of(content)[:16]}.safetensors", content)
        record = record.model_copy(update=changes)
        content = content_of(table, record.model_dump_json(exclude={"seal", "size", "number"}).encode())
        earlier = self.files(key)
        number = earlier[-1].number + 1 if earlier else 1
        record = record.model_copy(update={"seal": sha256_of(content), "size": len(content), "number": number})
        self.backend.put(file_of(record).name, content)
        for file in earlier:
            self._remove(file, record)
        return record

    def files(self, key: str) -> list[TaskFile]:
        """Return the files of a task, the latest last: none, one, or for a moment several, if it is computed again."""
        return task_files(self.backend.sizes(folder_of(key))).get(key, [])

    def _remove(self, file: TaskFile, latest: TaskRecord) -> None:
        """Remove what was computed before the latest result, with its arrays."""
        with suppress(DamagedError):
            arrays = self._read(file).arrays
            if arrays is not None and arrays != latest.arrays:
                self.backend.delete(arrays.file)
        self.backend.delete(file.name)

    def opened(self, file: TaskFile, content: bytes) -> TaskRecord:
        """Return the record in the content of a file, which has its sha256; raises `DamagedError`."""
        try:
            record = TaskRecord.model_validate_json(record_in(content))
        except (ValidationError, KeyError, TypeError, pa.ArrowInvalid):
            what = "holds no valid record: another version of the harness wrote it"
            raise damage(self.address, file.name, what) from None
        if (record.key, record.kind) != (file.key, file.kind):
            raise damage(self.address, file.name, f"is of another task, {record.key[:12]}")
        return record.model_copy(update={"seal": file.sha256, "size": len(content), "number": file.number})

    def _read(self, file: TaskFile) -> TaskRecord:
        return self.opened(file, self.backend.verified(file.name, file.sha256))

    def record(self, key: str) -> TaskRecord | None:
        """Return the record of a task, or None; raises `DamagedError` if it or its arrays are damaged."""
        record = self._latest(key, self.files(key), {})
        if isinstance(record, DamagedError):
            raise record
        return record

    def _latest(
        self, key: str, files: Sequence[TaskFile], sizes: Mapping[str, int], *, read_arrays: bool = False
    ) -> TaskRecord | DamagedError | None:
        """Return the record in the last of these files, or what is wrong with it or its arrays, or None without a file.

        Files that were replaced since they were listed are looked for again. `sizes`: name -> size in bytes of files of
        arrays, as far as they were listed; `read_arrays`: whether these are read again, too.
        """
        while True:
            problem = None
            if files:
                try:
                    return self._with_arrays(files[-1], sizes, read_arrays)
                except DamagedError as error:
                    problem = error
            before, files, sizes = files, self.files(key), {}
            if {*before} == {*files}:
                return problem

    def _with_arrays(self, file: TaskFile, sizes: Mapping[str, int], read: bool) -> TaskRecord:
        """Return the record in a file; raises `DamagedError`, also for its arrays, which are read again if `read`."""
        record = self._read(file)
        arrays = record.arrays
        if arrays is not None:
            if sizes.get(arrays.file) != arrays.size and self.backend.size(arrays.file) != arrays.size:
                raise damage(self.address, arrays.file, "is missing or truncated")
            if read:
                self.check(arrays)
        return record

    def records(self, keys: Iterable[str] | None = None) -> Iterator[tuple[str, TaskRecord | DamagedError]]:
        """Yield the records of these tasks, or of all, in their order; a damaged one yields its error."""
        survey = self.survey()
        wanted = sorted(survey.tasks) if keys is None else list(dict.fromkeys(keys))

        def read(key: str) -> TaskRecord | DamagedError | None:
            return self._latest(key, survey.tasks.get(key, []), survey.arrays)

        for key, record in zip(wanted, in_parallel(read, wanted, self.backend.at_once), strict=True):
            if record is not None:
                yield key, record

    def finished(self, keys: Iterable[str]) -> tuple[set[str], list[str]]:
        """Return which tasks are done, and a line for each damaged one, whose file is removed.

        In a folder all files are hashed again. In an object store the listing decides, and a file is verified when it
        is used.
        """
        survey, done, lines = self.survey(), set[str](), list[str]()
        with_arrays = {name.rpartition("/")[2].partition(".")[0] for name in survey.arrays}
        for key in survey.tasks.keys() & keys:
            files = survey.tasks[key]
            if not self.backend.near and len(files) == 1:
                if files[0].kind == "done" or (files[0].kind == "arrays" and key in with_arrays):
                    done.add(key)
                continue
            record = self._latest(key, files, survey.arrays, read_arrays=self.backend.near)
            if isinstance(record, DamagedError):
                lines.append(str(record))
                for file in files:  # not one that was written since
                    self.backend.delete(file.name)
            elif record is not None:
                for file in files[:-1]:
                    self._remove(file, record)
                if record.status == "done":
                    done.add(key)
        return done, sorted(lines)

    def check(self, file: StoredFile) -> None:
        """Read a file again; raises `DamagedError`."""
        if self.backend.near:
            self.path_of(file)
        else:
            self.content(file)

    def survey(self) -> Survey:
        """Return which files there are."""
        return Survey(self.backend)

    def all_keys(self) -> Iterator[str]:
        """Yield the keys of all records, sorted."""
        yield from sorted(task_files(self.backend.sizes(TASKS)))

    def rows(self, record: TaskRecord) -> dict[str, npt.NDArray[Any]]:
        """Return the rows of a task as columns, verified."""
        if not record.rows:
            return {}
        table = rows_in(self._again(record, self.backend.verified))
        return {name: table[name].to_numpy() for name in table.column_names}

    def _again(self, record: TaskRecord, read: Callable[[str, str], T]) -> T:
        """Return what `read` makes of the file of a record, or of one with equal rows that has replaced it since."""
        while True:
            try:
                return read(file_of(record).name, record.seal)
            except DamagedError:
                now = self.record(record.key)
                if now is None or now.rows != record.rows or file_of(now) == file_of(record):
                    raise
                record = now

    def row_files(self, records: Iterable[TaskRecord]) -> dict[str, Path]:
        """Return key -> the Parquet file on this machine with the rows of the record, verified at each call."""
        with_rows = [record for record in records if record.rows]
        paths = in_parallel(lambda record: self._again(record, self.backend.path), with_rows, self.backend.at_once)
        return {record.key: path for record, path in zip(with_rows, paths, strict=True)}

    def arrays(self, record: TaskRecord) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a task, verified."""
        return self.arrays_in(record.arrays)

    def forget(self, key: str) -> None:
        """Remove the files of a task but its arrays."""
        for file in self.files(key):
            self.backend.delete(file.name)

    def save_sweep(self, sweep: Sweep) -> None:
        """Write what was planned for a track."""
        self.replace(f"sweeps/{folder_name(sweep.track)}/{sweep.run_configuration}.json", sweep)

    def sweep(self, track: str, run_configuration: str) -> Sweep | None:
        """Return one configuration of a track, or None."""
        return self.current(f"sweeps/{folder_name(track)}/{run_configuration}.json", Sweep)

    def sweeps(self, track: str, *, without: str = "") -> list[Sweep]:
        """Return all configurations of a track that were run here, except one if it is named."""
        names = (name for name in self.names(f"sweeps/{folder_name(track)}") if name not in (EXTERNAL, without))
        return [sweep for name in names if (sweep := self.sweep(track, name))]

    def latest(self, track: str) -> Sweep | None:
        """Return the configuration of a track that was run last, or None."""
        return max(self.sweeps(track), key=lambda sweep: (sweep.number, sweep.finished), default=None)

    def ranked_from(self, track: str) -> Sweep | None:
        """Return the configuration that tables are made of: the latest, or one without tasks where all was imported."""
        imported = self.sweep(track, EXTERNAL)
        alone = {"tasks": {}, "profile": "none", "run_configuration": "none"}
        return self.latest(track) or (imported.model_copy(update=alone) if imported else None)

    def keys_of(self, sweep: Sweep) -> list[str]:
        """Return the keys of the tasks of a configuration, and of those that were imported."""
        imported = self.sweep(sweep.track, EXTERNAL)
        return [*sweep.tasks.values(), *(imported.tasks.values() if imported else ())]

    def contents(self, sweep: Sweep, survey: Survey | None = None) -> dict[str, str]:
        """Return key -> sha256 of the file of each task of a configuration, without opening it.

        In a folder the files are hashed again; raises `DamagedError`. `survey`: which files there are, if that was
        looked up a moment ago.
        """
        surveyed = survey.tasks if survey else task_files(self.backend.sizes(TASKS))
        files = [surveyed[key][-1] for key in dict.fromkeys(self.keys_of(sweep)) if key in surveyed]
        if self.backend.near:
            for file in files:
                self.backend.path(file.name, file.sha256)
        return {file.key: file.sha256 for file in files}

    def has_arrays(self, sweep: Sweep, survey: Survey) -> bool:
        """Return whether the arrays of all tasks of a configuration are as they were written, by their names.

        In an object store the listing decides.
        """
        wanted = {key for key in self.keys_of(sweep) if key in survey.tasks and survey.tasks[key][-1].kind == "arrays"}
        matches = [ARRAYS.fullmatch(name) for name in survey.arrays]
        files = [(match[1], match[2], match[0]) for match in matches if match and match[1] in wanted]
        if {key for key, *_ in files} != wanted:
            return False
        near = self.backend.near
        return not near or all(sha256_of(self.backend.get(n) or b"").startswith(digits) for _, digits, n in files)

    def sources(self, sweep: Sweep) -> str:
        """Return a digest of the tasks of a configuration, without opening them."""
        return digest(sorted({*self.keys_of(sweep)}))

    def ranked(self) -> list[str]:
        """Return the tracks that have tables."""
        return [_track(name) for name in self.names("leaderboards")]

    def tracks(self) -> list[str]:
        """Return the tracks that were run here."""
        split_names = (name.rpartition("/") for name in self.names("sweeps"))
        return sorted({_track(folder) for folder, _, name in split_names if name != EXTERNAL})

    def rankable(self) -> list[str]:
        """Return the tracks that were run here, or of which results were imported."""
        return sorted({_track(name.rpartition("/")[0]) for name in self.names("sweeps")})

    def arrays_in(self, file: StoredFile | None) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays in a file, verified; none without a file."""
        return {} if file is None else dict(safetensors.numpy.load(self.content(file)))


def file_of(record: TaskRecord) -> TaskFile:
    """Return the file of a stored record."""
    return TaskFile(record.key, record.number, record.kind, record.seal)


def folder_name(track: str) -> str:
    """Return the id of a track as a name of files and folders of a store."""
    return track.replace("/", "--")


def _track(folder: str) -> str:
    return folder.replace("--", "/", 1)
