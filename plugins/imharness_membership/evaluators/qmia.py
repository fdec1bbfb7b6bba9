"""QMIA: quantile regression predicts how large a non-member's log odds would be; it needs no reference models.

Bertran, Tang, Roth, Kearns, Morgenstern & Wu, "Scalable Membership Inference Attacks via Quantile Regression" (NeurIPS
2023). The authors regress the log odds on the record itself. An evaluator sees outputs alone, so the regressors here
are the true class and the relative probabilities of the other classes.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.data import generator
from imharness.membership import InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl
from imharness_membership.descent import Adam
from imharness_membership.evaluators.log_outputs import log_features
from imharness_membership.likelihood import log_odds
from imharness_membership.thresholds import margins

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""The quantiles that are fitted together: location and scale depend on the record, the shape does not."""
LEAST = 1e-3
"""Standard deviations are raised to at least this before something is divided by them."""
BATCH = 4096
"""The largest number of rows in a step."""
OfFeatures = Callable[[torch.Tensor], torch.Tensor]
"""Features ``(n, f)`` -> a number for each row ``(n,)``."""


class Qmia(MembershipEvaluator):
    """Predicts membership from log odds above the quantiles of non-members with similar outputs."""

    info = Info(id="harness/qmia", version="1", paper="bertran2023")
    steps: int = Field(default=300, ge=1, le=100_000, description="Steps of Adam, each on at most 4096 rows.")
    learning_rate: float = Field(default=0.03, gt=0, le=1, description="Adam's learning rate.")
    ridge: float = Field(default=0.01, ge=0, le=100, description="Penalty on the squared weights.")
    seed: int = Field(default=0, ge=0, description="Seed of the order of rows.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the standardised distance from the expected log odds, minus a learnt threshold."""

        def infer(query: MembershipQuery) -> Scores:
            classes, outside = query.shadow_outputs.shape[1], ~query.shadow_member
            shadow = _features(query.shadow_outputs, query.shadow_labels)
            target = _features(query.target_outputs, query.target_labels)
            mean, scale = shadow.mean(dim=0), shadow.std(dim=0).clamp(min=LEAST)
            shadow_classes = F.one_hot(query.shadow_labels, classes).to(shadow.dtype)
            target_classes = F.one_hot(query.target_labels, classes).to(target.dtype)
            shadow_features = torch.cat([(shadow - mean) / scale, shadow_classes], dim=1)
            target_features = torch.cat([(target - mean) / scale, target_classes], dim=1)
            odds = log_odds(query.shadow_outputs, query.shadow_labels)
            with torch.enable_grad():
                location, spread = self._fitted(shadow_features[outside], odds[outside])
            shadow_scores = (odds - location(shadow_features)) / spread(shadow_features)
            target_odds = log_odds(query.target_outputs, query.target_labels)
            target_scores = (target_odds - location(target_features)) / spread(target_features)
            return margins(query, shadow_scores, target_scores, per_class=False)

        return infer

    def _fitted(self, features: torch.Tensor, odds: torch.Tensor) -> tuple[OfFeatures, OfFeatures]:
        """Return location and spread of the log odds ``(n,)`` as functions of features ``(n, f)``, by the pinball loss.

        Quantile q of a row is location + spread * shape[q], with location = centre + width * features @ weights[0] and
        spread = width * exp(features @ weights[1]); all rows share the shape. `centre` and `width` are the mean and the
        standard deviation of `odds`.
        """
        centre = odds.mean() if len(odds) else odds.new_zeros(())
        width = odds.std().clamp(min=LEAST) if len(odds) > 1 else odds.new_ones(())
        levels = odds.new_tensor(LEVELS)
        weights = torch.zeros(2, features.shape[1], device=odds.device, requires_grad=True)
        shape = (levels.log() - (-levels).log1p()).div(1.8).requires_grad_()  # near the quantiles of a Gaussian
        rng, descent = generator(self.seed), Adam([weights, shape], self.learning_rate)
        for _ in range(self.steps if len(odds) else 0):
            rows = slice(None)
            if len(odds) > BATCH:
                rows = torch.randint(len(odds), (BATCH,), generator=rng).to(odds.device)
            location, scale = features[rows] @ weights[0], (features[rows] @ weights[1]).exp()
            above = ((odds[rows] - centre) / width - location)[:, None] - scale[:, None] * shape
            loss = torch.maximum(levels * above, (levels - 1) * above).mean()
            descent.step(loss + self.ridge * weights.square().sum() / 2)
        of_location, of_spread = weights.detach()
        return lambda x: centre + width * (x @ of_location), lambda x: width * (x @ of_spread).exp()


def _features(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return ``(n, classes - 1)``: log probabilities of the wrong classes, given that one is right; largest first."""
    return log_features(outputs, labels)[:, 1:].log_softmax(dim=1).to(outputs)


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Qmia()]
