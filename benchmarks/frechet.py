"""The Frechet distance, compared with pytorch-fid, which takes the square root of a matrix."""

import time
from collections.abc import Callable

import numpy as np
import scipy.linalg

from benchmarks.timing import Line, best_of
from imharness_reconstruction.frechet import frechet_distance, trace_of_root

DIMENSIONS = 2048
EPS = 1e-6


def lines() -> list[Line]:
    """Return the speed for the trace of the root of two covariances, and for the distance between small samples."""
    return [_trace(4096, 7), _small_samples(500, 100)]


def _features(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    return rng.normal(size=(rows, DIMENSIONS)), 0.1 + 1.2 * rng.normal(size=(rows, DIMENSIONS))


def _line(what: str, goal: float, ours: Callable[[], float], theirs: Callable[[], float]) -> Line:
    took = best_of(2, ours)
    start = time.perf_counter()
    expected = theirs()
    ratio = (time.perf_counter() - start) / took
    return Line(what, f"{ratio:.0f}x, off by {abs(ours() / expected - 1):.1e}", f">= {goal:g}x", ratio >= goal)


def _trace(rows: int, goal: float) -> Line:
    first, second = (np.cov(x, rowvar=False) for x in _features(rows))
    what = f"Trace of the root of two covariances of {DIMENSIONS} features: times faster than the matrix root"
    return _line(what, goal, lambda: trace_of_root(first, second), lambda: _trace_by_root(first, second))


def _small_samples(rows: int, goal: float) -> Line:
    x, y = _features(rows)

    def published() -> float:
        first, second = (np.cov(z, rowvar=False) + EPS * np.eye(DIMENSIONS) for z in (x, y))
        trace = np.trace(first + second) - 2 * _trace_by_root(first, second)
        return float(np.square(x.mean(0) - y.mean(0)).sum() + trace)

    what = f"Frechet distance, {rows} rows of {DIMENSIONS}: times faster than pytorch-fid (which adds eps)"
    return _line(what, goal, lambda: frechet_distance(x, y), published)


def _trace_by_root(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.trace(scipy.linalg.sqrtm(first @ second)).real)
