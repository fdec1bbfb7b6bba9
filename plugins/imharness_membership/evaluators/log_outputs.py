"""Log outputs: a linear attack on the logarithms of all probabilities, against defenses that change only a few of them.

MemGuard (Jia et al., CCS 2019, algorithm 1) moves logits along a gradient, which is almost 0 for classes of small
probability. So the ratios of small probabilities do not change, and the label is kept. Here a logistic regression with
a ridge penalty predicts membership from the logarithms. It is trained on defended shadow outputs, so it adapts to the
defense.
"""

import torch
from pydantic import Field

from imharness.data import double
from imharness.membership import InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl

FLOOR = 1e-38
"""Probabilities are raised to at least this, near the smallest float32, before the logarithm."""
STEPS = 25
"""The number of steps of Newton's method."""


class LogOutputs(MembershipEvaluator):
    """Predicts membership linearly from the logarithms of all probabilities, the true class first."""

    info = Info(id="harness/log-outputs", version="1")
    ridge: float = Field(default=0.01, gt=0, le=100, description="Penalty on squared weights, in mean log loss.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the logit of membership."""

        def infer(query: MembershipQuery) -> Scores:
            shadow = log_features(query.shadow_outputs, query.shadow_labels)
            target = log_features(query.target_outputs, query.target_labels)
            mean, scale = shadow.mean(dim=0), shadow.std(dim=0).clamp(min=1e-6)
            weights = logistic_weights(_with_ones((shadow - mean) / scale), double(query.shadow_member), self.ridge)
            return (_with_ones((target - mean) / scale) @ weights).float().to(query.target_outputs.device)

        return infer


def log_features(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return float64 ``(n, classes)``: the log probability of the true class, then the others', largest first."""
    logs = double(outputs.clamp(min=FLOOR)).log()
    labels = labels.to(logs.device)
    true = logs.gather(1, labels[:, None])
    others = logs.scatter(1, labels[:, None], -torch.inf).sort(dim=1, descending=True).values[:, :-1]
    return torch.cat([true, others], dim=1)


def _with_ones(features: torch.Tensor) -> torch.Tensor:
    """Return features with a column of ones."""
    return torch.cat([features, torch.ones_like(features[:, :1])], dim=1)


def logistic_weights(features: torch.Tensor, truth: torch.Tensor, ridge: float) -> torch.Tensor:
    """Return the weights ``(d,)`` that minimise mean log loss plus `ridge` / 2 times their square, by Newton's method.

    The last feature, a column of ones, has no penalty. Both classes have the same weight.
    """
    share = truth.mean().clamp(1e-6, 1 - 1e-6)
    weight = torch.where(truth > 0, 0.5 / share, 0.5 / (1 - share)) / len(truth)
    penalty = torch.full_like(features[0], ridge)
    penalty[-1] = 1e-9
    coefficients = torch.zeros_like(features[0])
    for _ in range(STEPS):
        guess = (features @ coefficients).sigmoid()
        slope = features.T @ (weight * (guess - truth)) + penalty * coefficients
        curve = features.T @ (features * (weight * guess * (1 - guess))[:, None]) + penalty.diag()
        coefficients = coefficients - torch.linalg.solve(curve, slope)
    return coefficients


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [LogOutputs()]
