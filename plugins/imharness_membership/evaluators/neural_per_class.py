"""The first NN attack: for each class a network learns membership from the outputs on rows of that class.

Shokri, Stronati, Song & Shmatikov, "Membership Inference Attacks Against Machine Learning Models" (IEEE S&P 2017),
section V: one hidden layer of 64 ReLU. Song & Mittal take from it that thresholds should depend on the class (USENIX
Security 2021, section 2.2.1). Ours learns from one shadow model, which Salem et al. (NDSS 2019) found to be enough.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.membership import InferMembership, Info, MembershipEvaluator, MembershipQuery, Scores, hookimpl
from imharness_membership.attack_training import LearntEvaluator

PART = 2048
"""The number of rows whose classes' weights are in memory at once."""


class PerClassNet(nn.Module):
    """Outputs ``(n, classes)`` and labels ``(n,)`` -> logit of membership ``(n,)`` by the network of the label."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.inside = nn.Parameter(torch.empty(classes, classes, width).uniform_(-1, 1) / classes**0.5)
        self.bias = nn.Parameter(torch.zeros(classes, width))
        self.outside = nn.Parameter(torch.empty(classes, width).uniform_(-1, 1) / width**0.5)
        self.shift = nn.Parameter(torch.zeros(classes))

    def forward(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        chunks = zip(outputs.split(PART), labels.split(PART), strict=True)
        return torch.cat([self._some(*chunk) for chunk in chunks])

    def _some(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(torch.einsum("nd,ndw->nw", outputs, self.inside[labels]) + self.bias[labels])
        return (hidden * self.outside[labels]).sum(dim=1) + self.shift[labels]


class NeuralPerClass(LearntEvaluator):
    """Predicts membership with one neural network for each class, trained on a shadow model's rows of the class."""

    info = Info(id="harness/neural-per-class", version="1", paper="shokri2017")
    opt_in = True
    width: int = Field(default=64, ge=1, le=8192, description="Units of the hidden layer.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the logit of the label's network, which is random for a class without shadow rows."""

        learn = self.learner(lambda inputs: PerClassNet(inputs[0].shape[1], self.width))

        def infer(query: MembershipQuery) -> Scores:
            network = learn((query.shadow_outputs, query.shadow_labels), query.shadow_member)
            with torch.no_grad():
                return network(query.target_outputs, query.target_labels)

        return infer


@hookimpl
def components() -> list[MembershipEvaluator]:
    return [NeuralPerClass()]
