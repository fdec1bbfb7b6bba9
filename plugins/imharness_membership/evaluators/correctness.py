"""Correctness: a row is called a member when the model classifies it correctly.

Song & Mittal, "Systematic Evaluation of Privacy Risks of Machine Learning Models"
(USENIX Security 2021), equation 5.
"""

import torch

from imharness.membership import InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl


class Correctness(MembershipEvaluator):
    """Predicts membership from whether the prediction is right; needs no shadow model."""

    info = Info(id="harness/correctness", version="1", paper="song2021")
    needs_labels = True

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: +1/2 for a right prediction, -1/2 for a wrong one."""

        def infer(query: MembershipQuery) -> Scores:
            return (query.target_outputs.argmax(dim=1) == query.target_labels).float() - 0.5

        return infer


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [Correctness()]
