"""Records of tasks by key, whether each is a file of its own or a part of a segment.

A record is first written as a file of its own, which takes precedence over a segment with the same key. Other processes
may pack cells while they are read; what has disappeared is looked for again until nothing moves any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from imharness.errors import DamagedError
from imharness.results.storage.backend import Backend, in_parallel
from imharness.results.storage.files import Files, StoredFile
from imharness.results.storage.segments import CELL, Place, Segment, Segments

TASKS = "tasks"
_SUFFIX = ".json"
ALONE = -1
"""The number that `row_files` gives to a file with the rows of only one task."""
SoundRecord = Callable[[str, bytes], bool]
"""(key, content) -> whether the content is the complete record of the key."""


def task_file(key: str) -> str:
    """Return the name of the file that a record is written to."""
    return f"{TASKS}/{key[:2]}/{key}{_SUFFIX}"


class Survey:
    """A view of a store that takes a few listings instead of a request for every task."""

    def __init__(self, backend: Backend, segments: Segments) -> None:
        self._backend, self._segments = backend, segments
        names = (name.rpartition("/")[2] for name in backend.sizes(TASKS))
        self.singles = {name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)}
        """The keys whose record is a file of its own."""
        self._sizes = {**backend.sizes("rows"), **backend.sizes("artifacts")}
        segments.refresh()  # after the files, so that cells packed in between are not missed

    def size(self, file: str) -> int:
        """Return the size of a file of rows or arrays in bytes, or -1 if there is none."""
        return self._sizes.get(file, -1)

    def keys(self) -> list[str]:
        """Return the keys of all records, sorted."""
        return sorted(self.singles | self._segments.places.keys())

    def packed(self, keys: Iterable[str]) -> tuple[set[str], list[str]]:
        """Return which of these keys are only in segments and complete, and a line for each that lacks its arrays."""
        whole, lines, places = set[str](), [], self._segments.places
        for key in {*keys}.intersection(places) - self.singles:
            segment, cell = places[key]
            file, size = segment.arrays[cell], segment.arrays_sizes[cell]
            if not file or self.size(file) == size or self._backend.size(file) == size:
                whole.add(key)
            else:
                lines.append(f"{self._backend.address}/{file} is missing or truncated; it will be computed again")
        return whole, lines

    def contents(self, keys: Iterable[str], sound: SoundRecord) -> Iterator[tuple[str, bytes]]:
        """Yield the records of these keys, as they were written, in no particular order.

        A key that is in no listing is requested by name, because a listing may miss a file that is being rewritten.
        """
        wanted, places = dict.fromkeys(keys), self._segments.places
        alone = [key for key in wanted if key in self.singles or key not in places]
        left = [key for key in wanted if key not in self.singles and key in places]
        read, packed = partial(_own, self._backend, sound), len(left)
        for key, content in zip(alone, in_parallel(read, alone, self._backend.at_once), strict=True):
            if content is None:  # it has been packed since the listing
                left.append(key)
            else:
                yield key, content
        if len(left) > packed:
            self._segments.refresh()
        while left:
            places, groups = self._segments.places, dict[Segment, list[str]]()
            for key in places.keys() & left:
                groups.setdefault(places[key].segment, []).append(key)
            left = []
            for segment, group in groups.items():
                try:
                    records = dict(zip(segment.keys, segment.records(), strict=True))
                except DamagedError:
                    if not self._segments.moved_on(places):
                        raise
                    left += group
                else:
                    yield from ((key, records[key]) for key in group)


def _own(backend: Backend, sound: SoundRecord, key: str) -> bytes | None:
    return backend.get(task_file(key), partial(sound, key))


def one(backend: Backend, segments: Segments, sound: SoundRecord, key: str) -> bytes | None:
    """Return one record as it was written, or None if there is none."""
    content = _own(backend, sound, key)
    return segments.record(key) if content is None else content


def lost(
    backend: Backend,
    segments: Segments,
    cell: tuple[str, str, StoredFile | None, StoredFile | None],
    size: Callable[[str], int],
) -> str:
    """Return a line on the first file of a cell that is missing or truncated, or "".

    `cell` is (key, seal, rows, arrays). `size` gives the sizes of files from a listing, -1 if there is none; a size
    that does not fit is requested again.
    """
    key, seal, rows, arrays = cell
    for file in (rows, arrays):
        if file is None or size(file.file) == file.size:
            continue
        place = segments.places.get(key)
        if file is rows and place is not None and place.seal == seal:
            continue
        if backend.size(file.file) == file.size:
            continue
        if file is not rows or segments.find(key, lambda place: place.has_rows(seal, rows.sha256)) is None:
            return f"{backend.address}/{file.file} is missing or truncated; it will be computed again"
    return ""


def table(files: Files, segments: Segments, key: str, seal: str, file: StoredFile) -> pa.Table:
    """Return the rows that the cell with this seal wrote to a file, verified; raises `DamagedError`."""
    place = segments.places.get(key)
    if place is not None and place.seal == seal:
        found = segments.rows(key, seal, file.sha256)
        if found is not None:
            return found
    try:
        content = files.content(file)
    except DamagedError:
        found = segments.rows(key, seal, file.sha256)
        if found is not None:
            return found
        content = files.content(file)  # it has been computed again since
    with pq.ParquetFile(pa.BufferReader(content)) as opened:  # `read_table` makes a data set first: five times as long
        return opened.read()


def row_files(
    backend: Backend, segments: Segments, cells: Iterable[tuple[str, str, StoredFile]]
) -> dict[str, tuple[Path, int]]:
    """Return key -> the Parquet file on this machine with the rows of the cell, and the number of the cell in it.

    A cell is (key, seal, file that its rows were written to). The rows of a cell in a segment have this number in the
    column `_cell`. A file of only one task has no such column, and the number is `ALONE`. If the place is a folder, a
    file may have disappeared when it is read; then call this function again.
    """
    wanted = list(cells)
    while True:
        places = segments.places
        try:
            return dict(zip((key for key, _, _ in wanted), _row_files(backend, places, wanted), strict=True))
        except DamagedError:
            if not segments.moved_on(places):
                raise


def _row_files(
    backend: Backend, places: Mapping[str, Place], wanted: list[tuple[str, str, StoredFile]]
) -> list[tuple[Path, int]]:
    def packed(cell: tuple[str, str, StoredFile]) -> Place | None:
        key, seal, file = cell
        place = places.get(key)
        if place is None or place.seal == seal:
            return place
        gone = backend.size(file.file) != file.size
        return place if gone and place.has_rows(seal, file.sha256) else None

    def found(cell: tuple[tuple[str, str, StoredFile], Place | None]) -> tuple[Path, int]:
        (_, _, file), place = cell
        if place is not None:
            return place.segment.rows_path, place.cell
        return backend.path(file.file, file.sha256), ALONE

    at = list(map(packed, wanted))
    used = {place.segment for place in at if place is not None}
    list(in_parallel(lambda segment: segment.rows_path, used, backend.at_once))  # so that each is fetched once
    return list(in_parallel(found, zip(wanted, at, strict=True), backend.at_once))


def sql_of_rows(files: Iterable[tuple[Path, int]]) -> str:
    """Return the SQL that reads the files of tasks (see `row_files`); the column `_cell` says which cell a row is of.

    Files with the same columns are read together, so that the columns of only one of them are read at each use.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for path, cell in dict(files).items():
        select = f"SELECT *, {ALONE} AS {CELL}" if cell == ALONE else "SELECT *"
        quoted = "'" + str(path).replace("'", "''") + "'"
        alike.setdefault((select, pq.read_schema(path).to_string()), []).append(quoted)
    return " UNION ALL BY NAME ".join(
        f"{select} FROM read_parquet([{', '.join(own)}], filename = true)" for (select, _), own in alike.items()
    )
