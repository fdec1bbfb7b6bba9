"""InfoRMIA: how many bits the target's answer to a row gains over reference models, beyond the gain of a population.

Tao & Shokri, "(Token-Level) InfoRMIA: Stronger Membership Inference and Memorization Assessment for LLMs" (arXiv
2510.05582, ICLR 2026): log p(x | target) / p(x) + D(p(z) || p(z | target)) for a row x and a population z. This follows
the abstract, a summary with this formula and implementations by others; the paper itself was not read. p(x) is that of
RMIA. The divergence D is estimated from a population with weights p(z), as in the implementation that attacks
classifiers. D is the same for all rows of a model, so it moves thresholds but changes no rank.
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
        """Return the bits ``(m,)``; a row of the population has the weight p(z), the probability of its true class."""
        ratio, population_ratio, weights = self.ratios(observed, population, references, self.offline)
        population_bits = population_ratio.clamp(min=SMALLEST).log2()
        return ratio.clamp(min=SMALLEST).log2() - (weights * population_bits).sum() / weights.sum()


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [InfoRmia()]
