"""Intervals of defenses whose splits share pools of rows and references, on simulated accuracies."""

import numpy as np
import pytest

from imharness.leaderboard import Blocks, Column, Contest, nested_interval, t_interval
from imharness_membership.tables.choice import Parts, over_strongest, strongest
from imharness_membership.tables.contest import _protection, words_of
from imharness_membership.tables.rates import figures_at
from imharness_membership.tables.splits import POOL

SPLITS, POOLS, SPREAD = 16, 3, 0.01
STUDIES, EVALUATORS = 2000, 3
EITHER = {"adaptive": ("adaptive", "fixed")}


def simulated(
    truth: dict[str, float], share: float, seed: int = 0, luck: float = 0.0, among: int = EVALUATORS
) -> Parts:
    """Return accuracies of equally strong evaluators; each study is an entry of the blocks, as if it were a defense.

    Args:
        truth: data set -> the accuracy in the population.
        share: how much of a split's variance all splits of its pool have in common.
        luck: the standard deviation of what each evaluator gains by chance on all splits of a pool.
        among: the number of evaluators.
    """
    rng, pool = np.random.default_rng(0), np.arange(SPLITS) % POOLS
    places, accuracies = [], []
    for dataset, mean in truth.items():
        common = np.sqrt(share) * rng.normal(size=(STUDIES, POOLS))[:, pool]
        split = mean + SPREAD * (common + np.sqrt(1 - share) * rng.normal(size=(STUDIES, SPLITS)))
        for k in range(among):
            places.append({"dataset": dataset, "model": "x/model", "evaluator": f"x/{k:02}", "attacker": "adaptive"})
            noise = luck * rng.normal(size=(STUDIES, POOLS))[:, pool] + 0.004 * rng.normal(size=split.shape)
            accuracies.append(split + noise)
    units = np.array([str(k) for k in range(SPLITS)], dtype=object)
    about = {POOL: (pool.astype(str).astype(object),) * len(places)}
    entries, names = tuple(f"x/{i:04}" for i in range(STUDIES)), (units,) * len(places)
    none = tuple(np.full_like(values, np.nan) for values in accuracies)
    return Parts(
        *(Blocks(entries, tuple(places), names, {"accuracy": values}, about) for values in (none, tuple(accuracies)))
    )


def coverage(truth: dict[str, float], share: float) -> tuple[float, float]:
    """Return the shares of intervals, ours and Student's t over all splits, that contain the mean of data sets."""
    scores = strongest(simulated(truth, share), "accuracy", EITHER).scores
    every, mean, hits = range(len(scores.conditions)), float(np.mean(list(truth.values()))), np.zeros(2)
    for entry in scores.entries:
        value, plain = over_strongest(scores, "accuracy", entry, every), t_interval(scores.of("accuracy", entry))
        assert value.low is not None
        assert value.high is not None
        hits += value.low <= mean <= value.high, plain.low <= mean <= plain.high
    leaderboard, student = hits / STUDIES
    return float(leaderboard), float(student)


@pytest.mark.parametrize("truth", [0.5, 0.57], ids=["nothing is seen", "something is seen"])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.15, 0.3])
def test_an_interval_holds_the_accuracy_on_new_records(truth: float, share: float) -> None:
    leaderboard, student = coverage({"x/one": truth}, share)
    assert 0.92 < leaderboard < 0.985
    assert share < 0.15 or student < 0.9


@pytest.mark.parametrize("luck", [0.0, 0.002, 0.004])
def test_luck_of_an_evaluator_with_a_pool_is_not_chosen_and_reported(luck: float) -> None:
    """If one of 14 equal evaluators were also chosen on splits of the same pool, it would be overstated by 0.003."""
    scores = strongest(simulated({"x/one": 0.57}, 0.15, luck=luck, among=14), "accuracy", EITHER).scores
    values = scores.values["accuracy"][0].mean(axis=1)
    assert abs(values.mean() - 0.57) < 4 * values.std() / np.sqrt(STUDIES)


@pytest.mark.parametrize("share", [0.0, 0.15, 0.3])
def test_data_sets_may_differ(share: float) -> None:
    assert 0.925 < coverage({"x/one": 0.53, "x/other": 0.62}, share)[0] < 0.985


def test_the_ranking_has_the_same_interval() -> None:
    scores = strongest(simulated({"x/one": 0.53, "x/other": 0.62}, 0.15), "accuracy", EITHER).scores
    column = _protection(figures_at(), "accuracy", pooled=True)
    utility = Column("test", "test accuracy", "Test accuracy.")
    rules = Contest(
        scores,
        column,
        utility,
        scores.entries[0],
        words=words_of("of guesses"),
        gates=(),
        over=("evaluator", "attacker"),
    )
    for i in range(3):
        value = rules.mean(rules.sign * rules.worst[i])
        beside = over_strongest(scores, "accuracy", scores.entries[i], (0, 1))
        assert (value.value, value.low, value.high) == pytest.approx((beside.value, beside.low, beside.high))
        assert value.n == 2 * SPLITS


def test_a_fact_of_the_splits_makes_the_difference() -> None:
    """Without the pools of splits, the interval is Student's t; with them it is the nested one."""
    figures = simulated({"x/one": 0.57}, 0.15)
    alone = Parts(*(Blocks(block.entries, block.conditions, block.units, block.values) for block in figures))
    scores, entry = strongest(alone, "accuracy", EITHER).scores, "x/0000"
    value, plain = over_strongest(scores, "accuracy", entry, (0,)), t_interval(scores.of("accuracy", entry))
    assert (value.low, value.high) == pytest.approx((plain.low, plain.high))
    shared = strongest(figures, "accuracy", EITHER).scores
    wanted = nested_interval(shared.of("accuracy", entry), shared.about[POOL][0])
    shared_value = over_strongest(shared, "accuracy", entry, (0,))
    assert (shared_value.low, shared_value.high) == pytest.approx((wanted.low, wanted.high))
