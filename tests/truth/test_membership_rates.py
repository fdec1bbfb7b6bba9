"""A rate at few false positives is named by the false-positive rate that it has, which its intervals cover."""

import numpy as np
import pytest
import scipy

from imharness.leaderboard import t_interval
from imharness_membership.tables.figures import figures
from imharness_membership.tables.rates import figures_at, reached_fpr, with_reached_rates

from .studies import most

STUDIES, SPLITS, MEMBERS, GAP = 150, 12, 160, 1.0


def found_at(fpr: float) -> float:
    """Return the share of members above the threshold that a share `fpr` of non-members exceeds, in truth."""
    return float(scipy.stats.norm.sf(scipy.stats.norm.isf(fpr) - GAP))


def covered(non_members: int, truth: float) -> int:
    """Return in how many studies the interval over splits contains the truth; splits differ in their rows alone."""
    member, hits = np.arange(MEMBERS + non_members) < MEMBERS, 0
    for seed in range(STUDIES):
        rng = np.random.default_rng(seed)
        score = rng.normal(size=(SPLITS, len(member))) + GAP * member
        interval = t_interval(figures(score, member, figures_at())["tpr1"])
        hits += interval.low <= truth <= interval.high
    return hits


def test_with_500_non_members_a_rate_at_1_percent_is_one_and_with_160_it_is_not() -> None:
    assert covered(500, found_at(0.01)) >= STUDIES - most(STUDIES, 0.08)
    assert covered(160, found_at(0.01)) <= 0.75 * STUDIES


@pytest.mark.parametrize(
    ("non_members", "label"),
    [
        (98, "TPR at 1% FPR"),
        (160, "TPR at 0.62% FPR"),
        (299, "TPR at 1% FPR"),
        (498, "TPR at 0.8% FPR"),
        (500, "TPR at 1% FPR"),
    ],
)
def test_rates_are_called_by_the_false_positives_that_they_have(non_members: int, label: str) -> None:
    """With fewer than 99 non-members there is no rate, and the label stays; 299 give exactly 1 %: 3 of 300."""
    assert with_reached_rates(figures_at(), non_members)["tpr1"].label == label
    assert reached_fpr(0.01, 160) == pytest.approx(1 / 161)
    assert with_reached_rates(figures_at(), non_members)["accuracy"] == figures_at()["accuracy"]
