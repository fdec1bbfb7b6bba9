"""InfoRMIA: how many bits of information the target's answer has about a row, beyond those about a population.

Tao & Shokri, "(Token-Level) InfoRMIA: Stronger Membership Inference and Memorization Assessment for LLMs" (arXiv
2510.05582, ICLR 2026): log p(x | target) / p(x) + D(p(z) || p(z | target)). The abstract, a summary with this formula
and implementations by others were read, not the paper. p(x) is RMIA's, and the divergence is estimated from a
population with weights p(z), as in the one of them that attacks classifiers. It is the same for all rows of a model: it
moves thresholds, and no rank.
"""

import torch

from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood_ratio import OFFLINE, SMALLEST, RatioEvaluator


class InfoRmia(RatioEvaluator):
    """The log of a row's likelihood ratio, in bits, less its mean over a population."""

    info = Info(id="harness/informia", version="1", paper="tao2026")
    opt_in = True
    offline: float = OFFLINE

    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return the bits; a population row counts as much as p(z), the probability that models give its class."""
        ratio, theirs, weights = self.ratios(observed, population, references, self.offline)
        gained = theirs.clamp(min=SMALLEST).log2()
        return ratio.clamp(min=SMALLEST).log2() - (weights * gained).sum() / weights.sum()


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [InfoRmia()]
