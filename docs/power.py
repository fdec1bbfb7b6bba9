"""Prints the table of docs/howto/official-leaderboard.md: the smallest differences that an official run can show.

    python docs/power.py STORE

STORE holds a demo run. The variances of its entries' differences say which difference the demo could just show, and
which one a run with the units of the profile `official` could show, for each pair of entries.
"""

import sys
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from imharness.cli import console
from imharness.documents.comparisons import Comparison
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.pairwise import groups_of, places, unit_gains, weights_of
from imharness.documents.stored import read_leaderboard, read_numbers
from imharness.results.store import Store
from imharness.statistics.differences import contributions
from imharness.statistics.power import smallest_shown

UNITS = {"harness/iqa": 117, "harness/membership": 16, "harness/perceptual": 300, "harness/reconstruction": 256}
"""Track -> the number of independent units, such as photographs, of the profile `official`."""


def main(address: str) -> None:
    """Print one line for each contest of a store's leaderboards."""
    store = Store(address)
    console.say(
        "| track | measure | pairs of entries | units, demo, official | the demo shows | the official one shows |"
    )
    console.say("|---|---|---|---|---|---|")
    for track in store.ranked():
        leaderboard = read_leaderboard(store, track)
        for line in _lines(store, leaderboard) if leaderboard is not None else ():
            console.say(line)


def _lines(store: Store, leaderboard: Leaderboard) -> Iterator[str]:
    """Yield a line of the table for each comparison that decides places."""
    numbers = read_numbers(store, leaderboard)
    for comparison in _deciding(leaderboard):
        unit_values = _unit_values(comparison, numbers[comparison.id])
        differences = [first - second for first, second in combinations(unit_values, 2)]
        differences = [difference for difference in differences if np.nanstd(difference) > 0]
        if not differences:
            continue
        demo_units, official_units = unit_values.shape[1], UNITS[leaderboard.track]
        alpha = comparison.pairwise_alpha or 0.05
        demo, official = (
            _in_words([smallest_shown(difference, units, alpha) for difference in differences], comparison)
            for units in (demo_units, official_units)
        )
        name = leaderboard.track.removeprefix("harness/")
        units = f"{comparison.cluster_unit or comparison.unit}s, {demo_units}, {official_units}"
        yield f"| `{name}` | {comparison.measure} | {len(differences)} | {units} | {demo} | {official} |"


def _deciding(leaderboard: Leaderboard) -> Iterator[Comparison]:
    """Yield the first comparison that decides places, and the first of each other measure, if it has as many units."""
    deciding = [candidate for candidate in leaderboard.comparisons if candidate.over]
    first_of_measure = {comparison.measure: comparison for comparison in reversed(deciding)}
    for comparison in reversed(first_of_measure.values()):
        if _number_of_units(comparison) == _number_of_units(deciding[0]):
            yield comparison


def _number_of_units(comparison: Comparison) -> int:
    _, names, _ = places(comparison)
    return len(names)


def _unit_values(comparison: Comparison, numbers: np.ndarray) -> np.ndarray:
    """Return what each independent unit contributes to the mean of each complete entry ``(entries, units)``."""
    where = places(comparison)
    _, names, clusters = where
    complete = [i for i, label in enumerate(comparison.entries) if label not in comparison.incomplete]
    gains = unit_gains(groups_of(comparison, numbers, where), len(names))[complete]
    return contributions(gains, clusters, weights_of(comparison, where))


def _in_words(smallest: list[float], comparison: Comparison) -> str:
    """Return the median over pairs of the smallest difference that can be shown, and the largest."""
    middle, most = (f"{value:.{comparison.decimals}f}" for value in (np.median(smallest), np.max(smallest)))
    return f"{middle} (hardest {most})"


if __name__ == "__main__":
    main(sys.argv[1])
