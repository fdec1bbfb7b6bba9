"""The linear attack on log outputs: its optimum by SciPy, and what MemGuard hides from other evaluators."""

import numpy as np
import pytest
import scipy
import torch

from imharness.contracts.randomness import generator
from imharness.leaderboard import balanced_accuracy
from imharness.membership import DefenderOutputs, MembershipQuery
from imharness_membership.defenses.memguard import MemGuard
from imharness_membership.evaluators.log_outputs import LogOutputs, log_features, logistic_weights
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.evaluators.neural import Neural

CPU = torch.device("cpu")


def test_the_weights_are_the_optimum_that_scipy_finds() -> None:
    rng = np.random.default_rng(0)
    features = np.c_[rng.normal(size=(200, 4)), np.ones(200)]
    truth = (features[:, 0] + rng.normal(size=200) > 0.3).astype(float)
    weight = np.where(truth > 0, 0.5 / truth.sum(), 0.5 / (1 - truth).sum())

    def cost(w: np.ndarray) -> float:
        loss = np.logaddexp(0, np.where(truth > 0, -1, 1) * (features @ w))
        return float(weight @ loss + 0.05 / 2 * (w[:-1] ** 2).sum())

    best = scipy.optimize.minimize(cost, np.zeros(5), tol=1e-12).x
    weights = logistic_weights(torch.from_numpy(features), torch.from_numpy(truth), 0.05)
    np.testing.assert_allclose(weights.numpy(), best, atol=1e-4)


def test_features_are_logs_with_the_true_class_first() -> None:
    outputs = torch.tensor([[0.2, 0.5, 0.3], [0.0, 0.4, 0.6]])
    features = log_features(outputs, torch.tensor([0, 2]))
    torch.testing.assert_close(features[0], outputs.double()[0, [0, 1, 2]].log())
    torch.testing.assert_close(features[1, :2], outputs.double()[1, [2, 1]].log())
    assert features[1, 2] == pytest.approx(np.log(1e-38), rel=1e-3)


def guarded(seed: int, rows: int = 200) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return outputs after MemGuard, labels and membership, of a model whose logits are twice as large for members.

    Nearly all rows are classified correctly.
    """
    rng = generator(seed)
    labels = torch.randint(10, (2 * rows,), generator=rng)
    member = torch.arange(2 * rows) < rows
    logits = torch.randn(2 * rows, 10, generator=rng).scatter_add(1, labels[:, None], torch.full((2 * rows, 1), 5.0))
    outputs = (torch.where(member, 2.0, 1.0)[:, None] * logits).softmax(dim=1)
    defender = DefenderOutputs(outputs[:rows], outputs[rows:])
    return MemGuard(epochs=20, budget=2.0, patience=20).build(CPU)(outputs, defender, rng), labels, member


def test_memguard_does_not_hide_from_it_what_it_hides_from_others() -> None:
    shadow, shadow_labels, shadow_member = guarded(0)
    target, labels, member = guarded(1)
    query = MembershipQuery(shadow, shadow_labels, shadow_member, target, labels)
    areas = {
        type(one).__name__: balanced_accuracy(one.build(CPU)(query).numpy(), member.numpy())
        for one in (LogOutputs(), ModifiedEntropy(per_class=False), Neural(epochs=10, width=64))
    }
    assert areas["LogOutputs"] > 0.85
    assert areas["LogOutputs"] > max(areas["ModifiedEntropy"], areas["Neural"]) + 0.1
