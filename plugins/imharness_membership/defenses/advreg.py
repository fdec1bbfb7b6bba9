"""AdvReg: the classifier is trained against a membership attacker that is trained at the same time.

Nasr, Shokri & Houmansadr, "Machine Learning with Membership Privacy using Adversarial Regularization" (CCS 2018),
algorithm 1; Song & Mittal, equations 2 and 3.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.data import seeded_init
from imharness.membership import (
    MembershipDefenseInfo,
    MembershipTraining,
    Progress,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    TrainTogether,
    hookimpl,
)
from imharness_membership.augmenting import augmented
from imharness_membership.descent import Adam, Descent
from imharness_membership.evaluators.neural import AttackNet
from imharness_membership.stacked import answers_of, stack_weights, unstack_weights
from imharness_membership.training import descent_of, faster_together, rate_after

CLASSES = 10
"""The number of classes of the example network by which `build_together` decides whether many attackers are trained at
once."""
ATTACKER_RATE = 1e-3
"""The attacker's learning rate."""


class AdvReg(MembershipTraining):
    """Adversarial regularisation: a penalty on what an attacker network finds out from the outputs."""

    info = MembershipDefenseInfo(id="harness/advreg", version="3", paper="nasr2018")
    weight: float = Field(default=3.0, gt=0, le=1000, description="Weight lambda of the attacker's gain.")
    width: int = Field(default=1024, ge=8, le=8192, description="Units of the attacker's first layer.")
    warm_up: int = Field(default=3, ge=0, description="Epochs without the penalty.")

    def build(self, device: torch.device) -> TrainPrivately:
        """Return adversarial training."""

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            attacker = self._attacker(network, data, rng)
            optimiser = descent_of(network.parameters(), plan)
            attacker_optimiser = Adam(attacker.parameters(), ATTACKER_RATE)
            network.train()
            for epoch in range(plan.epochs):
                for batch, others in _batches(data, plan.batch_size, rng):
                    if epoch >= self.warm_up:
                        self._attack(network, attacker, attacker_optimiser, data, batch, others)
                    logits = network(augmented(data.features[batch], plan, rng))
                    loss = F.cross_entropy(logits, data.labels[batch])
                    if epoch >= self.warm_up:
                        gain = F.logsigmoid(attacker(logits.softmax(dim=1), data.labels[batch])).mean()
                        loss = loss + self.weight * gain
                    optimiser.step(loss)
                optimiser.learning_rate = rate_after(plan, epoch + 1)
                progress(epoch + 1, plan.epochs)
            return network.eval()

        return train

    def build_together(self, device: torch.device, network: torch.nn.Module) -> TrainTogether | None:
        """Return the training of many small networks at once, each against its own attacker; None if it is no faster.

        Each network takes the same steps as in `build`. Weights and rows are stacked: their first dimension is the
        network.
        """
        if not faster_together(device, network, AttackNet(CLASSES, self.width)):
            return None

        def train(
            networks: Sequence[torch.nn.Module],
            data: Sequence[TrainingData],
            plan: TrainingPlan,
            rngs: Sequence[torch.Generator],
            progress: Progress,
        ) -> None:
            attackers = [self._attacker(*one) for one in zip(networks, data, rngs, strict=True)]
            weights, attacker_weights = stack_weights(networks), stack_weights(attackers)
            optimiser = descent_of(weights.values(), plan)
            attacker_optimiser = Adam(attacker_weights.values(), ATTACKER_RATE)
            features = torch.stack([one.features for one in data])
            labels = torch.stack([one.labels for one in data])
            others_x = torch.stack([one.reference_features for one in data])
            others_y = torch.stack([one.reference_labels for one in data])
            each = torch.arange(len(networks), device=device)[:, None]  # selects rows network by network
            answers, attacker_logits = answers_of(networks[0]), attackers[0].stacked
            for epoch in range(plan.epochs):
                networks[0].train()
                of_networks = [list(_batches(one, plan.batch_size, rng)) for one, rng in zip(data, rngs, strict=True)]
                for batches in zip(*of_networks, strict=True):  # a step: a batch of each network
                    batch = torch.stack([members for members, _ in batches])
                    others = torch.stack([nonmembers for _, nonmembers in batches])
                    x, y = features[each, batch], labels[each, batch]
                    if epoch >= self.warm_up:
                        mixed_x = torch.cat([x, others_x[each, others]], dim=1)
                        mixed_y = torch.cat([y, others_y[each, others]], dim=1)
                        with torch.no_grad():
                            outputs = answers(weights, mixed_x).softmax(dim=2)
                        truth = (torch.arange(mixed_y.shape[1], device=device) < batch.shape[1]).float()
                        logits = attacker_logits(attacker_weights, outputs, mixed_y)
                        losses = F.binary_cross_entropy_with_logits(logits, truth.expand_as(logits), reduction="none")
                        attacker_optimiser.step(losses.mean(dim=1).sum())
                    if plan.augmentation != "none":
                        x = torch.stack([augmented(features, plan, rng) for features, rng in zip(x, rngs, strict=True)])
                    logits = answers(weights, x)
                    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(y).mean(dim=1)
                    if epoch >= self.warm_up:
                        called_member = attacker_logits(attacker_weights, logits.softmax(dim=2), y)
                        loss = loss + self.weight * F.logsigmoid(called_member).mean(dim=1)
                    optimiser.step(loss.sum())
                optimiser.learning_rate = rate_after(plan, epoch + 1)
                unstack_weights(weights, networks)
                progress(epoch + 1, plan.epochs)
            for network in networks:
                network.eval()

        return train

    def _attacker(self, network: torch.nn.Module, data: TrainingData, rng: torch.Generator) -> AttackNet:
        with torch.no_grad():
            classes = network(data.features[:1]).shape[1]
        with seeded_init(rng):
            return AttackNet(classes, self.width).to(data.features.device)

    def _attack(
        self,
        network: torch.nn.Module,
        attacker: torch.nn.Module,
        optimiser: Descent,
        data: TrainingData,
        members: torch.Tensor,
        others: torch.Tensor,
    ) -> None:
        """Train the attacker for one step on members and as many other rows (equation 2)."""
        features = torch.cat([data.features[members], data.reference_features[others]])
        labels = torch.cat([data.labels[members], data.reference_labels[others]])
        truth = (torch.arange(len(labels), device=labels.device) < len(members)).float()
        with torch.no_grad():
            outputs = network(features).softmax(dim=1)
        optimiser.step(F.binary_cross_entropy_with_logits(attacker(outputs, labels), truth))


def _batches(data: TrainingData, size: int, rng: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield row numbers for each batch of an epoch: of members, and of as many rows outside the training set."""
    inside, outside = (
        torch.randperm(len(labels), generator=rng).to(labels.device) for labels in (data.labels, data.reference_labels)
    )
    for number, batch in enumerate(inside.split(size)):
        yield batch, outside[(torch.arange(len(batch)) + number * size) % len(outside)]


@hookimpl
def components() -> list[MembershipTraining]:
    return [AdvReg()]
