"""A rate whose false-positive rate holds for each record, though records differ in the spread of answers."""

import numpy as np
import pytest
import scipy
import torch
from scipy.stats import nct, norm

import imharness as ih
from imharness.leaderboard import tpr_at_fpr
from imharness.membership import References
from imharness_membership.evaluators.lira import Lira
from imharness_membership.per_record import ENOUGH, FPR, p_values

from .test_audit_references import World

EACH = 20_000
"""Records of one spread, each with models of its own: the share of these that is accused is a record's rate."""
SPREADS = np.repeat([0.25, 1.0, 4.0], EACH)
NEAR = 4 * np.sqrt(FPR * (1 - FPR) / EACH)
"""Four standard errors of the share that is accused of the records of one spread."""


def answers_of(count: int, leak: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return members and log odds of a target, ``(n,)``, and of `count` references ``(count, n)``.

    Half of the references were trained on each record.
    """
    rng = np.random.default_rng(seed)
    member = np.concatenate(
        [rng.random((1, len(SPREADS))) < 0.5, rng.random((count, len(SPREADS))).argsort(axis=0) < count // 2]
    )
    odds = rng.normal(1, 2, len(SPREADS)) + leak * member + SPREADS * rng.normal(size=member.shape)
    return member[0], odds[0], member[1:], odds[1:]


def by_spread(accused: np.ndarray, member: np.ndarray) -> np.ndarray:
    """Return the share of accused non-members among the records of each spread."""
    return np.array([accused[(spread == SPREADS) & ~member].mean() for spread in np.unique(SPREADS)])


def test_one_threshold_accuses_some_records_far_more_often_and_a_test_of_each_record_does_not() -> None:
    member, seen, inside, odds = answers_of(16, 2.0, 0)
    answers, marks = torch.from_numpy(odds), torch.from_numpy(inside)
    references = References(answers, marks, answers[:, :2], answers[0, :2])
    scores = Lira().statistic(torch.from_numpy(seen), answers[0, :2], references, 16).numpy()
    threshold = np.sort(scores[~member])[-int(FPR * (~member).sum())]
    assert (scores[member] >= threshold).mean() == pytest.approx(tpr_at_fpr(scores, member, FPR), abs=1e-3)
    pooled = by_spread(scores >= threshold, member)
    assert pooled[0] < 0.001
    assert pooled[2] == pytest.approx(3 * FPR, abs=0.003)
    tested = p_values(seen, odds, ~inside) <= FPR
    assert by_spread(tested, member) == pytest.approx(np.full(3, FPR), abs=2 * NEAR)


@pytest.mark.parametrize("count", [4, 8, 16, 64])
def test_gaussians_of_few_references_accuse_too_often_by_what_student_says(count: int) -> None:
    """LiRA's offline score of n models without the record exceeds its own 1 % with a chance that Student's t gives."""
    member, seen, inside, odds = answers_of(count, 0.0, count)
    answers, marks = torch.from_numpy(odds), torch.from_numpy(inside)
    lira = Lira(mode="offline-cdf", global_variance=False)
    references = References(answers, marks, answers[:, :2], answers[0, :2])
    nominal = lira.statistic(torch.from_numpy(seen), answers[0], references, count).numpy() > -np.log(FPR)
    out = count // 2
    truth = scipy.stats.t.sf(norm.isf(FPR) / np.sqrt(1 + 1 / out), out - 1)
    assert truth > {4: 0.1, 8: 0.05, 16: 0.03, 64: 0.013}[count]
    assert by_spread(nominal, member) == pytest.approx(np.full(3, truth), abs=0.012)
    tested = p_values(seen, odds, ~inside) <= FPR
    assert by_spread(tested, member) == pytest.approx(np.full(3, FPR), abs=2 * NEAR)


def test_from_99_references_without_the_record_no_distribution_is_assumed() -> None:
    """Exponential answers are 2.33 deviations above the mean (1 % of a Gaussian) in exp(-3.33) = 3.6 %.

    They exceed the largest of 120 others in one of 121.
    """
    rng = np.random.default_rng(1)
    seen, odds = rng.exponential(size=EACH), rng.exponential(size=(120, EACH))
    tested = p_values(seen, odds, np.ones_like(odds, dtype=bool)) <= FPR
    assert tested.mean() == pytest.approx(1 / 121, abs=NEAR)
    assert (seen > odds.mean(axis=0) + norm.isf(FPR) * odds.std(axis=0, ddof=1)).mean() > 3 * FPR


def test_p_values_are_those_of_a_loop_and_none_is_small_where_references_are_few_or_alike() -> None:
    rng = np.random.default_rng(2)
    seen, odds, outside = rng.normal(1, 1, 40), rng.normal(size=(7, 40)), rng.random((7, 40)) < 0.6
    outside[:, 0], outside[:, 1] = False, np.arange(7) == 3
    odds[:, 2], outside[:5, 2] = -69.0, True
    seen[:3] = 69.0
    fast = p_values(seen, odds, outside)
    assert fast[:2].tolist() == [1.0, 1.0]
    assert fast[2] == 1 / (1 + outside[:, 2].sum())
    for row in range(3, 40):
        out = odds[outside[:, row], row]
        if len(out) > 1:
            width = out.std(ddof=1) * np.sqrt(1 + 1 / len(out))
            slow = scipy.stats.t(len(out) - 1, out.mean(), width).sf(seen[row])
            assert fast[row] == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize("views", [0, 3])
def test_an_audit_finds_what_the_test_of_two_gaussians_allows(views: int) -> None:
    """The power is that of noncentral t for each number of models without the record; four answers halve the noise."""
    world, leak, count = World(6000, 4), 2.0, 24
    target, (odds, member) = world.target(leak), world.references(count, leak)
    references = {"log_odds": odds, "member": member}
    if views:
        further = np.stack([[world.odds(m, leak) for _ in range(views)] for m in (target["member"], *member)])
        references |= {"views": further[1:], "target_views": further[0]}
    audit = ih.audit(target, references=references, evaluators=["attack-r"])
    calibrated = audit.details.per_record
    assert calibrated is not None
    out = np.arange(2, count + 1)
    share = np.bincount((~member).sum(axis=0), minlength=count + 1)[2:] / 6000
    shift = leak * np.sqrt(1 + views) / np.sqrt(1 + 1 / out)
    truth = share @ nct.sf(scipy.stats.t.isf(FPR, out - 1), out - 1, shift)
    assert calibrated.tpr.low - 0.01 < truth < calibrated.tpr.high + 0.01
    assert calibrated.fpr.low < FPR < calibrated.fpr.high
    assert calibrated.references == np.median((~member).sum(axis=0)) >= ENOUGH
    assert "find little" not in str(calibrated)
    assert str(calibrated) in repr(audit)
    assert f"at 1 % false accusations {100 * calibrated.tpr.value:.1f} % [" in str(calibrated)


def test_without_references_there_is_no_such_rate() -> None:
    assert ih.audit(World(720, 8).target(1.0), evaluators=["confidence"]).details.per_record is None


def test_what_few_references_cannot_show_is_not_said_to_be_safe() -> None:
    """With 4 models almost no member is found although the leak is as large as above, and the line says why."""
    world, leak = World(4000, 9), 2.0
    target, (odds, member) = world.target(leak), world.references(4, leak)
    calibrated = ih.audit(
        target, references={"log_odds": odds, "member": member}, evaluators=["attack-r"]
    ).details.per_record
    assert calibrated is not None
    assert calibrated.tpr.value < 0.1
    assert f"and fewer than {ENOUGH} find little, whatever the model leaks" in str(calibrated)
