"""Content-addressed files: a result exists whole or not at all. Imports no torch.

::

    store/tasks/ab/<key>.json              the record, sealed, written last
    store/rows/ab/<key>.parquet            one row per image
    store/artifacts/ab/<key>.safetensors   arrays: attacked images, trained weights
    store/sweeps/<track>/<run_configuration>.json    what was planned
    store/boards/<track>.json              the tables
    store/boards/<track>.safetensors       the scores that are compared pairwise
    store/submissions/<name>.json          manifest, offer and report of a submission
    store/runs/<run>.json, store/times/<device>.json    what runs say of themselves, how long tasks took
    store/ledger.jsonl                     what was decided about entries
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy
from pydantic import BaseModel, ValidationError

from imharness.errors import StoreError
from imharness.results.identity import digest
from imharness.results.records import EXTERNAL, Board, StoredFile, Sweep, TaskRecord
from imharness_disk import prepare, reading, write_whole

M = TypeVar("M", bound=BaseModel)


class Store:
    """A folder of results; several processes and machines may share one."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self) -> None:
        """Create the folder, check that it can be written, and remove remains; raises `StoreError` otherwise."""
        try:
            prepare(self.root)
        except OSError as error:
            raise StoreError(f"store {self.root} cannot be written: {error.strerror}; choose another --store") from None

    def commit(
        self,
        record: TaskRecord,
        rows: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> TaskRecord:
        """Write rows, arrays and, last, the sealed record; return the record."""
        key, changes = record.key, {}
        if rows:
            table = pa.table({name: pa.array(column) for name, column in rows.items()})
            content = io.BytesIO()
            pq.write_table(table, content, compression="zstd")
            changes["rows"] = self.put(f"rows/{key[:2]}/{key}.parquet", content.getvalue())
            changes["n_rows"] = table.num_rows
        if arrays:
            packed = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
            changes["arrays"] = self.put(f"artifacts/{key[:2]}/{key}.safetensors", packed)
        final = record.model_copy(update=changes).sealed()
        self._put_model(_task(key), final)
        return final

    def record(self, key: str) -> TaskRecord | None:
        """Return the record of a task, or None when there is none; raises `StoreError` when it is damaged."""
        path = self.root / _task(key)
        record = self._model(path, TaskRecord)
        if record is None:
            return None
        if record.key != key or record.seal != record.expected_seal():
            raise StoreError(
                f"{path} was changed after it was written: its seal does not fit; delete it to compute again"
            )
        for file in (record.rows, record.arrays):
            if file is not None and self._size(file) != file.size:
                raise StoreError(f"{self.root / file.file} is missing or truncated; it will be computed again")
        return record

    def all_keys(self) -> Iterator[str]:
        """Yield the keys of all records, sorted."""
        yield from sorted(path.stem for path in (self.root / "tasks").glob("*/*.json"))

    def rows(self, record: TaskRecord) -> dict[str, npt.NDArray[Any]]:
        """Return the rows of a task as columns, verified."""
        if record.rows is None:
            return {}
        table = pq.read_table(io.BytesIO(self._get(record.rows)))
        return {name: table[name].to_numpy() for name in table.column_names}

    def arrays(self, record: TaskRecord) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a task, verified."""
        if record.arrays is None:
            return {}
        return dict(safetensors.numpy.load(self._get(record.arrays)))

    def verify(self) -> Iterator[str]:
        """Re-hash everything; yield one line for each damaged file."""
        for key in self.all_keys():
            try:
                record = self.record(key)
                if record is not None:
                    self.rows(record)
                    self.arrays(record)
            except StoreError as error:
                yield str(error)

    def adopt(self, other: Store, key: str) -> None:
        """Copy a finished task of another store, verified."""
        record = other.record(key)
        if record is None:
            raise StoreError(f"store {other.root} has no task {key[:12]}")
        for file in (record.rows, record.arrays):
            if file is not None:
                self.put(file.file, other._get(file))
        self._put_model(_task(key), record)

    def forget(self, key: str) -> None:
        """Remove the record of a task; its files are overwritten when it is computed again."""
        (self.root / _task(key)).unlink(missing_ok=True)

    def save_sweep(self, sweep: Sweep) -> None:
        """Write what was planned for a track."""
        self._put_model(f"sweeps/{_folder(sweep.track)}/{sweep.run_configuration}.json", sweep)

    def sweep(self, track: str, run_configuration: str) -> Sweep | None:
        """Return one configuration of a track, or None."""
        return self._model(self.root / "sweeps" / _folder(track) / f"{run_configuration}.json", Sweep)

    def sweeps(self, track: str) -> list[Sweep]:
        """Return all configurations of a track that were run here."""
        paths = sorted((self.root / "sweeps" / _folder(track)).glob("*.json"))
        return [sweep for path in paths if path.stem != EXTERNAL and (sweep := self._model(path, Sweep))]

    def latest(self, track: str) -> Sweep | None:
        """Return the configuration of a track that was run last, or None."""
        return max(self.sweeps(track), key=lambda sweep: (sweep.number, sweep.finished), default=None)

    def keys_of(self, sweep: Sweep) -> list[str]:
        """Return the keys of the tasks behind a configuration, and of those that were imported."""
        imported = self.sweep(sweep.track, EXTERNAL)
        return [*sweep.cells.values(), *(imported.cells.values() if imported else ())]

    def sources(self, sweep: Sweep) -> str:
        """Return a digest of the tasks behind a configuration, without opening them."""
        return digest(sorted({*self.keys_of(sweep)}))

    def save_board(self, board: Board, numbers: Mapping[str, npt.NDArray[np.float32]] | None = None) -> Board:
        """Write the tables of a track and, before them, the scores of its comparisons; return the board."""
        file = f"boards/{_folder(board.track)}"
        if numbers:
            stored = self.put(f"{file}.safetensors", safetensors.numpy.save(dict(numbers)))
            board = board.model_copy(update={"numbers": stored})
        self._put_model(f"{file}.json", board)
        return board

    def numbers(self, board: Board) -> dict[str, npt.NDArray[np.float32]]:
        """Return the scores of a board's comparisons, verified."""
        if board.numbers is None:
            return {}
        return dict(safetensors.numpy.load(self._get(board.numbers)))

    def board(self, track: str) -> Board | None:
        """Return the tables of a track, or None; raises `StoreError` when they are damaged."""
        return self._model(self.root / "boards" / f"{_folder(track)}.json", Board)

    def ranked(self) -> list[str]:
        """Return the tracks that have tables."""
        return sorted(path.stem.replace("--", "/", 1) for path in (self.root / "boards").glob("*.json"))

    def tracks(self) -> list[str]:
        """Return the tracks that were run here."""
        folders = {path.parent.name for path in (self.root / "sweeps").glob("*/*.json") if path.stem != EXTERNAL}
        return sorted(name.replace("--", "/", 1) for name in folders)

    def documents(self, folder: str, model: type[M]) -> list[M]:
        """Return the JSON documents of a folder, by name; damaged ones are left out."""
        found = []
        for path in sorted((self.root / folder).glob("*.json")):
            with suppress(StoreError):
                found.append(self._model(path, model))
        return [document for document in found if document is not None]

    def path_of(self, file: StoredFile) -> Path:
        """Return where a stored file lies."""
        return self.root / file.file

    def _size(self, file: StoredFile) -> int:
        path = self.root / file.file
        with reading(path):
            return path.stat().st_size if path.exists() else -1

    def _put_model(self, file: str, content: BaseModel) -> None:
        self.put(file, content.model_dump_json(indent=1).encode())

    def put(self, file: str, content: bytes) -> StoredFile:
        """Write a file of the store, whole or not at all, and on the disk when this returns."""
        write_whole(self.root, file, content)
        return StoredFile(file=file, sha256=hashlib.sha256(content).hexdigest(), size=len(content))

    def _get(self, file: StoredFile) -> bytes:
        path = self.root / file.file
        try:
            with reading(path):
                content = path.read_bytes()
        except FileNotFoundError:
            raise StoreError(f"{path} is missing; run again to compute it anew") from None
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise StoreError(f"{path} is damaged: its sha256 is not the recorded one; run again to compute it anew")
        return content

    @staticmethod
    def _model(path: Path, model: type[M]) -> M | None:
        """Return what a file says, or None when there is no such file."""
        try:
            with reading(path):
                return model.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValidationError, ValueError):
            raise StoreError(f"{path} is no valid {model.__name__}; delete it to compute it again") from None


def _task(key: str) -> str:
    return f"tasks/{key[:2]}/{key}.json"


def _folder(track: str) -> str:
    return track.replace("/", "--")
