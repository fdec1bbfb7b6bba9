"""Entropy: members tend to have more certain predictions.

Song & Mittal (USENIX Security 2021), equation 7.
"""

import torch

from imharness.membership import Info, MembershipEvaluator, hookimpl
from imharness_membership.likelihood import FLOOR
from imharness_membership.thresholds import ThresholdEvaluator


class Entropy(ThresholdEvaluator):
    """Predicts membership from the entropy of the prediction."""

    info = Info(id="harness/entropy", version="1", paper="song2021")

    def value(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return minus the entropy, ``(n,)``, nats."""
        return (outputs * outputs.clamp(min=FLOOR).log()).sum(dim=1)


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Entropy(per_class=True), Entropy(per_class=False)]
