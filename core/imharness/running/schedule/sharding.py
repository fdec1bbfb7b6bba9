"""Long cells in shards, so that no worker is left with one when all others have nothing to do."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running.executor import Executor, TaskResult
from imharness.running.shards import cell_of, forget_shards, key_of_join, keys_of_shards

SHORTEST_S = 30.0
"""What a shard is expected to take at least: each builds the components of its cell and loads its data set anew, s."""
FINEST = 16
"""And at least this part of the time that the run has still to go: shorter ones would not end it sooner."""
MOST = 256
"""So many shards at most has a cell."""


def number_of_shards(seconds: float, left_s: float) -> int:
    """Return into how many shards a cell is cut: a power of two, which changes seldom when estimates do; 1 for none.

    `seconds`: how long it is expected to take one worker. `left_s`: how long the run takes all workers from now on.
    """
    size = max(SHORTEST_S, left_s / FINEST)
    return 1 if seconds < 2 * size else min(MOST, 2 ** math.floor(math.log2(seconds / size)))


@dataclass
class _Cell:
    """A cell whose shards are computed: how many there are, and the keys of those that have not ended."""

    spec: TaskSpec
    of: int
    left: set[str]
    again: set[str] = field(default_factory=set)


class Sharded:
    """An `Executor` that has another one compute long cells in shards, and join them; its results are of whole cells.

    `split`: key -> into how many shards. A shard that fails, or whose worker ends twice, is left to the cell, which
    fails of it as one without shards does. `fresh`: what an earlier run left of a cell's shards is not used.
    """

    def __init__(self, inner: Executor, split: Callable[[str], int], store: Store, *, fresh: bool = False) -> None:
        self._inner, self._split, self._store, self._fresh = inner, split, store, fresh
        self._queue, self._cells = deque[tuple[str, TaskSpec]](), dict[str, _Cell]()

    @property
    def idle(self) -> int:
        return max(0, self._inner.idle - len(self._queue))

    @property
    def waiting(self) -> Iterable[str]:
        """Tasks that the other executor holds back, as far as it says so."""
        return [key for key in getattr(self._inner, "waiting", ()) if key == cell_of(key)]

    @property
    def shares(self) -> Mapping[str, float]:
        """What whole cells told the other executor of how far they are; of a cell in shards nothing is said."""
        told: Mapping[str, float] = getattr(self._inner, "shares", {})
        return {key: share for key, share in told.items() if key == cell_of(key)}

    def submit(self, key: str, spec: TaskSpec) -> None:
        of = self._split(key)
        if of < 2:
            self._inner.submit(key, spec)
            return
        if self._fresh:
            forget_shards(self._store, key)
        keys = keys_of_shards(key, of)
        self._cells[key] = _Cell(spec, of, set(keys))
        self._queue.extend((shard, spec) for shard in keys)
        self._fill()

    def reports(self, seconds: float) -> Iterable[TaskResult]:
        found = list[TaskResult]()
        for result in self._inner.reports(seconds):
            cell = self._cells.get(cell_of(result.key))
            if cell is None:
                found.append(result)
            elif result.status == "store" or not cell.left:
                del self._cells[cell_of(result.key)]
                found.append(TaskResult(cell_of(result.key), result.status, result.line))
            else:
                self._ended(cell, result.key, result.status)
        self._fill()
        return found

    def close(self) -> None:
        self._inner.close()

    def _ended(self, cell: _Cell, shard: str, status: Literal["done", "failed", "died", "store"]) -> None:
        """Take in that a shard ended; the last one makes room for the cell itself."""
        if status == "died" and shard not in cell.again:
            cell.again.add(shard)
            self._queue.appendleft((shard, cell.spec))
            return
        cell.left.discard(shard)
        if not cell.left:
            self._queue.appendleft((key_of_join(cell_of(shard), cell.of), cell.spec))

    def _fill(self) -> None:
        while self._queue and self._inner.idle:
            self._inner.submit(*self._queue.popleft())
