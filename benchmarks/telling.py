"""Which share of the pairs of entries that differ a board tells apart, by the number of independent units.

The units of a finished store (that of ``HARNESS_STORE``, or ``store`` in this folder) are taken for the population: two
entries differ if their means over all of them do. Boards of n units are drawn from it with replacement, and each is
judged by the simultaneous intervals that boards are made of. *Clear* pairs differ by at least half a standard deviation
of the differences of single units. *Large* pairs are those that boards of ten times the units of the store tell more
often than not. *Wrong* is the share of boards that tell any pair the other way round.
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
from imharness.results.store import Store
from imharness.results.told import groups_of, places, unit_gains, weights_of
from imharness.statistics.differences import contributions, differences

Floats = npt.NDArray[np.float64]
SIZES = (5, 9, 16, 24, 36)
BOARDS, RESAMPLES, CLEAR, WRONG = 40, 2_000, 0.5, 0.05
LARGER, LARGE_BOARDS = 10, 5
"""*Large* pairs: boards of so many times the units of the store tell them, and how many such boards are drawn."""


@dataclass(frozen=True)
class Told:
    """Shares of the pairs that differ, the clear and the large ones, that are told; of boards that tell any wrongly."""

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


def told(parts: Floats, units: int, boards: int = BOARDS, seed: int = 0) -> Told:
    """Return what boards of so many units tell, where `parts` ``(entries, units)`` are the population."""
    rng = np.random.default_rng(seed)
    apart = parts[:, None] - parts[None]
    truth = np.nanmean(apart, axis=2)
    differ = truth > 1e-12
    clear = differ & (truth >= CLEAR * np.nanstd(apart, axis=2, ddof=1))

    def better(many: int) -> npt.NDArray[np.bool_]:
        return differences(parts[:, rng.integers(0, parts.shape[1], many)], resamples=RESAMPLES).better

    often = sum(better(LARGER * parts.shape[1]).astype(int) for _ in range(LARGE_BOARDS))
    large = differ & (often > LARGE_BOARDS / 2)
    found, wrong = np.zeros(truth.shape), 0
    for _ in range(boards):
        own = better(units)
        found += own
        wrong += bool((own & (truth < -1e-12)).any())
    masks = (differ, clear, large)
    shares = [float(found[mask].mean() / boards) if mask.any() else np.nan for mask in masks]
    return Told(*shares, wrong / boards, *(int(mask.sum()) for mask in masks))


def lines() -> list[Line]:
    """Return a line for each track of the store and each number of units."""
    place = Path(os.environ.get("HARNESS_STORE", "store"))
    if not place.exists():
        raise Unavailable(f"there is no store {place}", "HARNESS_STORE=FOLDER python -m benchmarks telling")
    store, found = Store(place), []
    for track in store.tracks():
        board = store.board(track)
        if board is None or not board.rankings:
            continue
        numbers = store.numbers(board)
        own = next(c for c in board.comparisons if c.id == board.rankings[0].comparison)
        parts = parts_of(own, numbers[own.id])
        for units in sorted({*(n for n in SIZES if n < parts.shape[1]), parts.shape[1]}):
            got = told(parts, units)
            found.append(
                Line(
                    f"{track}, {units} units: pairs told, of {got.pairs} that differ, {got.clear_pairs} clear and "
                    f"{got.large_pairs} large ones",
                    f"{got.differ:.0%}, {got.clear:.0%} and {got.large:.0%}; wrong on {got.wrong:.1%} of boards",
                    f"wrong on at most {WRONG:.0%}",
                    got.wrong <= WRONG,
                )
            )
    return found
