"""Label-only: members lie further from the decision boundary; noise estimates the distance without probabilities.

Choquette-Choo, Tramer, Carlini & Papernot, "Label-Only Membership Inference Attacks" (ICML 2021), section 4.2: the
share of noisy copies that keep their label estimates the distance to the boundary.
"""

import torch
from pydantic import Field

from imharness.errors import HarnessError
from imharness.membership import Evidence, InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl
from imharness_membership.thresholds import margins


class LabelOnly(MembershipEvaluator):
    """Predicts membership from how often noisy copies of a row are classified right."""

    info = Info(id="harness/label-only", version="1", paper="choquette-choo2021")
    needs_labels = True
    reads = frozenset[Evidence]({"robustness"})
    per_class: bool = Field(default=False, description="One threshold per class; otherwise one for all.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: share of right answers minus a threshold learnt on shadow data."""

        def infer(query: MembershipQuery) -> Scores:
            if query.robustness is None:
                raise HarnessError(f"{self.label} needs answers to noisy rows; the query has none")
            return margins(query, query.robustness.shadow, query.robustness.target, self.per_class)

        return infer


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [LabelOnly()]
