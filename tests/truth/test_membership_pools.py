"""Intervals of defenses where splits share pools of rows and references, on accuracies whose truth is known."""

import numpy as np
import pytest

from imharness.contests import Contest
from imharness.stats import nested_interval, t_interval
from imharness.tables import Blocks, Column
from imharness_membership.tables.cells import POOL, figures_at
from imharness_membership.tables.choice import Parts, over_strongest, strongest
from imharness_membership.tables.contest import _protection

SPLITS, POOLS, SPREAD = 16, 3, 0.01
STUDIES, EVALUATORS = 2000, 3
EITHER = {"adaptive": ("adaptive", "fixed")}


def simulated(
    truth: dict[str, float], share: float, seed: int = 0, luck: float = 0.0, among: int = EVALUATORS
) -> Parts:
    """Return accuracies of evaluators that see the same, and of as many defenses as there are studies.

    Args:
        truth: data set -> the accuracy in the population.
        share: how much of a split's variance all splits of its pool have in common.
        luck: the standard deviation of what each evaluator gains with a pool.
        among: the number of evaluators.
    """
    rng, pool = np.random.default_rng(0), np.arange(SPLITS) % POOLS
    places, shown = [], []
    for dataset, mean in truth.items():
        common = np.sqrt(share) * rng.normal(size=(STUDIES, POOLS))[:, pool]
        split = mean + SPREAD * (common + np.sqrt(1 - share) * rng.normal(size=(STUDIES, SPLITS)))
        for k in range(among):
            places.append({"dataset": dataset, "model": "x/model", "evaluator": f"x/{k:02}", "attacker": "adaptive"})
            own = luck * rng.normal(size=(STUDIES, POOLS))[:, pool] + 0.004 * rng.normal(size=split.shape)
            shown.append(split + own)
    units = np.array([str(k) for k in range(SPLITS)], dtype=object)
    about = {POOL: (pool.astype(str).astype(object),) * len(places)}
    entries, names = tuple(f"x/{i:04}" for i in range(STUDIES)), (units,) * len(places)
    none = tuple(np.full_like(own, np.nan) for own in shown)
    return Parts(*(Blocks(entries, tuple(places), names, {"accuracy": own}, about) for own in (none, tuple(shown))))


def coverage(truth: dict[str, float], share: float) -> tuple[float, float]:
    """Return how many intervals of the board, and of Student's t over all splits, hold the mean over the data sets."""
    found = strongest(simulated(truth, share), "accuracy", EITHER).scores
    every, mean, hits = range(len(found.conditions)), float(np.mean(list(truth.values()))), np.zeros(2)
    for entry in found.entries:
        shown, plain = over_strongest(found, "accuracy", entry, every), t_interval(found.of("accuracy", entry))
        assert shown.low is not None
        assert shown.high is not None
        hits += shown.low <= mean <= shown.high, plain.low <= mean <= plain.high
    board, student = hits / STUDIES
    return float(board), float(student)


@pytest.mark.parametrize("truth", [0.5, 0.57], ids=["nothing is seen", "something is seen"])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.15, 0.3])
def test_an_interval_holds_the_accuracy_on_new_records(truth: float, share: float) -> None:
    board, student = coverage({"x/one": truth}, share)
    assert 0.92 < board < 0.985
    assert share < 0.15 or student < 0.9


@pytest.mark.parametrize("luck", [0.0, 0.002, 0.004])
def test_luck_of_an_evaluator_with_a_pool_is_not_chosen_and_reported(luck: float) -> None:
    """Of 14 equal evaluators; chosen on splits of the same pool, too, they would be overstated by 0.003."""
    found = strongest(simulated({"x/one": 0.57}, 0.15, luck=luck, among=14), "accuracy", EITHER).scores
    values = found.values["accuracy"][0].mean(axis=1)
    assert abs(values.mean() - 0.57) < 4 * values.std() / np.sqrt(STUDIES)


@pytest.mark.parametrize("share", [0.0, 0.15, 0.3])
def test_data_sets_may_differ(share: float) -> None:
    assert 0.925 < coverage({"x/one": 0.53, "x/other": 0.62}, share)[0] < 0.985


def test_the_ranking_has_the_same_interval() -> None:
    found = strongest(simulated({"x/one": 0.53, "x/other": 0.62}, 0.15), "accuracy", EITHER).scores
    column = _protection(figures_at(), "accuracy", pooled=True)
    utility = Column("test", "test accuracy", "Test accuracy.")
    rules = Contest(found, column, utility, found.entries[0], claim="", gates=(), over=("evaluator", "attacker"))
    for i in range(3):
        shown = rules.mean(rules.sign * rules.worst[i])
        beside = over_strongest(found, "accuracy", found.entries[i], (0, 1))
        assert (shown.value, shown.low, shown.high) == pytest.approx((beside.value, beside.low, beside.high))
        assert shown.n == 2 * SPLITS


def test_a_fact_of_the_splits_makes_the_difference() -> None:
    parts = simulated({"x/one": 0.57}, 0.15)
    alone = Parts(*(Blocks(own.entries, own.conditions, own.units, own.values) for own in parts))
    found, entry = strongest(alone, "accuracy", EITHER).scores, "x/0000"
    own, plain = over_strongest(found, "accuracy", entry, (0,)), t_interval(found.of("accuracy", entry))
    assert (own.low, own.high) == pytest.approx((plain.low, plain.high))
    shared = strongest(parts, "accuracy", EITHER).scores
    wanted = nested_interval(shared.of("accuracy", entry), shared.about[POOL][0])
    told = over_strongest(shared, "accuracy", entry, (0,))
    assert (told.low, told.high) == pytest.approx((wanted.low, wanted.high))
