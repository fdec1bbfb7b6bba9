"""What a work is, and how it is timed."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Run = Callable[[], object]
ROUNDS, SHORTEST, LONG = 5, 0.02, 0.5
"""Times that each takes its turn, and seconds of CPU that a turn lasts at least; from `LONG` on two turns do."""


@dataclass(frozen=True)
class Contest:
    """Ours and the peers, ready to run. Each returns an array, or what becomes one.

    `tolerance`: largest difference of the results, as a share of the largest absolute value of the peer's;
    infinite where nothing can be compared, as between two random searches.
    `compared`: what is compared of a result.
    """

    ours: Run
    peers: Mapping[str, Run]
    tolerance: float
    compared: Callable[[np.ndarray], np.ndarray] = np.asarray


@dataclass(frozen=True)
class Work:
    """A work by name; `prepare` imports the peers and draws the data."""

    name: str
    what: str
    prepare: Callable[[], Contest]


class Outcome(NamedTuple):
    """Seconds of ours, the fastest peer with its seconds, and the difference of the two results."""

    ours: float
    peer: str
    theirs: float
    difference: float
    tolerance: float


def measured(contest: Contest) -> Outcome:
    """Time all in turns, the shortest turn of each counting, and compare results with the fastest peer."""
    runs = {"": contest.ours, **contest.peers}
    results = {name: np.asarray(contest.compared(np.asarray(run()))) for name, run in runs.items()}
    first = {name: _seconds(run, 1) for name, run in runs.items()}
    repeats = {name: max(1, int(SHORTEST / max(taken, 1e-6))) for name, taken in first.items()}
    turns: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(2 if max(first.values()) > LONG else ROUNDS):
        for name, run in runs.items():
            turns[name].append(_seconds(run, repeats[name]))
    best = {name: min(taken) for name, taken in turns.items()}
    peer = min(contest.peers, key=best.__getitem__)
    gap = np.abs(results[""].astype(np.float64) - results[peer]).max() / max(np.abs(results[peer]).max(), 1e-300)
    return Outcome(best[""], peer, best[peer], float(gap), contest.tolerance)


def _seconds(run: Run, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - start) / repeats
