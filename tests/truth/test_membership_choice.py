"""The accuracy of the worst attack is neither overstated if evaluators guess nor understated if one does not.

The choice of the worst evaluator is cross-fitted: the figure reported for a split is that of the evaluator that is the
strongest on other splits, or, with two splits, on half of the rows. So luck on the reported rows does not count.
"""

from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from tests.truth.test_membership import PLAIN, Simulated, study

from imharness.leaderboard import Blocks, t_interval
from imharness.membership import InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores
from imharness_membership.tables import report
from imharness_membership.tables.choice import Parts, figures_of_parts, following, parted, strongest
from imharness_membership.tables.figures import scores_of
from imharness_membership.tables.rates import figures_at

WORST = {"adaptive": ("adaptive", "fixed")}
STUDIES, EVALUATORS, ROWS = 4000, 14, 320


def simulated(splits: int, truth: np.ndarray, *, spread: float = 0.0, deviation: float = 0.0, seed: int = 0) -> Parts:
    """Return balanced accuracies of evaluators in each split of each study; no rows are set aside for the choice.

    Studies are the entries of the blocks, as if each were a defense.

    Args:
        splits: how many splits a study has.
        truth: what each evaluator reaches in the mean over splits ``(evaluators,)``.
        spread, deviation: standard deviations of what a split adds to all evaluators, and to each of them.
    """
    rng = np.random.default_rng(seed)
    mean = truth[:, None, None] + spread * rng.normal(size=(1, STUDIES, splits))
    mean = mean + deviation * rng.normal(size=(len(truth), STUDIES, splits))
    accuracies = rng.binomial(ROWS, np.clip(mean, 0, 1)) / ROWS
    entries, units = tuple(f"x/{i}" for i in range(STUDIES)), np.array([str(k) for k in range(splits)], dtype=object)
    places = tuple(
        {"dataset": "x/rows", "model": "x/model", "evaluator": f"x/{k:02}", "attacker": "adaptive"}
        for k in range(len(truth))
    )
    blocks = Blocks(entries, places, (units,) * len(truth), {"accuracy": tuple(accuracies)}, {})
    aside = Blocks(entries, places, (units,) * len(truth), {"accuracy": tuple(np.full_like(accuracies, np.nan))}, {})
    return Parts(aside, blocks)


def means(figures: Parts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean of each study and the ends of its interval over splits, each ``(studies,)``."""
    accuracies = strongest(figures, "accuracy", WORST).scores.values["accuracy"][0]
    splits = accuracies.shape[1]
    reach = scipy.stats.t.ppf(0.975, splits - 1) * accuracies.std(axis=1, ddof=1) / np.sqrt(splits)
    one = t_interval(accuracies[0])
    assert (one.low, one.high) == pytest.approx((accuracies[0].mean() - reach[0], accuracies[0].mean() + reach[0]))
    return accuracies.mean(axis=1), accuracies.mean(axis=1) - reach, accuracies.mean(axis=1) + reach


@pytest.mark.parametrize("splits", [3, 5, 8, 12])
@pytest.mark.parametrize("deviation", [0.0, 0.02])
@pytest.mark.parametrize("evaluators", [3, EVALUATORS])
def test_intervals_of_the_strongest_of_evaluators_that_guess_cover_one_half(
    splits: int, deviation: float, evaluators: int
) -> None:
    """An evaluator may do well by chance on the model of a split (`deviation`), but is chosen on other splits."""
    mean, low, high = means(simulated(splits, np.full(evaluators, 0.5), deviation=deviation))
    assert 0.93 <= np.mean((low <= 0.5) & (high >= 0.5)) <= 0.97
    assert abs(mean.mean() - 0.5) < 3 * mean.std() / np.sqrt(STUDIES)


@pytest.mark.parametrize(
    ("truth", "most"),
    [
        (np.array([0.572] + [0.5] * 13), 0.001),
        (np.array([0.572, 0.565, 0.56, 0.558, 0.55, 0.55] + [0.52] * 8), 0.008),
        (np.linspace(0.55, 0.572, EVALUATORS), 0.008),
    ],
    ids=["one sees something", "some see nearly as much", "all see something"],
)
def test_a_worst_attack_is_not_understated(truth: np.ndarray, most: float) -> None:
    """Twelve splits of 320 rows, as in the embedded profile."""
    mean, low, high = means(simulated(12, truth, spread=0.015, deviation=0.01))
    assert truth.max() - most <= mean.mean() <= truth.max() + 3 * mean.std() / np.sqrt(STUDIES)
    assert np.mean(low > truth.max()) <= 0.035
    if most == 0.001:
        assert 0.93 <= np.mean((low <= truth.max()) & (high >= truth.max())) <= 0.97


@pytest.mark.parametrize("count", range(3, 14))
def test_no_two_splits_are_chosen_for_on_each_other(count: int) -> None:
    """For each split, `following` returns other splits on which its evaluator is chosen: up to half, never mutually."""
    others = following(count)
    assert all(len(set(indices)) == (count - 1) // 2 for indices in others)
    assert not any(index in others[other] for index, indices in enumerate(others) for other in indices)
    assert not any(index in indices for index, indices in enumerate(others))


class Knows(MembershipEvaluator):
    """Calls a row a member if its confidence exceeds the median confidence of the shadow model's rows."""

    info = Info(id="acme/knows", version="1")

    def build(self, device: torch.device) -> InferMembership:
        def infer(query: MembershipQuery) -> Scores:
            confidence = query.target_outputs.gather(1, query.target_labels[:, None])[:, 0]
            return confidence - query.shadow_outputs.gather(1, query.shadow_labels[:, None])[:, 0].median()

        return infer


def test_through_plan_run_and_tables_the_one_that_sees_is_shown_among_many_that_guess(tmp_path: Path) -> None:
    """The model is overfitted; the leaderboard shows what `acme/knows` reaches on all rows, and names it."""
    names = ["acme/knows", *(f"acme/noise[number={number}]" for number in range(12))]
    options = {"splits": 6, "part": 150, "epochs": 60}
    query = study(tmp_path, [PLAIN], names, [Knows()], options)
    rows = query("SELECT split, member, score FROM evaluate WHERE evaluator = 'acme/knows' AND adaptive")
    right = (rows["score"] >= 0) == rows["member"]
    truth = np.mean(
        [right[(rows["split"] == k) & (rows["member"] == m)].mean() for k in range(6) for m in (True, False)]
    )
    result = report(query)
    value = result.tables[0].rows[0].values["worst"].value
    assert truth > 0.55
    assert truth - 0.03 <= value <= truth + 1e-9, "in a split, one that guesses may be chosen on the few others"
    assert next(iter(result.rankings[0].places[PLAIN].broken_by)) == "acme/knows"


def test_with_two_splits_a_half_of_the_rows_is_set_aside_to_choose_on() -> None:
    query = Simulated(2, 0, splits=2, evaluators=4, gap=(1.0, 0.0))
    scores = scores_of(query)
    aside, reported = parted(scores)
    for all_rows, one, other in zip(scores.units, aside.units, reported.units, strict=True):
        assert len(one) == len(all_rows) // 2
        assert sorted([*one, *other]) == sorted(all_rows)
    figures = figures_of_parts(parted(scores), figures_at())
    accuracies = strongest(figures, "accuracy", WORST).scores.values["accuracy"][0]
    assert not np.isnan(accuracies).any()
    assert len(parted(scores_of(Simulated(2, 0, splits=3))).aside.units[0]) == 0
