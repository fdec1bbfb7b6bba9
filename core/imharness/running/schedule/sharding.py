"""Cuts long tasks into shards, so that no worker is left with one while all others have nothing to do."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from imharness.results.store import Store
from imharness.results.tasks import TaskSpec
from imharness.running.executor import Executor, TaskResult, idle_for
from imharness.running.shards import forget_shards, key_of_join, keys_of_shards, task_of

SHORTEST_S = 30.0
"""The shortest time that is worth a shard, s: each builds the components of its task and loads its data set again."""
FINEST = 16
"""A shard also takes at least this part of the time that the run has left: shorter ones would not end it sooner."""
MOST = 256
"""A task has at most this many shards."""


def number_of_shards(seconds: float, left_s: float) -> int:
    """Return into how many shards a task is cut: a power of two, which seldom changes when estimates do; 1: uncut.

    `seconds`: how long one worker is expected to take. `left_s`: how long all workers need for the rest of the run.
    """
    size = max(SHORTEST_S, left_s / FINEST)
    return 1 if seconds < 2 * size else min(MOST, 2 ** math.floor(math.log2(seconds / size)))


@dataclass
class _Task:
    """A task whose shards are being computed: how many there are, and the keys of those that have not ended."""

    spec: TaskSpec
    of: int
    pending: set[str]
    again: set[str] = field(default_factory=set)


class Sharded:
    """An `Executor` that lets another executor compute long tasks in shards; it reports results of whole tasks.

    Args:
        inner: the other executor.
        split: key of a task -> into how many shards it is cut.
        store: where shards are kept until their task is done.
        fresh: whether shards that an earlier run left are removed instead of used.

    When all shards of a task have ended, the task itself joins them and computes what failed shards lack; a shard whose
    worker dies is tried once more. So a task fails here if it would fail without shards.
    """

    def __init__(self, inner: Executor, split: Callable[[str], int], store: Store, *, fresh: bool = False) -> None:
        self._inner, self._split, self._store, self._fresh = inner, split, store, fresh
        self._queue, self._tasks = deque[tuple[str, TaskSpec]](), dict[str, _Task]()

    @property
    def idle(self) -> int:
        return max(0, self._inner.idle - len(self._queue))

    def idle_for(self, track: str) -> int:
        """How many tasks of a track can be submitted; a shard waits only where no worker is free for it."""
        return 0 if any(spec.track == track for _, spec in self._queue) else idle_for(self._inner, track)

    @property
    def waiting(self) -> Iterable[str]:
        """Tasks that the other executor holds back, if it says so."""
        return [key for key in getattr(self._inner, "waiting", ()) if key == task_of(key)]

    @property
    def shares(self) -> Mapping[str, float]:
        """Key -> the computed share of a running task, as the other executor knows it; tasks in shards are missing."""
        shares: Mapping[str, float] = getattr(self._inner, "shares", {})
        return {key: share for key, share in shares.items() if key == task_of(key)}

    def submit(self, key: str, spec: TaskSpec) -> None:
        of = self._split(key)
        if of < 2:
            self._inner.submit(key, spec)
            return
        if self._fresh:
            forget_shards(self._store, key)
        keys = keys_of_shards(key, of)
        self._tasks[key] = _Task(spec, of, set(keys))
        self._queue.extend((shard, spec) for shard in keys)
        self._fill()

    def reports(self, seconds: float) -> Iterable[TaskResult]:
        results = list[TaskResult]()
        for result in self._inner.reports(seconds):
            task = self._tasks.get(task_of(result.key))
            if task is None:
                results.append(result)
            elif result.status == "store" or not task.pending:
                del self._tasks[task_of(result.key)]
                results.append(TaskResult(task_of(result.key), result.status, result.line))
            else:
                self._ended(task, result.key, result.status)
        self._fill()
        return results

    def close(self) -> None:
        self._inner.close()

    def _ended(self, task: _Task, shard: str, status: Literal["done", "failed", "died", "store"]) -> None:
        """Note that a shard has ended; after the last one the task itself can start."""
        if status == "died" and shard not in task.again:
            task.again.add(shard)
            self._queue.appendleft((shard, task.spec))
            return
        task.pending.discard(shard)
        if not task.pending:
            self._queue.appendleft((key_of_join(task_of(shard), task.of), task.spec))

    def _fill(self) -> None:
        queue, self._queue = self._queue, deque()
        for key, spec in queue:
            if idle_for(self._inner, spec.track):
                self._inner.submit(key, spec)
            else:
                self._queue.append((key, spec))
