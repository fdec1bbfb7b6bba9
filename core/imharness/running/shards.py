"""Computes a task that takes long in shards, by several workers, and joins them.

A task works through pieces one after the other: batches of images, groups of models. A shard computes some of these
pieces as they are, so that its numbers are bit for bit those that the task alone would get. The task then joins the
results of its shards, and computes itself what a shard could not. Its key, rows and record are the same with and
without shards.

The key that a worker is given says what to compute: ``<key>.2-8`` is the third of eight shards of a task,
``<key>.all-8`` joins all eight, ``<key>`` is the task without shards. Until the task is done, its shards are kept in
``shards/ab/<key>/``.
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
"""The name of the array with the seconds that a shard took."""
DIGEST = 64
"""The length of the beginning of a file: the sha256 of the rest, in hexadecimal digits."""
P = TypeVar("P")
Columns = Mapping[str, npt.NDArray[Any]]


class ShardDone(BaseException):
    """Ends the step in a shard when its pieces are computed and stored; the rest of the step is for the whole task."""


def keys_of_shards(task: str, of: int) -> list[str]:
    """Return the keys of the shards of a task."""
    return [f"{task}.{number}-{of}" for number in range(of)]


def key_of_join(task: str, of: int) -> str:
    """Return the key with which a worker joins the shards of a task."""
    return f"{task}.{ALL}-{of}"


def task_of(key: str) -> str:
    """Return the key of the task that a key belongs to."""
    return key.partition(".")[0]


class Shards:
    """What a worker computes of a task, as its key says.

    `seconds` is how long the joined shards took. `made_with` gives versions and device; a shard that was made with
    others is not joined.
    """

    def __init__(self, store: Files, key: str, made_with: Callable[[], Mapping[str, str]] = dict) -> None:
        self.task, _, suffix = key.partition(".")
        number, _, of = suffix.partition("-")
        self._store, self._of, self._made_with = store, int(of or 1), made_with
        self._number, self._shared = int(number) if number.isdigit() else None, False
        self._started, self.seconds = time.perf_counter(), 0.0

    @property
    def partial(self) -> bool:
        """Whether this worker computes only one shard of the task."""
        return self._number is not None

    def joined(self, pieces: Sequence[P], compute: Callable[[Sequence[P]], Sequence[Columns]]) -> dict[str, Any]:
        """Return what `compute` gives for all pieces, joined row by row; raises `ShardDone` in a shard.

        `compute` takes successive pieces and returns columns for each; a piece may lack some columns. Only the first
        call for a task is shared.
        """
        if self._shared:
            return _joined(compute(pieces))
        self._shared = True
        groups = [pieces[len(pieces) * n // self._of : len(pieces) * (n + 1) // self._of] for n in range(self._of)]
        if self._number is not None:
            group = groups[self._number]
            if group and self._read(self._number) is None:
                self._write(self._number, _joined(compute(group)))
            raise ShardDone
        columns = list[Columns]()
        for number, group in enumerate(groups):
            if group:
                stored = self._read(number) if self._of > 1 else None
                columns += compute(group) if stored is None else [stored]
        return _joined(columns)

    def forget(self) -> None:
        """Remove the shards that were joined."""
        if self._of > 1:
            forget_shards(self._store, self.task)

    def _name(self, number: int) -> str:
        made_with = sha256_of(repr(sorted(self._made_with().items())).encode())
        return f"{_folder(self.task)}/{number}-{self._of}-{made_with[:16]}.safetensors"

    def _write(self, number: int, columns: Columns) -> None:
        numbered = {f"{index:04} {name}": column for index, (name, column) in enumerate(columns.items())}
        took = np.array([time.perf_counter() - self._started])
        content = safetensors.numpy.save({**numbered, SECONDS: took})
        self._store.backend.put(self._name(number), sha256_of(content).encode() + content)

    def _read(self, number: int) -> Columns | None:
        """Return the result of a shard, or None if it is missing or damaged."""
        content = self._store.backend.get(self._name(number), _is_sound)
        if content is None or not _is_sound(content):
            return None
        columns = dict(safetensors.numpy.load(content[DIGEST:]))
        self.seconds += float(columns.pop(SECONDS)[0])
        return {name.partition(" ")[2]: columns[name] for name in sorted(columns)}  # the file does not keep their order


def forget_shards(store: Files, task: str) -> None:
    """Remove all shards of a task."""
    for name in store.backend.sizes(_folder(task)):
        store.backend.delete(name)


def _folder(task: str) -> str:
    return f"{FOLDER}/{task[:2]}/{task}"


def _is_sound(content: bytes) -> bool:
    return content[:DIGEST] == sha256_of(content[DIGEST:]).encode()


def _joined(chunks: Sequence[Columns]) -> dict[str, npt.NDArray[Any]]:
    names = dict.fromkeys(name for chunk in chunks for name in chunk)
    return {name: np.concatenate([chunk[name] for chunk in chunks if name in chunk]) for name in names}
