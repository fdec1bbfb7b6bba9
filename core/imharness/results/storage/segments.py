"""Segments: a few thousand finished cells of one step in two Parquet files, instead of two files for each cell.

::

    segments/<track>/<step>/<sha256>.rows.parquet     rows of the cells, one after the other; `_cell` numbers the cells
    segments/<track>/<step>/<sha256>.index.parquet    a line for each cell, with its record as it was written

The name of each is the sha256 of its content. The index is written last and names the file of rows. If a cell is in
several segments, the one that was started last counts.

Segments are replaced by larger ones while other processes read. The new segment is written before the old ones are
removed, so that a reader who misses a file looks again and finds its content elsewhere.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from imharness.errors import DamagedError
from imharness.results.disk import reading
from imharness.results.storage.backend import Backend, in_parallel, sha256_of

T = TypeVar("T")
FOLDER = "segments"
INDEX, ROWS = ".index.parquet", ".rows.parquet"
CELL = "_cell"
RECORDS_AT_ONCE = 256
"""Records in a row group of an index, all of which are read to get one of them."""
ROWS_AT_ONCE = 1 << 17
_FACTS = ("key", "seal", "started", "arrays", "arrays_size", "start", "n_rows")


@dataclass(frozen=True)
class Cell:
    """A finished cell. `record` is its file, byte for byte; `arrays` names its file of arrays, or is ""."""

    key: str
    seal: str
    started: str
    record: bytes
    rows: pa.Table | None
    arrays: str
    arrays_size: int


class Segment:
    """A segment of the store. `facts` are the columns of its index except the records."""

    def __init__(self, backend: Backend, name: str) -> None:
        """Read the index; raises `DamagedError` if it is not what was written."""
        self._backend, self.name = backend, name
        self._index = backend.path(name, digest_in(name))
        _verify(self._index, name)
        with _opened(self._index) as file:
            self.facts = file.read(columns=list(_FACTS))
        said = json.loads((self.facts.schema.metadata or {}).get(b"rows", b"{}"))
        self.rows_name, self.rows_size = str(said.get("file", "")), int(said.get("size", 0))
        self.keys: list[str] = self.facts["key"].to_pylist()
        self.seals: list[str] = self.facts["seal"].to_pylist()
        self.started: list[str] = self.facts["started"].to_pylist()
        self.arrays: list[str] = self.facts["arrays"].to_pylist()
        self.arrays_sizes: list[int] = self.facts["arrays_size"].to_pylist()

    def records(self) -> list[bytes]:
        """Return the records of all cells."""
        with _opened(self._index) as file:
            found: list[bytes] = file.read(columns=["record"])["record"].to_pylist()
        return found

    def record(self, cell: int) -> bytes:
        """Return the record of a cell."""
        with _opened(self._index) as file:
            group = file.read_row_group(cell // RECORDS_AT_ONCE, columns=["record"])
        found: bytes = group["record"][cell % RECORDS_AT_ONCE].as_py()
        return found

    @cached_property
    def rows_path(self) -> Path:
        """The path of the rows of all cells on this machine."""
        return self._backend.path(self.rows_name, digest_in(self.rows_name))

    @cached_property
    def _rows_checked(self) -> Path:
        _verify(self.rows_path, self.rows_name)
        return self.rows_path

    def verify_rows(self) -> None:
        """Read the rows again; raises `DamagedError` if they are not what was written."""
        if self.rows_name:
            _verify(self._backend.path(self.rows_name, digest_in(self.rows_name)), self.rows_name)

    def rows(self, cell: int) -> pa.Table:
        """Return the rows of a cell, verified."""
        start, count = self.facts["start"][cell].as_py(), self.facts["n_rows"][cell].as_py()
        first = start // ROWS_AT_ONCE
        with _opened(self._rows_checked) as file:
            found = file.read_row_groups(list(range(first, (start + count - 1) // ROWS_AT_ONCE + 1)))
        return found.slice(start - first * ROWS_AT_ONCE, count).drop_columns([CELL])


class Place(NamedTuple):
    """Where a cell is: its segment, and its number in it."""

    segment: Segment
    cell: int

    @property
    def seal(self) -> str:
        return self.segment.seals[self.cell]

    def has_rows(self, seal: str, sha256: str) -> bool:
        """Return whether the rows with this sha256, from the task with this seal or another run of it, are here."""
        if self.seal == seal:
            return True
        rows = json.loads(self.segment.record(self.cell)).get("rows")
        return rows is not None and rows["sha256"] == sha256


class Segments:
    """The segments of a store that are known so far; `refresh` looks for others. Threads may share it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: dict[str, Segment] = {}
        self._lock = Lock()
        self.places: Mapping[str, Place] = {}
        """Key -> where the cell is; after every change this is another object."""
        self.damaged: Mapping[str, str] = {}
        """Name of a damaged index -> what is wrong with it."""

    @property
    def all(self) -> list[Segment]:
        """The segments that are known."""
        return list(self._known.values())

    def refresh(self) -> None:
        """Look for segments that have been written or removed since.

        A listing may miss both a segment that is being removed and the one that replaces it. So the listing is repeated
        until two in succession agree and all their segments could be opened.
        """
        with self._lock:
            names, whole = self._listed(), False
            while not whole:
                whole, listed = self._took(names), names
                names = self._listed()
                whole &= names == listed

    def _listed(self) -> set[str]:
        return {name for name in self._backend.sizes(FOLDER) if name.endswith(INDEX)}

    def _took(self, names: set[str]) -> bool:
        """Open the segments of a listing, and return whether all were still there."""
        new, gone = sorted(names - self._known.keys()), self._known.keys() - names
        if not new and not gone:
            self.damaged = {}
            return True
        kept = {name: segment for name, segment in self._known.items() if name not in gone}
        damaged, whole = dict[str, str](), True
        places = {} if gone else dict(self.places)
        looked_at = set() if gone else set(kept)
        for name, segment in zip(new, in_parallel(self._open, new, self._backend.at_once), strict=True):
            if isinstance(segment, Segment):
                kept[name] = segment
            elif self._backend.size(name) >= 0:
                damaged[name] = segment
            else:  # it has become part of another since the listing
                whole = False
        self.damaged = damaged
        if kept.keys() == self._known.keys():
            return whole
        for name in kept.keys() - looked_at:
            segment = kept[name]
            for cell, (key, started) in enumerate(zip(segment.keys, segment.started, strict=True)):
                other = places.get(key)
                if other is None or (other.segment.started[other.cell], other.segment.name) <= (started, name):
                    places[key] = Place(segment, cell)
        self._known, self.places = kept, places
        return whole

    def _open(self, name: str) -> Segment | str:
        """Return a segment, or what is wrong with it."""
        try:
            segment = Segment(self._backend, name)
        except DamagedError as error:
            return str(error)
        if not segment.rows_name or self._backend.size(segment.rows_name) == segment.rows_size:
            return segment
        return f"{self._backend.address}/{segment.rows_name} is missing or truncated"

    def find(self, key: str, fits: Callable[[Place], bool] = lambda place: True) -> Place | None:
        """Return the place of a key if it fits, looking for other segments if necessary."""
        while True:
            places = self.places
            place = places.get(key)
            try:
                if place is not None and fits(place):
                    return place
            except DamagedError:
                if not self.moved_on(places):
                    raise
                continue
            if not self.moved_on(places):
                return None

    def moved_on(self, places: Mapping[str, Place]) -> bool:
        """Return whether the places have changed, looking for other segments if necessary."""
        if self.places is places:
            self.refresh()
        return self.places is not places  # another thread may have looked in the meantime

    def record(self, key: str) -> bytes | None:
        """Return the record of a cell as it was written, or None if no segment has it."""
        return self._read(key, lambda place: True, lambda place: place.segment.record(place.cell))

    def rows(self, key: str, seal: str, sha256: str) -> pa.Table | None:
        """Return the rows of a cell, verified, or None if no segment has them; see `Place.has_rows`."""
        return self._read(key, lambda place: place.has_rows(seal, sha256), lambda place: place.segment.rows(place.cell))

    def _read(self, key: str, fits: Callable[[Place], bool], read: Callable[[Place], T]) -> T | None:
        """Return what `read` returns for the place of a key, again if its segment has become part of another."""
        while True:
            places = self.places
            place = self.find(key, fits)
            try:
                return None if place is None else read(place)
            except DamagedError:
                if not self.moved_on(places):
                    raise


def write_segment(backend: Backend, folder: str, cells: Sequence[Cell]) -> str:
    """Write cells whose rows have one schema as a segment in `folder`, a track and a step; return its name."""
    counts = np.array([0 if cell.rows is None else cell.rows.num_rows for cell in cells], dtype=np.int64)
    tables = [cell.rows for cell in cells if cell.rows is not None]
    said: dict[str, object] = {}
    if tables:
        numbers = pa.array(np.repeat(np.arange(len(cells), dtype=np.int32), counts))
        packed = _packed(pa.concat_tables(tables).append_column(CELL, numbers), ROWS_AT_ONCE)
        said = {"file": f"{FOLDER}/{folder}/{sha256_of(packed)}{ROWS}", "size": len(packed)}
        backend.put(str(said["file"]), packed)
    index = pa.table(
        {
            "key": [cell.key for cell in cells],
            "seal": [cell.seal for cell in cells],
            "started": [cell.started for cell in cells],
            "arrays": [cell.arrays for cell in cells],
            "arrays_size": pa.array([cell.arrays_size for cell in cells], pa.int64()),
            "start": np.cumsum(counts) - counts,
            "n_rows": counts,
            "record": pa.array([cell.record for cell in cells], pa.large_binary()),
        }
    ).replace_schema_metadata({"rows": json.dumps(said)})
    content = _packed(index, RECORDS_AT_ONCE)
    name = f"{FOLDER}/{folder}/{sha256_of(content)}{INDEX}"
    backend.put(name, content)
    return name


def _packed(table: pa.Table, group: int) -> bytes:
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", row_group_size=group)
    return content.getvalue()


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with reading(path), pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing") from None


def digest_in(name: str) -> str:
    """Return the sha256 in the name of a segment's file."""
    return name.rpartition("/")[2].partition(".")[0]


def _verify(path: Path, name: str) -> None:
    try:
        with reading(path), path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing") from None
    if found != digest_in(name):
        raise DamagedError(f"{path} is damaged: its name is not its sha256; its cells must be computed again")
