"""Entropy: members tend to have more certain predictions.

Song & Mittal, "Systematic Evaluation of Privacy Risks of Machine Learning Models"
(USENIX Security 2021), equation 7.
"""

import torch
from pydantic import Field

from harness.api import InferMembership, Info, MembershipEvaluator, MembershipQuery, Paper, Scores, hookimpl
from harness_membership.thresholds import margins

FLOOR = 1e-30
"""Probabilities are floored here before the logarithm."""


class Entropy(MembershipEvaluator):
    """Predicts membership from the entropy of the prediction."""

    info = Info(
        id="harness/entropy",
        version="1",
        paper=Paper(
            title="Systematic Evaluation of Privacy Risks of Machine Learning Models",
            authors="Song & Mittal",
            year=2021,
            url="https://arxiv.org/abs/2003.10595",
        ),
    )
    per_class: bool = Field(default=True, description="One threshold per class; otherwise one for all.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: value minus threshold."""

        def infer(query: MembershipQuery) -> Scores:
            shadow = negative_entropy(query.shadow_outputs, query.shadow_labels)
            target = negative_entropy(query.target_outputs, query.target_labels)
            return margins(query, shadow, target, self.per_class)

        return infer


def negative_entropy(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return minus the entropy, ``(n,)``, nats."""
    return (outputs * outputs.clamp(min=FLOOR).log()).sum(dim=1)


@hookimpl
def register_evaluators() -> list[MembershipEvaluator]:
    return [Entropy(per_class=True), Entropy(per_class=False)]
