"""Prints the table of docs/howto/official-board.md: what the official board can tell apart, from a demo's variances.

python docs/power.py STORE
"""

import sys
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from imharness.cli import console
from imharness.results.boards import Board
from imharness.results.comparisons import Comparison
from imharness.results.store import Store
from imharness.results.told import groups_of, places, unit_gains, weights_of
from imharness.statistics.differences import contributions
from imharness.statistics.power import smallest_shown

UNITS = {"harness/iqa": 117, "harness/membership": 16, "harness/perceptual": 300, "harness/reconstruction": 256}
"""Independent units of the profile `official`, by track."""


def main(address: str) -> None:
    """Print one line for each contest of a store's boards."""
    store = Store(address)
    console.say(
        "| contest | measure | pairs of entries | demo | the demo shows | official | the official board shows |"
    )
    console.say("|---|---|---|---|---|---|---|")
    for track in store.ranked():
        board = store.board(track)
        for line in _lines(store, board) if board is not None else ():
            console.say(line)


def _lines(store: Store, board: Board) -> Iterator[str]:
    numbers = store.numbers(board)
    for comparison in (own for own in board.comparisons if own.over):  # those that decide places
        parts = _parts(comparison, numbers[comparison.id])
        pairs = [parts[i] - parts[j] for i, j in combinations(range(len(parts)), 2)]
        pairs = [own for own in pairs if np.nanstd(own) > 0]
        if not pairs:
            continue
        known, planned = parts.shape[1], UNITS[board.track]
        unit = comparison.cluster_unit or comparison.unit
        tail = comparison.tail or 0.05
        shown = (_told([smallest_shown(own, n, tail) for own in pairs], comparison) for n in (known, planned))
        demo, official = shown
        many = f"{known} {unit}s | {demo} | {planned} {unit}s | {official}"
        yield f"| `{board.track}`, {comparison.title} | {comparison.measure} | {len(pairs)} | {many} |"


def _parts(comparison: Comparison, numbers: np.ndarray) -> np.ndarray:
    """Return what each independent unit contributes to the mean of each complete entry ``(entries, units)``."""
    where = places(comparison)
    kept = [i for i, label in enumerate(comparison.entries) if label not in comparison.incomplete]
    gains = unit_gains(groups_of(comparison, numbers, where), len(where[1]))[kept]
    return contributions(gains, where[2], weights_of(comparison, where))


def _told(found: list[float], comparison: Comparison) -> str:
    """Return the median and the largest of the smallest differences in words."""
    middle, most = (f"{value:.{comparison.decimals}f}" for value in (np.median(found), np.max(found)))
    return f"{middle} (hardest pair {most})"


if __name__ == "__main__":
    main(sys.argv[1])
