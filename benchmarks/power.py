"""Which share of the pairs of different entries a leaderboard separates, by its number of independent units.

The units of a finished store (that of ``HARNESS_STORE``, or ``store`` in this folder) stand for the population: two
entries differ if their means over all these units differ. Leaderboards of n units are simulated by drawing units from
the population with replacement. A leaderboard *separates* a pair if the interval of its difference, which holds for all
pairs at once, excludes 0.

*Clear* pairs differ by at least half the standard deviation of their differences on single units. *Large* pairs are
separated by most simulated leaderboards of ten times the units of the store. A leaderboard is *wrong* if it separates
any pair in the wrong direction.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.timing import Line
from imharness.documents.comparisons import Comparison
from imharness.documents.pairwise import groups_of, places, unit_gains, weights_of
from imharness.documents.stored import read_leaderboard, read_numbers
from imharness.errors import Unavailable
from imharness.results.store import Store
from imharness.statistics.differences import contributions, differences

Floats = npt.NDArray[np.float64]
SIZES = (5, 9, 16, 24, 36)
"""Numbers of units of the simulated leaderboards; that of the store is added."""
LEADERBOARDS, RESAMPLES = 40, 2_000
"""Simulated leaderboards for each number of units, and resamples for the intervals of each."""
CLEAR, WRONG = 0.5, 0.05
"""The least difference of clear pairs, in standard deviations, and the largest share of wrong leaderboards."""
LARGER, LARGE_LEADERBOARDS = 10, 5
"""To find large pairs: how many times the units of the store a leaderboard has, and how many are simulated."""


@dataclass(frozen=True)
class Power:
    """What simulated leaderboards separate.

    Attributes:
        differ: the mean share that is separated of the pairs that differ.
        clear: the same share of the clear pairs.
        large: the same share of the large pairs.
        wrong: the share of leaderboards that separate any pair in the wrong direction.
        pairs: the number of pairs that differ.
        clear_pairs: the number of clear pairs.
        large_pairs: the number of large pairs.
    """

    differ: float
    clear: float
    large: float
    wrong: float
    pairs: int
    clear_pairs: int
    large_pairs: int


def unit_values_of(comparison: Comparison, numbers: npt.NDArray[np.floating]) -> Floats:
    """Return what each independent unit adds to the mean of each complete entry, ``(entries, units)``."""
    where = places(comparison)
    _, names, clusters = where
    gains = unit_gains(groups_of(comparison, numbers, where), len(names))
    complete = [label not in comparison.incomplete for label in comparison.entries]
    return contributions(gains[complete], clusters, weights_of(comparison, where))


def power(unit_values: Floats, units: int, leaderboards: int = LEADERBOARDS, seed: int = 0) -> Power:
    """Return what leaderboards of `units` units separate; `unit_values` ``(entries, N)`` are the population."""
    rng, population = np.random.default_rng(seed), unit_values.shape[1]
    pairs = unit_values[:, None] - unit_values[None]  # (entries, entries, N)
    truth = np.nanmean(pairs, axis=2)
    differ = truth > 1e-12  # a pair counts once, with the better entry first
    clear = differ & (truth >= CLEAR * np.nanstd(pairs, axis=2, ddof=1))

    def separated(count: int) -> npt.NDArray[np.bool_]:
        """Return which entry a simulated leaderboard shows to be better than which other, ``(entries, entries)``."""
        drawn = rng.integers(0, population, count)
        return differences(unit_values[:, drawn], resamples=RESAMPLES).better

    times = sum(separated(LARGER * population).astype(int) for _ in range(LARGE_LEADERBOARDS))
    large = differ & (times > LARGE_LEADERBOARDS / 2)
    times_separated, wrong = np.zeros(truth.shape), 0
    for _ in range(leaderboards):
        better = separated(units)
        times_separated += better
        wrong += bool((better & (truth < -1e-12)).any())
    masks = (differ, clear, large)
    shares = [float(times_separated[mask].mean() / leaderboards) if mask.any() else np.nan for mask in masks]
    return Power(*shares, wrong / leaderboards, *(int(mask.sum()) for mask in masks))


def lines() -> list[Line]:
    """Return a line for each track of the store and each number of units."""
    folder = Path(os.environ.get("HARNESS_STORE", "store"))
    if not folder.exists():
        raise Unavailable(f"there is no store {folder}", "HARNESS_STORE=FOLDER python -m benchmarks power")
    store, results = Store(folder), []
    for track in store.tracks():
        leaderboard = read_leaderboard(store, track)
        if leaderboard is None or not leaderboard.rankings:
            continue
        numbers = read_numbers(store, leaderboard)
        comparison = next(c for c in leaderboard.comparisons if c.id == leaderboard.rankings[0].comparison)
        unit_values = unit_values_of(comparison, numbers[comparison.id])
        population = unit_values.shape[1]
        for units in sorted({*(size for size in SIZES if size < population), population}):
            result = power(unit_values, units)
            pairs = f"{result.pairs} that differ, {result.clear_pairs} clear and {result.large_pairs} large ones"
            shares = f"{result.differ:.0%}, {result.clear:.0%} and {result.large:.0%}"
            results.append(
                Line(
                    f"{track}, {units} units: pairs separated, of {pairs}",
                    f"{shares}; wrong on {result.wrong:.1%} of leaderboards",
                    f"wrong on at most {WRONG:.0%}",
                    result.wrong <= WRONG,
                )
            )
    return results
