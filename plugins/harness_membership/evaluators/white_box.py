"""The white-box attack: a network learns on gradients, outputs and labels of a shadow model who is a member.

Nasr, Shokri & Houmansadr, "Comprehensive Privacy Analysis of Deep Learning" (IEEE S&P 2019), section III: gradients of
the last layer, which tell most, go through a convolution that spans the layer's inputs; outputs, loss and label have
branches of their own. Convolutions over earlier layers are left out.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from harness.api import (
    ContractError,
    Evidence,
    InferMembership,
    Info,
    LastLayerGradients,
    MembershipEvaluator,
    MembershipQuery,
    Paper,
    Scores,
    generator,
    hookimpl,
    seeded_init,
)
from harness_membership.likelihood import log_odds

FILTERS = 32


class WhiteBoxNet(nn.Module):
    """Error ``(n, classes)``, features ``(n, d)``, labels ``(n,)`` -> logit of membership ``(n,)``."""

    def __init__(self, classes: int, size: int, width: int) -> None:
        super().__init__()
        self.filters = nn.Linear(size, FILTERS)
        self.gradient = nn.Sequential(nn.Linear(classes * FILTERS, width), nn.ReLU(), nn.Linear(width, 64), nn.ReLU())
        self.outputs = nn.Sequential(nn.Linear(2 * classes + 1, width), nn.ReLU(), nn.Linear(width, 64), nn.ReLU())
        self.joined = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, error: torch.Tensor, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        known = F.one_hot(labels, error.shape[1]).to(error.dtype)
        outputs = error + known
        gradient = F.relu(self.filters(error[:, :, None] * features[:, None, :])).flatten(1)
        seen = torch.cat([outputs, known, log_odds(outputs, labels)[:, None]], dim=1)
        return self.joined(torch.cat([self.gradient(gradient), self.outputs(seen)], dim=1))[:, 0]


class WhiteBox(MembershipEvaluator):
    """Predicts membership from last-layer gradients, outputs and labels, with a network trained on a shadow model."""

    info = Info(
        id="harness/white-box",
        version="1",
        paper=Paper(
            title="Comprehensive Privacy Analysis of Deep Learning",
            authors="Nasr, Shokri & Houmansadr",
            year=2019,
            url="https://arxiv.org/abs/1812.00910",
        ),
    )
    reads = frozenset[Evidence]({"gradients"})
    epochs: int = Field(default=30, ge=1, le=10_000, description="Of training.")
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Of Adam.")
    batch_size: int = Field(default=128, ge=1, description="Rows per training step.")
    width: int = Field(default=256, ge=8, le=8192, description="Of the first layer of each branch.")
    seed: int = Field(default=0, ge=0, description="Of initialisation and order.")

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator: the logit of the network."""

        def infer(query: MembershipQuery) -> Scores:
            if query.gradients is None:
                raise ContractError(f"{self.info.id} needs gradients; run it in a track, which has the model")
            rng, seen = generator(self.seed), query.gradients
            with torch.enable_grad(), seeded_init(rng):
                network = WhiteBoxNet(seen.shadow_error.shape[1], seen.shadow_features.shape[1], self.width).to(device)
                self._train(network, query, seen, rng)
            with torch.no_grad():
                parts = (seen.target_error, seen.target_features, query.target_labels)
                return torch.cat([network(*rows) for rows in zip(*(p.split(4096) for p in parts), strict=True)])

        return infer

    def _train(
        self, network: nn.Module, query: MembershipQuery, seen: LastLayerGradients, rng: torch.Generator
    ) -> None:
        optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        truth = query.shadow_member.float()
        for _ in range(self.epochs):
            order = torch.randperm(len(truth), generator=rng).to(truth.device)
            for batch in order.split(self.batch_size):
                logits = network(seen.shadow_error[batch], seen.shadow_features[batch], query.shadow_labels[batch])
                loss = F.binary_cross_entropy_with_logits(logits, truth[batch])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()


@hookimpl
def register_evaluators() -> list[MembershipEvaluator]:
    return [WhiteBox()]
