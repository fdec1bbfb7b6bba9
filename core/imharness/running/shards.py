"""A cell that takes long, computed in shards by several workers, and joined.

A cell works through pieces one after the other: batches of images, groups of models. A shard computes some of them,
whole ones, so that its numbers are to the bit those that the cell alone would get; the cell then joins what its shards
left, and computes what one of them could not. Its key, rows and record are the same with shards or without.

The key that a worker is given says which it is: ``<key>.2-8`` is the third of eight shards of a cell, ``<key>.all-8``
joins all eight, ``<key>`` has none. Until the cell is done its shards lie in ``shards/ab/<key>/``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from imharness.results.storage.backend import sha256_of
from imharness.results.storage.files import Files

FOLDER = "shards"
ALL = "all"
SECONDS = "seconds of the shard"
"""The array that tells how long a shard took."""
DIGEST = 64
"""What a file begins with: the sha256 of the rest, as hexadecimal digits."""
P = TypeVar("P")
Columns = Mapping[str, npt.NDArray[Any]]


class ShardDone(BaseException):
    """Ends the step of a shard, whose pieces are computed and stored: what else a step does is for the whole cell."""


def keys_of_shards(cell: str, of: int) -> list[str]:
    """Return the keys of the shards of a cell."""
    return [f"{cell}.{number}-{of}" for number in range(of)]


def key_of_join(cell: str, of: int) -> str:
    """Return the key by which a worker joins the shards of a cell."""
    return f"{cell}.{ALL}-{of}"


def cell_of(key: str) -> str:
    """Return the key of the cell that a key belongs to."""
    return key.partition(".")[0]


class Shards:
    """What a worker computes of a cell, by the key that it is given. `seconds`: what shards took that it joined.

    `made_with`: versions and device; a shard that was made with others is not joined.
    """

    def __init__(self, store: Files, key: str, made_with: Callable[[], Mapping[str, str]] = dict) -> None:
        self.cell, _, part = key.partition(".")
        number, _, of = part.partition("-")
        self._store, self._of, self._made_with = store, int(of or 1), made_with
        self._number, self._shared = int(number) if number.isdigit() else None, False
        self._started, self.seconds = time.perf_counter(), 0.0

    @property
    def partial(self) -> bool:
        """Whether this worker computes one shard of the cell, and not the cell."""
        return self._number is not None

    def joined(self, pieces: Sequence[P], compute: Callable[[Sequence[P]], Sequence[Columns]]) -> dict[str, Any]:
        """Return what `compute` gives for all pieces, joined row by row; raises `ShardDone` in a shard.

        `compute` takes neighbouring pieces and returns columns for each, of which one may lack some. Only the first
        call for a cell is shared.
        """
        if self._shared:
            return _joined(compute(pieces))
        self._shared = True
        parts = [pieces[len(pieces) * n // self._of : len(pieces) * (n + 1) // self._of] for n in range(self._of)]
        if self._number is not None:
            own = parts[self._number]
            if own and self._read(self._number) is None:
                self._write(self._number, _joined(compute(own)))
            raise ShardDone
        found = list[Columns]()
        for number, own in enumerate(parts):
            if own:
                stored = self._read(number) if self._of > 1 else None
                found += compute(own) if stored is None else [stored]
        return _joined(found)

    def forget(self) -> None:
        """Remove what was joined."""
        if self._of > 1:
            forget_shards(self._store, self.cell)

    def _name(self, number: int) -> str:
        made_with = sha256_of(repr(sorted(self._made_with().items())).encode())
        return f"{_folder(self.cell)}/{number}-{self._of}-{made_with[:16]}.safetensors"

    def _write(self, number: int, found: Columns) -> None:
        numbered = {f"{place:04} {name}": column for place, (name, column) in enumerate(found.items())}
        took = np.array([time.perf_counter() - self._started])
        content = safetensors.numpy.save({**numbered, SECONDS: took})
        self._store.backend.put(self._name(number), sha256_of(content).encode() + content)

    def _read(self, number: int) -> Columns | None:
        """Return what a shard left; None where it is not there or damaged."""
        content = self._store.backend.get(self._name(number), _is_sound)
        if content is None or not _is_sound(content):
            return None
        found = dict(safetensors.numpy.load(content[DIGEST:]))
        self.seconds += float(found.pop(SECONDS)[0])
        return {name.partition(" ")[2]: found[name] for name in sorted(found)}  # a file does not keep their order


def forget_shards(store: Files, cell: str) -> None:
    """Remove all shards of a cell."""
    for name in store.backend.sizes(_folder(cell)):
        store.backend.delete(name)


def _folder(cell: str) -> str:
    return f"{FOLDER}/{cell[:2]}/{cell}"


def _is_sound(content: bytes) -> bool:
    return content[:DIGEST] == sha256_of(content[DIGEST:]).encode()


def _joined(chunks: Sequence[Columns]) -> dict[str, npt.NDArray[Any]]:
    names = dict.fromkeys(name for chunk in chunks for name in chunk)
    return {name: np.concatenate([chunk[name] for chunk in chunks if name in chunk]) for name in names}
