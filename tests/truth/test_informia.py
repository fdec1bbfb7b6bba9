"""InfoRMIA compared with sums over rows, with the order of RMIA, and with the best test on simulated data."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

import imharness as ih
from imharness.leaderboard import auc
from imharness.membership import References
from imharness_membership.evaluators.informia import InfoRmia
from imharness_membership.evaluators.rmia import Rmia

from .test_audit_references import World

MODES = ("offline", "tuned", "online")


def world_of(rows: int, count: int, population: int, leak: float, seed: int) -> tuple[np.ndarray, References]:
    """Return the target's members and log odds, (2, rows), and references; the target is the last of `count` models.

    A model's log odds of a row are its difficulty, plus a leak if it is a member, plus Gaussian noise.
    """
    rng = np.random.default_rng(seed)
    member = rng.random((count, rows)).argsort(axis=1) < rows // 2
    odds = rng.normal(size=rows) + leak * member + rng.normal(size=member.shape)
    others = rng.normal(size=population) + rng.normal(size=(count, population))
    tensors = (torch.from_numpy(each) for each in (odds[:-1], member[:-1], others[:-1], others[-1]))
    return np.stack([member[-1], odds[-1]]), References(*tensors)


def test_bits_are_those_of_a_sum_over_rows_and_references() -> None:
    (_, seen), r = world_of(30, 7, 12, 1.0, 0)
    observed, a = torch.from_numpy(seen), 0.2

    def sure(odds: torch.Tensor) -> float:
        return 1 / (1 + math.exp(-float(odds)))

    def expected(answers: list[torch.Tensor]) -> float:
        out = sum(map(sure, answers)) / len(answers)
        return (out + a * out + 1 - a) / 2

    theirs = r.target_population_log_odds
    means = [expected(list(r.population_log_odds[:, z])) for z in range(len(theirs))]
    lost = sum(p * math.log2(p / sure(theirs[z])) for z, p in enumerate(means)) / sum(means)
    slow = [
        math.log2(sure(seen[x]) / expected([r.log_odds[k, x] for k in range(6) if not r.member[k, x]])) + lost
        for x in range(30)
    ]
    fast = InfoRmia(offline=a).statistic(observed, theirs, r, 7)
    assert fast.numpy() == pytest.approx(np.array(slow), abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_one_model_are_in_the_order_of_rmia(mode: str) -> None:
    (_, seen), r = world_of(500, 9, 200, 1.0, 1)
    observed = torch.from_numpy(seen)
    ours, theirs = (
        kind(mode=mode).statistic(observed, r.target_population_log_odds, r, 9).argsort() for kind in (InfoRmia, Rmia)
    )
    assert torch.equal(ours, theirs)


def test_with_a_small_population_it_finds_more_than_rmia_as_published_whose_scores_are_few() -> None:
    """The paper claims this of RMIA as published: with 8 population rows it has nine scores.

    The RMIA of the harness breaks ties, and loses nothing.
    """
    (member, seen), r = world_of(6000, 65, 8, 1.5, 2)
    observed, population = torch.from_numpy(seen), r.target_population_log_odds
    bits = InfoRmia(mode="online").statistic(observed, population, r, 65).numpy()
    untied = Rmia(mode="online").statistic(observed, population, r, 65).numpy()
    published = np.floor(untied * 8)
    inside = member.astype(bool)
    assert auc(bits, inside) == auc(untied, inside) > auc(published, inside) + 0.01


def test_where_all_rows_are_alike_it_is_the_best_test_and_its_threshold_holds_for_another_model() -> None:
    """The ratio then rises with the log odds: the AUC is Phi(leak / sqrt 2), the best accuracy Phi(leak / 2)."""
    world, leak = World(6000, 3), 1.5
    world.difficulty[:] = 0.0
    rows = ih.audit(world.target(leak), references=world.references(64, leak), evaluators=["informia"]).rows()
    assert rows["auc"][0] == pytest.approx(norm.cdf(leak / np.sqrt(2)), abs=0.02)
    assert rows["accuracy"][0] == pytest.approx(norm.cdf(leak / 2), abs=0.02)
    none = ih.audit(world.target(0.0), references=world.references(64, 0.0), evaluators=["informia"]).rows()
    assert none["auc_low"][0] < 0.5 < none["auc_high"][0]


def test_it_takes_part_where_it_is_asked_for_alone() -> None:
    world = World(600, 4)
    target, references = world.target(1.0), world.references(8, 1.0)
    assert not any("informia" in label for label in ih.audit(target, references=references).table().labels)
    assert ih.audit(target, references=references, evaluators=["informia"]).table().labels == ("harness/informia",)
