"""Modified entropy: zero only for a certain prediction of the true class.

Song & Mittal, "Systematic Evaluation of Privacy Risks of Machine Learning Models"
(USENIX Security 2021), equations 8 and 9.
"""

import torch
from pydantic import Field

from harness.api import InferMembership, Info, MembershipEvaluator, MembershipQuery, Paper, Scores, hookimpl
from harness_membership.thresholds import margins

FLOOR = 1e-30
"""Probabilities are floored here before the logarithm."""


class ModifiedEntropy(MembershipEvaluator):
    """Predicts membership from an entropy that knows the true class."""

    info = Info(
        id="harness/modified-entropy",
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
            shadow = negative_modified_entropy(query.shadow_outputs, query.shadow_labels)
            target = negative_modified_entropy(query.target_outputs, query.target_labels)
            return margins(query, shadow, target, self.per_class)

        return infer


def negative_modified_entropy(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return minus Mentr, ``(n,)``, nats: (1 - p_y) log p_y + sum over the other classes of p_i log(1 - p_i)."""
    true = outputs.gather(1, labels[:, None])
    is_true = torch.nn.functional.one_hot(labels, outputs.shape[1]).bool()
    others = (outputs * (1 - outputs).clamp(min=FLOOR).log()).masked_fill(is_true, 0).sum(dim=1)
    return ((1 - true) * true.clamp(min=FLOOR).log())[:, 0] + others


@hookimpl
def register_evaluators() -> list[MembershipEvaluator]:
    return [ModifiedEntropy(per_class=True), ModifiedEntropy(per_class=False)]
