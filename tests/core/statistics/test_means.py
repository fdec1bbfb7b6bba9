"""Tests of means against zero, of skewed numbers and of right or wrong answers: simulated, and by other code."""

import numpy as np
import pytest
import scipy
from docs.coverage import held
from tests.recomputed import of_parts

from imharness.statistics.means import means, skewed_ends
from imharness.statistics.shares import likely, score_interval, score_needed


def bound(level: float, studies: int) -> float:
    """Return a level less 2.5 standard errors of its share among so many studies."""
    return level - 2.5 * np.sqrt(level * (1 - level) / studies)


@pytest.mark.parametrize(
    ("kind", "entries", "units"),
    [
        ("normal", 20, 5),
        ("normal", 3, 36),
        ("lognormal", 3, 36),
        ("lognormal", 20, 100),
        ("lost", 3, 300),
        ("swapped", 3, 100),
        ("correlations", 3, 36),
    ],
)
def test_means_of_0_are_told_from_0_in_at_most_5_percent_of_studies(kind: str, entries: int, units: int) -> None:
    assert held(kind, entries, units, studies=150, seed=1) >= bound(0.95, 150)


def test_score_intervals_are_those_of_tango() -> None:
    """The ends for a difference of paired proportions, by his closed form of the likeliest shares."""
    lost, won, n = 6, 1, 80
    numbers = np.array([-1.0] * lost + [1.0] * won + [0.0] * (n - lost - won))
    for end in score_interval(numbers, np.array([-1.0, 0.0, 1.0]), 2 * scipy.stats.norm.sf(2.2)):
        b = -won - lost + (2 * n - won + lost) * end
        only_lost = (np.sqrt(b * b + 8 * n * lost * end * (1 - end)) - b) / (4 * n)
        z = (won - lost - n * end) / np.sqrt(n * (2 * only_lost + end * (1 - end)))
        assert abs(z) == pytest.approx(2.2, abs=1e-6)


def test_the_likeliest_shares_have_the_asked_mean_and_no_others_are_likelier() -> None:
    counts, off = np.array([0, 3, 40, 0]), np.array([-0.95, 0.0, 0.05, 1.0]) - 0.01
    shares = likely(counts, off)
    assert (shares.sum(), shares @ off) == pytest.approx((1, 0), abs=1e-12)
    rng = np.random.default_rng(0)
    free = np.array([[1, 1, 1, 1], off])
    steps = scipy.linalg.null_space(free)
    for step in rng.normal(size=(200, 2)) * 1e-3:
        other = shares + steps @ step
        if (other >= 0).all():
            assert counts[1:3] @ np.log(other[1:3]) <= counts[1:3] @ np.log(shares[1:3]) + 1e-12


def test_without_a_loss_the_interval_still_has_two_ends() -> None:
    low, high = score_interval(np.full(20, 0.05), np.array([-0.95, 0.0, 0.05, 1.0]), 0.05)
    assert -0.95 < low < 0.05 < high < 1
    assert score_interval(np.full(9, 1.0), np.array([0.0, 1.0]), 0.05)[1] == 1.0


@pytest.mark.parametrize("k", [5, 13, 26, 37])
def test_an_entry_that_loses_every_answer_has_an_interval_although_rounding_puts_its_mean_outside(k: int) -> None:
    low, high = score_interval(np.full(k, -0.9), np.array([-0.9, 0.0, 0.1, 1.0]), 0.05)
    z = scipy.stats.norm.isf(0.025)
    assert low == -0.9
    assert high == pytest.approx((-0.9 * k + z**2) / (k + z**2))  # Wilson's end, of answers that are -0.9 or 1


def test_the_corrected_t_of_an_end_is_the_one_that_was_asked_for() -> None:
    sample = np.exp(np.random.default_rng(2).normal(size=30))
    skew, k = scipy.stats.skew(sample), len(sample)
    for end, wanted in zip(skewed_ends(sample, 2.3), (2.3, -2.3), strict=True):
        w = (sample.mean() - end) / sample.std()
        # the variance without Bessel's correction is Hall's; ours is wider by sqrt(k / (k - 1))
        w *= np.sqrt((k - 1) / k)
        t = np.sqrt(k) * (w + skew * w**2 / 3 + skew**2 * w**3 / 27 + skew / (6 * k))
        assert t == pytest.approx(wanted)


def test_numbers_without_skewness_have_student_s_interval_and_constants_that_of_a_share_of_none() -> None:
    sample = np.array([-1.0, 0.0, 1.0, -2.0, 2.0, 0.0])
    result = means([sample, np.full(6, 3.0), sample[:4]], 1)
    theirs = scipy.stats.ttest_1samp(sample, 0).confidence_interval()
    assert (result.low[0], result.high[0]) == pytest.approx((theirs.low, theirs.high))
    assert result.low[1] < 3 < result.high[1]
    assert np.isnan([result.low[2], result.high[2]]).all()


def test_units_that_all_have_the_same_number_need_as_many_as_their_interval_says() -> None:
    for k in (5, 12):
        result = means([np.full(k, 0.05), np.full(k, 2.0)], 1)
        n = result.needed_for(0)
        assert n is not None
        for count, expected in ((n, True), (n - 1, False)):
            assert means([np.full(count, 0.05), np.full(count, 2.0)], 1).above[0] == expected


@pytest.mark.parametrize("lost", [0.02, 0.1])
def test_with_as_many_answers_as_are_said_to_be_needed_four_of_five_studies_tell(lost: float) -> None:
    rng, values = np.random.default_rng(1), np.array([-0.95, 0.0, 0.05, 1.0])
    exact = np.repeat([0.05, -0.95, 0.0], [round(9000 * (1 - lost)), round(9000 * lost), 1000])
    n = score_needed(exact, values, 0.05 / 3)
    assert n is not None
    count = 0
    for _ in range(150):
        result = means([rng.choice(exact, n)], 3, [values])
        count += bool(result.above[0] if lost < 0.05 else result.below[0])
    assert 0.7 <= count / 150 <= 0.9


def test_answers_are_judged_as_by_code_that_shares_nothing_with_it() -> None:
    values, numbers = [-0.95, 0.0, 0.05, 1.0], np.repeat([-0.95, 0.0, 0.05], [4, 12, 104])
    result, wanted = means([numbers], 3, [values]), of_parts(numbers, 0.05 / 3, 1.0, values, skewed=True)
    assert (result.value[0], result.low[0], result.high[0]) == pytest.approx((wanted.value, wanted.low, wanted.high))
    assert result.needed_for(0) == wanted.needed


def test_no_number_of_units_that_are_needed_is_one_that_was_not_enough() -> None:
    """Student's t may tell skewed numbers from 0 where the t corrected for skewness, which decides, does not."""
    count = 0
    for seed in range(400):
        drawn = np.exp(np.random.default_rng(seed).normal(0, 1.2, 16)) - 1.0
        for sign in (1, -1):
            result = means([sign * drawn], 3)
            needed = result.needed_for(0)
            if not (result.above[0] or result.below[0]) and needed is not None:
                count += 1
                assert needed > 16
    assert count > 100
