"""The base of attacks by a neural network, which learns membership from a shadow model's rows."""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.data import generator, seeded_init
from imharness.membership import MembershipEvaluator
from imharness_membership.descent import Adam

Learn = Callable[[Sequence[torch.Tensor], torch.Tensor], nn.Module]
"""Inputs, and membership bool ``(n,)`` -> the network that was trained on them."""
KEPT = 8
"""The number of trained networks that stay in memory, for further targets that the same shadow rows attack."""


class LearntEvaluator(MembershipEvaluator):
    """Trains a network on shadow rows whose membership is known."""

    epochs: int = Field(default=30, ge=1, le=10_000, description="Training epochs.")
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Adam's learning rate.")
    batch_size: int = Field(default=128, ge=1, description="Rows per training step.")
    seed: int = Field(default=0, ge=0, description="Seed of the initialisation and of the order of rows.")

    def learner(self, make: Callable[[Sequence[torch.Tensor]], nn.Module]) -> Learn:
        """Return a function that trains a network to tell members from non-members.

        `make` returns the untrained network for the inputs; it maps rows of the inputs to logits of membership
        ``(n,)``. For inputs on which it trained before, the function returns the same network again.
        """
        learned: deque[tuple[list[str], nn.Module]] = deque(maxlen=KEPT)

        def learn(inputs: Sequence[torch.Tensor], member: torch.Tensor) -> nn.Module:
            shadow = [_digest(tensor) for tensor in (*inputs, member)]
            for earlier, network in learned:
                if earlier == shadow:
                    return network
            rng = generator(self.seed)
            with torch.enable_grad(), seeded_init(rng):
                network = make(inputs).to(member.device)
                self._learn(network, inputs, member, rng)
            learned.append((shadow, network))
            return network

        return learn

    def _learn(
        self, network: nn.Module, inputs: Sequence[torch.Tensor], member: torch.Tensor, rng: torch.Generator
    ) -> None:
        optimiser = Adam(network.parameters(), self.learning_rate)
        truth = member.float()
        for _ in range(self.epochs):
            order = torch.randperm(len(truth), generator=rng).to(truth.device)
            for batch in order.split(self.batch_size):
                batch_inputs = self.hardened(network, [tensor[batch] for tensor in inputs], truth[batch])
                optimiser.step(F.binary_cross_entropy_with_logits(network(*batch_inputs), truth[batch]))

    def hardened(
        self, network: nn.Module, inputs: Sequence[torch.Tensor], truth: torch.Tensor
    ) -> Sequence[torch.Tensor]:
        """Return the inputs on which a training step trains; a subclass may perturb them, here they stay as they are.

        `inputs`: the rows of the batch; `truth`: their membership, float ``(b,)``.
        """
        return inputs


def _digest(values: torch.Tensor) -> str:
    """Return the digest of a tensor's type, shape and numbers; the tensors themselves are too large to keep."""
    digest = hashlib.sha256(repr((values.dtype, values.shape)).encode())
    digest.update(values.cpu().contiguous().numpy())
    return digest.hexdigest()
