"""The shared part of attacks by a neural network: it learns from a shadow model's rows who was a member."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.membership import MembershipEvaluator


class LearntEvaluator(MembershipEvaluator):
    """Trains a network on shadow rows whose membership is known."""

    epochs: int = Field(default=30, ge=1, le=10_000, description="Training epochs.")
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Learning rate of Adam.")
    batch_size: int = Field(default=128, ge=1, description="Rows per training step.")
    seed: int = Field(default=0, ge=0, description="Seed of the initialisation and of the order of rows.")

    def learn(
        self, network: nn.Module, inputs: Sequence[torch.Tensor], member: torch.Tensor, rng: torch.Generator
    ) -> None:
        """Train a network that maps rows of `inputs` to logits of membership ``(n,)``."""
        optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        truth = member.float()
        for _ in range(self.epochs):
            order = torch.randperm(len(truth), generator=rng).to(truth.device)
            for batch in order.split(self.batch_size):
                loss = F.binary_cross_entropy_with_logits(network(*(x[batch] for x in inputs)), truth[batch])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
