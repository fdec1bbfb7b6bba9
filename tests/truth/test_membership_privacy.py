"""Bounds of epsilon and the calibration error, for guesses and models with known truth."""

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from imharness.testing.placement import MAC, acted_accelerator
from imharness_membership.calibration import calibration_error
from imharness_membership.epsilon import chosen_rule, counted, epsilon_if_independent

STUDIES, ROWS = 300, 1000


def bounds(epsilon: float, studies: int = STUDIES, rows: int = ROWS) -> np.ndarray:
    """Return lower bounds of epsilon, (studies,).

    One of 20 evaluators sees membership by randomised response of this epsilon, and the others guess. The evaluator and
    its rule are chosen on half of the rows; the bound follows from the other half.
    """
    generator, epsilons = np.random.default_rng(int(10 * epsilon)), []
    for _ in range(studies):
        member = generator.random(rows) < 0.5
        scores = generator.normal(size=(20, rows))
        truthful = generator.random(rows) < 1 / (1 + np.exp(-epsilon))
        scores[7] = np.where(truthful, member, ~member) + 1e-3 * generator.normal(size=rows)
        half = np.arange(rows) < rows // 2
        best = max(range(20), key=lambda k: chosen_rule(scores[k][half], member[half])[0])
        rule = chosen_rule(scores[best][half], member[half])[1]
        epsilons.append(epsilon_if_independent(*counted(rule, scores[best][~half], member[~half])))
    return np.array(epsilons)


def test_noise_has_no_epsilon_in_95_percent_of_the_studies() -> None:
    assert np.mean(bounds(0.0) > 0) <= 0.05


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_bound_stays_below_a_known_epsilon_and_comes_near_it(epsilon: float) -> None:
    epsilons = bounds(epsilon, studies=100, rows=4000)
    assert np.mean(epsilons > epsilon) <= 0.05
    assert np.median(epsilons) > 0.7 * epsilon


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    for right, wrong in ((90, 10), (100, 0), (0, 0), (50, 100)):
        low = binomtest(right, 100).proportion_ci(0.95, "exact").low
        high = binomtest(wrong, 100).proportion_ci(0.95, "exact").high
        expected = max(0.0, np.log(max(low - 1e-5, 1e-300) / high))
        epsilon = epsilon_if_independent(np.array([right]), np.array(100), np.array([wrong]), np.array(100))
        assert epsilon[0] == pytest.approx(expected)


def test_calibration_error_of_a_model_that_is_too_sure_by_a_known_amount() -> None:
    """The model says 0.9 and is right in 0.7 of 10,000 rows; a model that says the true share has an error near 0."""
    generator = torch.Generator().manual_seed(0)
    right = torch.rand(10_000, generator=generator) < 0.7
    labels = (~right).long()
    probabilities = torch.tensor([[0.9, 0.1]]).expand(10_000, 2)
    share = float(right.float().mean())
    assert calibration_error(probabilities, labels) == pytest.approx(0.9 - share, abs=1e-6)
    assert calibration_error(torch.tensor([[share, 1 - share]]).expand(10_000, 2), labels) == pytest.approx(0, abs=1e-6)
    two = torch.cat([probabilities[:5000], 1 - probabilities[5000:]])
    mixed = torch.where(torch.arange(10_000) < 5000, labels, 1 - labels)
    assert calibration_error(two, mixed) == pytest.approx(0.9 - share, abs=1e-6)
    with acted_accelerator(MAC):  # which has no float64
        assert calibration_error(two.to(MAC), mixed.to(MAC)) == pytest.approx(0.9 - share, abs=1e-6)
