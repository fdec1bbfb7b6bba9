"""Attack-P: one threshold for all rows, a quantile of the log odds of rows on which the model was not trained.

Ye, Maddi, Murakonda, Bindschaedler & Shokri, "Enhanced Membership Inference Attacks against Machine Learning Models"
(CCS 2022).
"""

import torch
from pydantic import Field

from imharness.membership import InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl
from imharness_membership.likelihood import log_odds


class AttackP(MembershipEvaluator):
    """Predicts membership where few rows of non-members have as large log odds of their true class."""

    info = Info(id="harness/attack-p", version="1", paper="ye2022")
    alpha: float = Field(default=0.1, gt=0, lt=1, description="Share of non-members that is accused.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: alpha minus the share of non-members whose log odds are at least those of the row.

        Rows with the same share are ordered by their log odds. The attack learns nothing from members.
        """

        def infer(query: MembershipQuery) -> Scores:
            outside = ~query.shadow_member
            population = log_odds(query.shadow_outputs[outside], query.shadow_labels[outside]).sort().values
            observed = log_odds(query.target_outputs, query.target_labels)
            above = len(population) - torch.searchsorted(population, observed)
            return self.alpha - (above + 1 + 0.5 * (-observed).sigmoid()) / (len(population) + 1)

        return infer


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [AttackP()]
