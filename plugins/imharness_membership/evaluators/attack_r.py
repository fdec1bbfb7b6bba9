"""Attack-R: a threshold for each row, a quantile of the answers of reference models that were not trained on it.

Ye, Maddi, Murakonda, Bindschaedler & Shokri, "Enhanced Membership Inference Attacks against Machine Learning Models"
(CCS 2022).
"""

import torch

from imharness.membership import Info, MembershipEvaluator, References, hookimpl
from imharness_membership.likelihood import ReferenceEvaluator


class AttackR(ReferenceEvaluator):
    """Takes the share of reference models, not trained on the row, that are less sure of it than the target is."""

    info = Info(id="harness/attack-r", version="1", paper="ye2022")

    def statistic(
        self, observed: torch.Tensor, population: torch.Tensor, references: References, trained: int
    ) -> torch.Tensor:
        """Return the share of references whose log odds are at most the target's, ``(m,)``.

        Rows with equal shares are ordered by the mean difference of log odds. A row on which every reference was
        trained is compared with all of them.
        """
        out = ~references.member
        out = torch.where(out.any(dim=0), out, torch.ones_like(out))
        count, gaps = out.sum(dim=0), (observed - references.log_odds) * out
        beaten = ((gaps >= 0) & out).sum(dim=0)
        return (beaten + 0.5 * (gaps.sum(dim=0) / count).sigmoid()) / count


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [AttackR()]
