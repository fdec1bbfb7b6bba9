"""Modified entropy: it is zero only when the model is certain of the true class.

Song & Mittal (USENIX Security 2021), equations 8 and 9.
"""

import torch

from imharness.membership import Info, MembershipEvaluator, hookimpl
from imharness_membership.likelihood import FLOOR
from imharness_membership.thresholds import ThresholdEvaluator


class ModifiedEntropy(ThresholdEvaluator):
    """Predicts membership from an entropy that takes the true class into account."""

    info = Info(id="harness/modified-entropy", version="1", paper="song2021")

    def value(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return minus Mentr, ``(n,)``, nats: (1 - p_y) log p_y + sum over the other classes of p_i log(1 - p_i)."""
        true = outputs.gather(1, labels[:, None])
        is_true = torch.nn.functional.one_hot(labels, outputs.shape[1]).bool()
        others = (outputs * (1 - outputs).clamp(min=FLOOR).log()).masked_fill(is_true, 0).sum(dim=1)
        return ((1 - true) * true.clamp(min=FLOOR).log())[:, 0] + others


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [ModifiedEntropy(per_class=True), ModifiedEntropy(per_class=False)]
