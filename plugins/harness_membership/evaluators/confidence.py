"""Confidence: members tend to have a higher probability of their true class.

Song & Mittal, "Systematic Evaluation of Privacy Risks of Machine Learning Models"
(USENIX Security 2021), equation 6.
"""

import torch
from pydantic import Field

from harness.api import InferMembership, Info, MembershipEvaluator, MembershipQuery, Paper, Scores, hookimpl
from harness_membership.thresholds import margins


class Confidence(MembershipEvaluator):
    """Predicts membership from the probability of the true class."""

    info = Info(
        id="harness/confidence",
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
            shadow = true_class_confidence(query.shadow_outputs, query.shadow_labels)
            target = true_class_confidence(query.target_outputs, query.target_labels)
            return margins(query, shadow, target, self.per_class)

        return infer


def true_class_confidence(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the probability of the true class, ``(n,)`` in [0, 1]."""
    return outputs.gather(1, labels[:, None])[:, 0]


@hookimpl
def register_evaluators() -> list[MembershipEvaluator]:
    return [Confidence(per_class=True), Confidence(per_class=False)]
