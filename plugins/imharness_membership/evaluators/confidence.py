"""Confidence: members tend to have a higher probability of their true class.

Song & Mittal (USENIX Security 2021), equation 6.
"""

import torch

from imharness.membership import Info, MembershipEvaluator, hookimpl
from imharness_membership.thresholds import ThresholdEvaluator


class Confidence(ThresholdEvaluator):
    """Predicts membership from the probability of the true class."""

    info = Info(id="harness/confidence", version="1", paper="song2021")

    def value(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the probability of the true class, ``(n,)`` in [0, 1]."""
        return outputs.gather(1, labels[:, None])[:, 0]


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Confidence(per_class=True), Confidence(per_class=False)]
