"""Prints the table of docs/howto/official-leaderboard.md: which differences it can show, from a demo's variances.

python docs/power.py STORE
"""

import sys
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from imharness.cli import console
from imharness.results.comparisons import Comparison
from imharness.results.leaderboards import Leaderboard
from imharness.results.pairwise import groups_of, places, unit_gains, weights_of
from imharness.results.store import Store
from imharness.statistics.differences import contributions
from imharness.statistics.power import smallest_shown

UNITS = {"harness/iqa": 117, "harness/membership": 16, "harness/perceptual": 300, "harness/reconstruction": 256}
"""Independent units of the profile `official`, by track."""


def main(address: str) -> None:
    """Print one line for each contest of a store's leaderboards."""
    store = Store(address)
    console.say(
        "| track | measure | pairs of entries | units, demo, official | the demo shows | the official one shows |"
    )
    console.say("|---|---|---|---|---|---|")
    for track in store.ranked():
        leaderboard = store.leaderboard(track)
        for line in _lines(store, leaderboard) if leaderboard is not None else ():
            console.say(line)


def _lines(store: Store, leaderboard: Leaderboard) -> Iterator[str]:
    numbers = store.numbers(leaderboard)
    for comparison in _deciding(leaderboard):
        unit_values = _parts(comparison, numbers[comparison.id])
        pairs = [unit_values[i] - unit_values[j] for i, j in combinations(range(len(unit_values)), 2)]
        pairs = [difference for difference in pairs if np.nanstd(difference) > 0]
        if not pairs:
            continue
        unit_count, planned = unit_values.shape[1], UNITS[leaderboard.track]
        unit = comparison.cluster_unit or comparison.unit
        alpha = comparison.pairwise_alpha or 0.05
        texts = (
            _told([smallest_shown(difference, n, alpha) for difference in pairs], comparison)
            for n in (unit_count, planned)
        )
        demo, official = texts
        many = f"{unit}s, {unit_count}, {planned} | {demo} | {official}"
        name = leaderboard.track.removeprefix("harness/")
        yield f"| `{name}` | {comparison.measure} | {len(pairs)} | {many} |"


def _deciding(leaderboard: Leaderboard) -> Iterator[Comparison]:
    """Yield the first comparison that decides places, and those of other measures over as many units."""
    deciding = [candidate for candidate in leaderboard.comparisons if candidate.over]
    firsts = {comparison.measure: comparison for comparison in reversed(deciding)}
    for comparison in reversed(firsts.values()):
        if len(places(comparison)[1]) == len(places(deciding[0])[1]):
            yield comparison


def _parts(comparison: Comparison, numbers: np.ndarray) -> np.ndarray:
    """Return what each independent unit contributes to the mean of each complete entry ``(entries, units)``."""
    where = places(comparison)
    complete = [i for i, label in enumerate(comparison.entries) if label not in comparison.incomplete]
    gains = unit_gains(groups_of(comparison, numbers, where), len(where[1]))[complete]
    return contributions(gains, where[2], weights_of(comparison, where))


def _told(smallest: list[float], comparison: Comparison) -> str:
    """Return the median and the largest of the smallest differences in words."""
    middle, most = (f"{value:.{comparison.decimals}f}" for value in (np.median(smallest), np.max(smallest)))
    return f"{middle} (hardest {most})"


if __name__ == "__main__":
    main(sys.argv[1])
