"""AdvReg: the classifier is trained against a membership attacker that is trained with it.

Nasr, Shokri & Houmansadr, "Machine Learning with Membership Privacy using Adversarial Regularization" (CCS 2018),
algorithm 1; Song & Mittal, equations 2 and 3.
"""

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
    hookimpl,
)
from imharness_membership.evaluators.neural import AttackNet
from imharness_membership.training import optimiser_of


class AdvReg(MembershipTraining):
    """Adversarial regularisation: a penalty for what an attacker network finds out from the outputs."""

    info = MembershipDefenseInfo(id="harness/advreg", version="1", paper="nasr2018")
    weight: float = Field(default=3.0, gt=0, le=1000, description="Weight lambda of the attacker's gain.")
    width: int = Field(default=1024, ge=8, le=8192, description="Units of the attacker's first layer.")
    warm_up: int = Field(default=3, ge=0, description="Epochs without the penalty.")

    def build(self, device: torch.device) -> TrainPrivately:
        """Return adversarial training."""

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            with torch.no_grad():
                classes = network(data.features[:1]).shape[1]
            with seeded_init(rng):
                attacker = AttackNet(classes, self.width).to(device)
            ours, theirs = optimiser_of(network, plan), torch.optim.Adam(attacker.parameters(), lr=1e-3)
            network.train()
            for epoch in range(plan.epochs):
                inside, outside = (
                    torch.randperm(len(labels), generator=rng).to(device)
                    for labels in (data.labels, data.reference_labels)
                )
                for number, batch in enumerate(inside.split(plan.batch_size)):
                    others = outside[(torch.arange(len(batch)) + number * plan.batch_size) % len(outside)]
                    if epoch >= self.warm_up:
                        self._attack(network, attacker, theirs, data, batch, others)
                    logits = network(data.features[batch])
                    loss = F.cross_entropy(logits, data.labels[batch])
                    if epoch >= self.warm_up:
                        gain = F.logsigmoid(attacker(logits.softmax(dim=1), data.labels[batch])).mean()
                        loss = loss + self.weight * gain
                    ours.zero_grad(set_to_none=True)
                    loss.backward()
                    ours.step()
                progress(epoch + 1, plan.epochs)
            return network.eval()

        return train

    def _attack(
        self,
        network: torch.nn.Module,
        attacker: torch.nn.Module,
        optimiser: torch.optim.Optimizer,
        data: TrainingData,
        members: torch.Tensor,
        others: torch.Tensor,
    ) -> None:
        """Improve the attacker by one step (equation 2)."""
        features = torch.cat([data.features[members], data.reference_features[others]])
        labels = torch.cat([data.labels[members], data.reference_labels[others]])
        truth = (torch.arange(len(labels), device=labels.device) < len(members)).float()
        with torch.no_grad():
            outputs = network(features).softmax(dim=1)
        loss = F.binary_cross_entropy_with_logits(attacker(outputs, labels), truth)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()


@hookimpl
def components() -> list[MembershipTraining]:
    return [AdvReg()]
