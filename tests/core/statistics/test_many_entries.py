"""Pairs of many entries: the same numbers as one pair at a time gives, in bounded memory."""

import numpy as np
import pytest

from imharness.statistics import win_rates as module
from imharness.statistics.clusters import clusters_greater, gaps_greater
from imharness_leaderboard.comparison_pictures import _tied_runs


@pytest.mark.parametrize("clustered", [False, True])
def test_rows_with_gaps_are_tested_as_each_alone(clustered: bool) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(0.2, 1, (12, 30)).round(1)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[3], rows[4] = np.nan, 0
    names = np.array([f"photograph {i % 7}" for i in range(30)]) if clustered else None
    found = gaps_greater(rows, names)
    for row, p in zip(rows, found, strict=True):
        known = ~np.isnan(row)
        alone = clusters_greater(row[known], None if names is None else names[known])[0] if known.any() else np.nan
        np.testing.assert_equal(p, alone)


def test_win_rates_do_not_depend_on_how_many_pairs_are_tested_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [np.random.default_rng(c).normal(np.arange(9)[:, None] / 3, 1, (9, 20)) for c in range(3)]
    whole = module.win_rates(scores, higher_wins=True)
    monkeypatch.setattr(module, "AT_ONCE", 50)
    parts = module.win_rates(scores, higher_wins=True)
    np.testing.assert_array_equal(whole.rate, parts.rate)
    np.testing.assert_array_equal(whole.tested, parts.tested)


def test_runs_of_ties_are_those_that_no_pair_breaks() -> None:
    """Against the definition: runs of neighbours without a winner that no longer run holds."""
    for seed in range(30):
        beats = np.random.default_rng(seed).random((9, 9)) < 0.06
        beats[np.diag_indices(9)] = False
        runs = [(a, b) for a in range(9) for b in range(a + 1, 9) if not beats[a : b + 1, a : b + 1].any()]
        longest = [(a, b) for a, b in runs if not any((c <= a and b <= d) and (c, d) != (a, b) for c, d in runs)]
        assert _tied_runs(beats) == longest


def test_two_thousand_tied_entries_are_one_run() -> None:
    assert _tied_runs(np.zeros((2000, 2000), dtype=bool)) == [(0, 1999)]
