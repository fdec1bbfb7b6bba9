"""All entries against each other: simulated studies with known truth, and closed forms."""

import numpy as np
import pytest
import scipy
from docs.coverage import ENTRIES, KINDS, covered, study

from imharness.statistics import differences as module
from imharness.statistics.differences import alpha_of, contributions, differences, units_needed, unseen

RESAMPLES = 400
"""Enough for a quantile of many studies in the mean; a leaderboard has 10,000."""


@pytest.mark.parametrize("units", [5, 6, 8, 9, 12, 20, 40])
@pytest.mark.parametrize("kind", ["normal", "lognormal", "discrete"])
def test_all_intervals_cover_at_once_as_often_as_they_say(kind: str, units: int) -> None:
    """Nominal 95 %: between 93 and 97 %, give or take 2.5 standard errors of 250 studies.

    Few discrete units may cover more: twice as many standard errors.
    """
    share, chance = covered(kind, ENTRIES, units, studies=250, resamples=RESAMPLES), 2.5 * np.sqrt(0.05 * 0.95 / 250)
    assert 0.93 - chance <= share
    assert share <= 0.97 + chance * (1 + (kind == "discrete" and units < 9))


@pytest.mark.parametrize("kind", ["normal", "ties"])
def test_equal_entries_are_told_apart_in_few_studies(kind: str) -> None:
    """Seven entries that differ by chance alone, in half of the units not at all where there are ties."""
    rng, wrong, studies = np.random.default_rng(1), 0, 300
    for _ in range(studies):
        gains = rng.normal(size=(7, 10)) if kind == "normal" else rng.integers(0, 2, (7, 10)) / 2
        wrong += differences(gains, resamples=RESAMPLES).better.any()
    assert wrong / studies <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / studies)


@pytest.mark.parametrize(("effect", "alpha"), [(0.6, 0.05), (1.0, 0.003), (0.4, 0.005)])
def test_the_number_of_units_that_is_said_to_be_needed_has_the_power_that_is_said(effect: float, alpha: float) -> None:
    n = units_needed(effect, alpha)
    d = np.random.default_rng(n).normal(effect, 1, (4000, n))
    low = scipy.stats.ttest_1samp(d, 0, axis=1).confidence_interval(1 - alpha).low
    assert (low > 0).mean() == pytest.approx(0.8, abs=0.03)


def test_at_the_number_that_a_study_says_others_tell_the_difference_as_often() -> None:
    """Six entries, the first ahead by 0.9 standard deviations of a difference: 1.27 where one entry has deviation 1."""
    rng = np.random.default_rng(4)
    pilot = [differences(study("normal", 6, 30, rng)[0] + 1.27 * np.eye(6)[0][:, None]) for _ in range(5)]
    nearest = pilot[int(np.argsort([abs(trial.value[0, 1] - 1.27) for trial in pilot])[0])]
    n = units_needed(1.27 / np.sqrt(2), nearest.alpha)
    verdicts = [
        differences(study("normal", 6, n, rng)[0] + 1.27 * np.eye(6)[0][:, None], resamples=RESAMPLES).better[0, 1]
        for _ in range(200)
    ]
    assert 0.7 <= np.mean(verdicts) <= 0.9


def test_an_entry_that_is_behind_needs_no_number_of_units() -> None:
    result = differences(np.random.default_rng(0).normal(size=(2, 12)) + np.array([[1.0], [0.0]]))
    assert result.needed(1, 0) is None
    assert result.needed(0, 1) is not None
    assert units_needed(1e-3, 0.05) is None


def test_intervals_are_those_of_student_at_a_common_level() -> None:
    gains = np.random.default_rng(3).normal(size=(4, 12))
    result = differences(gains)
    for i, j in ((0, 1), (2, 3), (3, 0)):
        wanted = scipy.stats.ttest_1samp(gains[i] - gains[j], 0).confidence_interval(1 - result.alpha)
        assert (result.low[i, j], result.high[i, j]) == pytest.approx((wanted.low, wanted.high))
    assert 0.05 / 6 / 2 < result.alpha < 0.05
    assert np.isnan(np.diag(result.value)).all()
    one = differences(gains[:2])
    assert one.alpha == pytest.approx(0.05, rel=0.5)


def test_places_count_what_is_told_and_ties_share_one() -> None:
    base = np.random.default_rng(0).normal(size=(1, 40))
    gains = base + np.array([[2.0], [2.0], [0.0]]) + 0.1 * np.random.default_rng(1).normal(size=(3, 40))
    result = differences(gains)
    assert sorted(result.place(i) for i in range(3)) == [1, 2, 3]
    assert [result.places(i) for i in range(3)] == [(1, 2), (1, 2), (3, 3)]
    same = differences(np.tile(base, (3, 1)))
    assert [same.place(i) for i in range(3)] == [1, 1, 1]
    assert [same.places(i) for i in range(3)] == [(1, 3)] * 3


def test_no_interval_has_no_width_where_numbers_vary() -> None:
    """Two of the entries are the same on every unit, and one is ahead by the same everywhere."""
    gains = np.vstack([np.random.default_rng(0).normal(size=(1, 8))] * 3) + np.array([[0.0], [0.0], [1.0]])
    result = differences(gains)
    assert result.value_range == pytest.approx(1)
    assert differences(gains[:1]).value_range == np.abs(gains[0]).max()
    half = unseen(result.alpha, 8) * (result.value_range + np.abs(result.value))
    apart = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose((result.high - result.low)[apart], 2 * half[apart])
    assert (half[apart] > 0).all()
    assert not result.better.any()  # eight units that agree leave room for many that do not
    many = differences(np.repeat(gains, 5, axis=1))
    assert many.better.tolist() == [[False] * 3, [False] * 3, [True, True, False]]
    assert unseen(0.05, 10) == pytest.approx(scipy.stats.binomtest(0, 10).proportion_ci(0.95).high)


def test_few_units_tell_nothing() -> None:
    result = differences(np.arange(12.0).reshape(3, 4))
    assert np.isnan(result.low[0, 1])
    assert not result.better.any()
    assert [result.places(i) for i in range(3)] == [(1, 3)] * 3


def test_clusters_weights_and_gaps_count_as_they_should() -> None:
    rng = np.random.default_rng(5)
    gains, names = rng.normal(size=(3, 24)), np.arange(24) % 8
    by_cluster = differences(gains, names)
    plain = differences(gains.reshape(3, 3, 8).mean(axis=1))
    np.testing.assert_allclose(by_cluster.low[0, 1:], plain.low[0, 1:])
    weights = rng.uniform(1, 2, 24)
    assert differences(gains, names, weights).value[0, 1] == pytest.approx(
        np.average(gains[0] - gains[1], None, weights)
    )
    gains[1, :6] = np.nan
    result = differences(gains)
    assert result.value[0, 1] == pytest.approx((gains[0] - gains[1])[6:].mean())
    assert (result.units[0, 1], result.units[0, 2]) == (18, 24)
    assert differences(gains, names).value[0, 1] == pytest.approx(result.value[0, 1])
    gains[1] = np.nan
    assert np.isnan(differences(gains).value[0, 1])
    assert differences(gains).alpha == differences(gains[[0, 2]]).alpha


def test_contributions_have_the_mean_and_the_spread_of_a_ratio() -> None:
    """Clusters of unequal size: the standard error agrees with that of the mean of all units in many draws of them."""
    rng, sizes = np.random.default_rng(6), np.array([1, 2, 3, 4] * 15)
    names, averages, errors = np.repeat(np.arange(60), sizes), [], []
    for _ in range(400):
        x = np.repeat(rng.normal(size=60), sizes) + rng.normal(size=len(names))
        shares = contributions(x[None], names)
        assert shares.mean() == pytest.approx(x.mean())
        averages.append(x.mean())
        errors.append(shares.std(ddof=1) / np.sqrt(60))
    assert np.mean(errors) == pytest.approx(np.std(averages), rel=0.1)


def test_many_units_are_resampled_in_batches_and_many_entries_are_corrected_by_their_number() -> None:
    numbers = np.random.default_rng(7).normal(size=(5, 1000))
    assert alpha_of(numbers) == pytest.approx(alpha_of(numbers[:, :100]), rel=0.15)
    many = np.random.default_rng(7).normal(size=(module.MANY + 1, 9))
    assert alpha_of(many, resamples=10) == pytest.approx(0.05 / (201 * 100))


def test_the_same_numbers_give_the_same_intervals_and_seeds_hardly_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = np.random.default_rng(8).normal(size=(6, 9))
    assert differences(gains).alpha == differences(gains).alpha
    before = module.quantile(differences(gains).alpha, 9)
    monkeypatch.setattr(module, "_AT_ONCE", 5000)  # other resamples
    assert module.quantile(differences(gains).alpha, 9) == pytest.approx(before, rel=0.03)


def test_every_kind_of_study_has_the_means_that_it_says() -> None:
    rng = np.random.default_rng(10)
    for kind in KINDS:
        gains, truth = study(kind, 4, 200_000, rng)
        np.testing.assert_allclose(gains.mean(axis=1), truth, rtol=0.03, atol=0.03)
