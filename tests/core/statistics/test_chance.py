"""The test whether guesses tell members from others: seldom significant by chance, always for who knows."""

import numpy as np
import pytest

from imharness.statistics import NotTestable
from imharness.statistics.chance import beyond_chance


def test_chance_is_seldom_significant_and_few_who_know_are_found() -> None:
    draw, member = np.random.default_rng(0), np.arange(200) < 100
    guessed = [beyond_chance(draw.normal(size=200), draw.permutation(member)) for _ in range(400)]
    assert np.mean(np.array(guessed) < 0.05) < 0.06
    assert beyond_chance(np.where(member, 1.0, -1.0), member) < 1e-30
    by_order = np.where(member, -1.0, -2.0)
    assert beyond_chance(by_order, member) < 1e-30, "the order tells, although all are called non-members"
    some = np.where(draw.random(200) < 0.4, np.where(member, 1.0, -1.0), draw.normal(size=200))
    assert beyond_chance(some, member) < 0.001


def test_who_says_the_same_of_all_or_is_always_wrong_knows_nothing() -> None:
    member = np.arange(40) < 20
    assert beyond_chance(np.ones(40), member) == 1
    assert beyond_chance(np.where(member, -1.0, 1.0), member) == 1


@pytest.mark.parametrize(
    ("score", "member"),
    [([1.0, 2.0], [True, True]), ([1.0], [True, False]), ([1.0, np.nan], [True, False])],
)
def test_what_cannot_be_tested(score: list[float], member: list[bool]) -> None:
    with pytest.raises(NotTestable):
        beyond_chance(score, member)
