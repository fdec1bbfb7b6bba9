"""The privacy risk score as an evaluator: member if the probability of membership is at least one half.

Song & Mittal (USENIX Security 2021), section 4.1, equations 10 to 15.
"""

import torch
from pydantic import Field

from imharness.membership import InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.risk import risk_scores


class PrivacyRisk(MembershipEvaluator):
    """Predicts membership from the privacy risk score of a row."""

    info = Info(id="harness/privacy-risk", version="1", paper="song2021")
    prior: float = Field(default=0.5, gt=0, lt=1, description="Probability of membership before anything is seen.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the score minus one half."""

        def infer(query: MembershipQuery) -> Scores:
            values = ModifiedEntropy().values
            shadow, target = (
                -values(outputs, labels).cpu().numpy()
                for outputs, labels in (
                    (query.shadow_outputs, query.shadow_labels),
                    (query.target_outputs, query.target_labels),
                )
            )
            risks = risk_scores(
                shadow,
                query.shadow_member.cpu().numpy(),
                query.shadow_labels.cpu().numpy(),
                target,
                query.target_labels.cpu().numpy(),
                query.shadow_outputs.shape[1],
                self.prior,
            )
            return torch.from_numpy(risks - 0.5).float().to(query.target_outputs.device)

        return infer


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [PrivacyRisk()]
