"""The NN attack: a network learns on shadow outputs and labels who is a member.

Nasr, Shokri & Houmansadr, "Machine Learning with Membership Privacy using Adversarial Regularization" (CCS 2018),
section 4.3: one branch for the outputs, one for the label, both joined; as benchmarked by Song & Mittal.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from harness.api import (
    InferMembership,
    Info,
    MembershipEvaluator,
    MembershipQuery,
    Paper,
    Scores,
    generator,
    hookimpl,
    seeded_init,
)


class AttackNet(nn.Module):
    """Outputs ``(n, classes)`` and labels ``(n,)`` -> logit of membership ``(n,)``."""

    def __init__(self, classes: int, width: int = 1024) -> None:
        super().__init__()
        self.outputs = _layers(classes, width, width // 2, 64)
        self.labels = _layers(classes, width // 2, 64)
        self.joined = nn.Sequential(*_layers(128, width // 4, 64), nn.Linear(64, 1))

    def forward(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        known = F.one_hot(labels, outputs.shape[1]).to(outputs.dtype)
        return self.joined(torch.cat([self.outputs(outputs), self.labels(known)], dim=1))[:, 0]


def _layers(*widths: int) -> nn.Sequential:
    return nn.Sequential(*(m for i, o in pairwise(widths) for m in (nn.Linear(i, o), nn.ReLU())))


class Neural(MembershipEvaluator):
    """Predicts membership with a neural network trained on shadow outputs and labels."""

    info = Info(
        id="harness/neural",
        version="1",
        paper=Paper(
            title="Machine Learning with Membership Privacy using Adversarial Regularization",
            authors="Nasr, Shokri & Houmansadr",
            year=2018,
            url="https://arxiv.org/abs/1807.05852",
        ),
    )
    epochs: int = Field(default=30, ge=1, le=10_000, description="Of training.")
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Of Adam.")
    batch_size: int = Field(default=128, ge=1, description="Rows per training step.")
    width: int = Field(default=1024, ge=8, le=8192, description="Of the first layer; the others follow.")
    seed: int = Field(default=0, ge=0, description="Of initialisation and order.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the logit of the network."""

        def infer(query: MembershipQuery) -> Scores:
            rng = generator(self.seed)
            with torch.enable_grad(), seeded_init(rng):
                network = AttackNet(query.shadow_outputs.shape[1], self.width).to(device)
                self._train(network, query, rng)
            with torch.no_grad():
                return network(query.target_outputs, query.target_labels)

        return infer

    def _train(self, network: nn.Module, query: MembershipQuery, rng: torch.Generator) -> None:
        optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        truth = query.shadow_member.float()
        for _ in range(self.epochs):
            order = torch.randperm(len(truth), generator=rng).to(truth.device)
            for batch in order.split(self.batch_size):
                logits = network(query.shadow_outputs[batch], query.shadow_labels[batch])
                loss = F.binary_cross_entropy_with_logits(logits, truth[batch])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()


@hookimpl
def register_evaluators() -> list[MembershipEvaluator]:
    return [Neural()]
