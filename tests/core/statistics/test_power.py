"""Simulated power agrees with the noncentral t where units are normal, and with studies that are simulated in full."""

import numpy as np
import pytest
from scipy import stats

from imharness.statistics.differences import POWER, quantile
from imharness.statistics.power import smallest_shown


@pytest.mark.parametrize(("units", "alpha"), [(9, 0.05), (24, 0.01), (128, 0.002)])
def test_normal_units_have_the_power_of_the_noncentral_t(units: int, alpha: float) -> None:
    sample = stats.norm.ppf((np.arange(4000) + 0.5) / 4000) * 3 + 5
    smallest = smallest_shown(sample, units, alpha, studies=20_000)
    power = stats.nct.sf(quantile(alpha, units), units - 1, smallest / 3 * np.sqrt(units))
    assert power == pytest.approx(POWER, abs=0.02)


def test_skewed_units_are_shown_as_often_as_it_says() -> None:
    sample = np.random.default_rng(1).exponential(size=40)
    smallest = smallest_shown(sample, 30, 0.05)
    rng = np.random.default_rng(2)
    centred = (sample - sample.mean()) * np.sqrt(40 / 39)
    verdicts = [stats.ttest_1samp(rng.choice(centred, 30) + smallest, 0).pvalue < 0.05 for _ in range(2000)]
    assert np.mean(verdicts) == pytest.approx(POWER, abs=0.03)


def test_four_times_the_units_show_half_the_difference() -> None:
    sample = np.random.default_rng(0).normal(size=50)
    assert smallest_shown(sample, 400, 0.05) == pytest.approx(smallest_shown(sample, 100, 0.05) / 2, rel=0.1)
    assert np.isnan(smallest_shown([1.0, np.nan], 10, 0.05))
    assert smallest_shown([2.0, 2.0, 2.0], 10, 0.05) == 0
