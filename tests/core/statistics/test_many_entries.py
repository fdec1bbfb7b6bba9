"""Pairs of many entries: the same numbers as one pair at a time gives, in bounded memory."""

import numpy as np
import pytest

from imharness.statistics import win_rates as module
from imharness.statistics.clusters import clusters_greater, gaps_greater


@pytest.mark.parametrize("clustered", [False, True])
def test_rows_with_gaps_are_tested_as_each_alone(clustered: bool) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(0.2, 1, (12, 30)).round(1)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[3], rows[4] = np.nan, 0
    names = np.array([f"photograph {i % 7}" for i in range(30)]) if clustered else None
    p_values = gaps_greater(rows, names)
    for row, p in zip(rows, p_values, strict=True):
        finite = ~np.isnan(row)
        alone = clusters_greater(row[finite], None if names is None else names[finite])[0] if finite.any() else np.nan
        np.testing.assert_equal(p, alone)


def test_win_rates_do_not_depend_on_how_many_pairs_are_tested_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [np.random.default_rng(c).normal(np.arange(9)[:, None] / 3, 1, (9, 20)) for c in range(3)]
    whole = module.win_rates(scores, higher_wins=True)
    monkeypatch.setattr(module, "AT_ONCE", 50)
    in_batches = module.win_rates(scores, higher_wins=True)
    np.testing.assert_array_equal(whole.rate, in_batches.rate)
    np.testing.assert_array_equal(whole.tested, in_batches.tested)
