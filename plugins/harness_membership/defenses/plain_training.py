"""No defense: train to the end of the plan."""

import torch

from harness.api import (
    MembershipDefenseInfo,
    MembershipTraining,
    Progress,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    hookimpl,
)
from harness_membership.training import epochs


class PlainTraining(MembershipTraining):
    """No defense: the model is trained for every epoch of the plan."""

    info = MembershipDefenseInfo(id="harness/plain-training", version="1", baseline=True)

    def build(self, device: torch.device) -> TrainPrivately:
        """Return plain training."""

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            for done in epochs(network, data, plan, rng):
                progress(done, plan.epochs)
            return network.eval()

        return train


@hookimpl
def register_defenses() -> list[MembershipTraining]:
    return [PlainTraining()]
