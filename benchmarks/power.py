"""Which share of the pairs of entries that differ a leaderboard separates, by the number of independent units.

The units of a finished store (that of ``HARNESS_STORE``, or ``store`` in this folder) are taken for the population: two
entries differ if their means over all of them do. Leaderboards of n units are drawn from it with replacement, and each
is judged by the simultaneous intervals that leaderboards are made of. *Clear* pairs differ by at least half a standard
deviation of the differences of single units. *Large* pairs are those that leaderboards of ten times the units of the
store tell more often than not. *Wrong* is the share of leaderboards that tell any pair the other way round.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.timing import Line
from imharness.errors import Unavailable
from imharness.results.comparisons import Comparison
from imharness.results.pairwise import groups_of, places, unit_gains, weights_of
from imharness.results.store import Store
from imharness.statistics.differences import contributions, differences

Floats = npt.NDArray[np.float64]
SIZES = (5, 9, 16, 24, 36)
LEADERBOARDS, RESAMPLES, CLEAR, WRONG = 40, 2_000, 0.5, 0.05
LARGER, LARGE_LEADERBOARDS = 10, 5
"""*Large* pairs: leaderboards of so many times the units of the store tell them, and how many such are drawn."""


@dataclass(frozen=True)
class Power:
    """Shares of pairs that differ, clear and large ones, that are shown; of leaderboards with a wrong one."""

    differ: float
    clear: float
    large: float
    wrong: float
    pairs: int
    clear_pairs: int
    large_pairs: int


def parts_of(comparison: Comparison, numbers: npt.NDArray[np.floating]) -> Floats:
    """Return what each independent unit adds to the mean of each complete entry, ``(entries, units)``."""
    where = places(comparison)
    gains = unit_gains(groups_of(comparison, numbers, where), len(where[1]))
    complete = [label not in comparison.incomplete for label in comparison.entries]
    return contributions(gains[complete], where[2], weights_of(comparison, where))


def told(unit_values: Floats, units: int, leaderboards: int = LEADERBOARDS, seed: int = 0) -> Power:
    """Return what leaderboards of so many units tell, where `unit_values` ``(entries, units)`` are the population."""
    rng = np.random.default_rng(seed)
    apart = unit_values[:, None] - unit_values[None]
    truth = np.nanmean(apart, axis=2)
    differ = truth > 1e-12
    clear = differ & (truth >= CLEAR * np.nanstd(apart, axis=2, ddof=1))

    def better(many: int) -> npt.NDArray[np.bool_]:
        return differences(unit_values[:, rng.integers(0, unit_values.shape[1], many)], resamples=RESAMPLES).better

    often = sum(better(LARGER * unit_values.shape[1]).astype(int) for _ in range(LARGE_LEADERBOARDS))
    large = differ & (often > LARGE_LEADERBOARDS / 2)
    detections, wrong = np.zeros(truth.shape), 0
    for _ in range(leaderboards):
        detected = better(units)
        detections += detected
        wrong += bool((detected & (truth < -1e-12)).any())
    masks = (differ, clear, large)
    shares = [float(detections[mask].mean() / leaderboards) if mask.any() else np.nan for mask in masks]
    return Power(*shares, wrong / leaderboards, *(int(mask.sum()) for mask in masks))


def lines() -> list[Line]:
    """Return a line for each track of the store and each number of units."""
    folder = Path(os.environ.get("HARNESS_STORE", "store"))
    if not folder.exists():
        raise Unavailable(f"there is no store {folder}", "HARNESS_STORE=FOLDER python -m benchmarks power")
    store, results = Store(folder), []
    for track in store.tracks():
        leaderboard = store.leaderboard(track)
        if leaderboard is None or not leaderboard.rankings:
            continue
        numbers = store.numbers(leaderboard)
        comparison = next(c for c in leaderboard.comparisons if c.id == leaderboard.rankings[0].comparison)
        unit_values = parts_of(comparison, numbers[comparison.id])
        for units in sorted({*(n for n in SIZES if n < unit_values.shape[1]), unit_values.shape[1]}):
            got = told(unit_values, units)
            results.append(
                Line(
                    f"{track}, {units} units: pairs told, of {got.pairs} that differ, {got.clear_pairs} clear and "
                    f"{got.large_pairs} large ones",
                    f"{got.differ:.0%}, {got.clear:.0%} and {got.large:.0%}; wrong on {got.wrong:.1%} of leaderboards",
                    f"wrong on at most {WRONG:.0%}",
                    got.wrong <= WRONG,
                )
            )
    return results
