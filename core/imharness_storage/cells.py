"""Records of tasks by key, whether each is a file of its own or a part of a segment.

A file of its own is how a record is written first; it counts more than a segment with the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from imharness_errors import DamagedError
from imharness_storage.backend import Backend, in_parallel
from imharness_storage.files import StoredFile
from imharness_storage.segments import Segment, Segments

TASKS = "tasks"
_SUFFIX = ".json"
ALONE = -1
"""What `row_files` says of a file that has the rows of one task alone."""
SoundRecord = Callable[[str, bytes], bool]
"""Says whether a content is the whole record of a key."""


def task_file(key: str) -> str:
    """Return the name of the file that a record is written to."""
    return f"{TASKS}/{key[:2]}/{key}{_SUFFIX}"


class Survey:
    """One look at a store: few listings instead of a question for every task."""

    def __init__(self, backend: Backend, segments: Segments) -> None:
        self._backend, self._segments = backend, segments
        names = (name.rpartition("/")[2] for name in backend.sizes(TASKS))
        self.singles = {name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)}
        """Keys whose record is a file of its own."""
        self._sizes = {**backend.sizes("rows"), **backend.sizes("artifacts")}
        segments.refresh()  # after the files, so that what was packed in between is not missed

    def size(self, file: str) -> int:
        """Return the size of a file of rows or arrays, or -1 where there is none."""
        return self._sizes.get(file, -1)

    def keys(self) -> list[str]:
        """Return the keys of all records, sorted."""
        return sorted(self.singles | self._segments.places.keys())

    def packed(self, keys: Iterable[str]) -> tuple[set[str], list[str]]:
        """Return which of these keys are whole in segments alone, and a line for each that lacks its arrays."""
        whole, lines = set[str](), []
        for key in {*keys}.intersection(self._segments.places) - self.singles:
            place = self._segments.places[key]
            file, size = place.segment.arrays[place.cell], place.segment.arrays_sizes[place.cell]
            if not file or self.size(file) == size:
                whole.add(key)
            else:
                lines.append(f"{self._backend.address}/{file} is missing or truncated; it will be computed again")
        return whole, lines

    def contents(self, keys: Iterable[str], sound: SoundRecord) -> Iterator[tuple[str, bytes]]:
        """Yield the records of these keys, as they were written, in no particular order."""
        wanted = dict.fromkeys(keys)
        alone = [key for key in wanted if key in self.singles]
        left = [key for key in wanted if key not in self.singles]
        read = partial(_own, self._backend, sound)
        for key, content in zip(alone, in_parallel(read, alone, self._backend.at_once), strict=True):
            if content is None:  # it was packed since it was listed
                self._segments.find(key)
                left.append(key)
            else:
                yield key, content
        groups: dict[Segment, list[str]] = {}
        for key in left:
            if key in self._segments.places:
                groups.setdefault(self._segments.places[key].segment, []).append(key)
        for segment, group in groups.items():
            try:
                records = dict(zip(segment.keys, segment.records(), strict=True))
            except DamagedError:  # it became part of another since
                records = {key: found for key in group if (found := self._segments.record(key)) is not None}
            yield from ((key, records[key]) for key in group)


def _own(backend: Backend, sound: SoundRecord, key: str) -> bytes | None:
    return backend.get(task_file(key), partial(sound, key))


def one(backend: Backend, segments: Segments, sound: SoundRecord, key: str) -> bytes | None:
    """Return one record as it was written, or None where there is none."""
    content = _own(backend, sound, key)
    return segments.record(key) if content is None else content


def row_files(
    backend: Backend, segments: Segments, cells: Iterable[tuple[str, str, StoredFile]]
) -> list[tuple[Path, int]]:
    """Return for each cell the Parquet file on this machine that has its rows, and the number of the cell in it.

    A cell is its key, its seal and the file that its rows were written to. The rows of a cell in a segment are those
    whose column `_cell` is the number; a file of one task alone has no such column, and the number is `ALONE`.
    """

    def found(cell: tuple[str, str, StoredFile]) -> tuple[Path, int]:
        key, seal, file = cell
        place = segments.places.get(key)
        if place is not None and place.seal == seal:
            return place.segment.rows_path, place.cell
        return backend.path(file.file, file.sha256), ALONE

    wanted = list(cells)
    places = ((segments.places.get(key), seal) for key, seal, _ in wanted)
    used = {place.segment for place, seal in places if place is not None and place.seal == seal}
    list(in_parallel(lambda segment: segment.rows_path, used, backend.at_once))  # each is fetched once
    return list(in_parallel(found, wanted, backend.at_once))
