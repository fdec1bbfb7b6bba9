"""Early stopping: keep the epoch that does best on rows outside the training set, or that matches a defended model.

Song & Mittal (USENIX Security 2021), section 3.2.1: any defense that costs accuracy has to beat plain training stopped
at the same accuracy.
"""

import copy

import torch
from pydantic import Field

from imharness.membership import (
    MembershipDefenseInfo,
    MembershipTraining,
    Progress,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    hookimpl,
)
from imharness_membership.training import accuracy, epochs, logits_of


class EarlyStopping(MembershipTraining):
    """Keeps the epoch with the lowest loss on reference rows, or the one closest to a given accuracy there.

    If an accuracy is given, only epochs count that are more accurate than all before them: any other epoch has the same
    accuracy at the price of more training, so that it gives away more about members.
    """

    info = MembershipDefenseInfo(id="harness/early-stopping", version="2", paper="song2021")
    patience: int = Field(default=3, ge=1, le=1000, description="Epochs without a lower loss before stopping.")
    accuracy: float | None = Field(
        default=None, ge=0, le=1, description="Keep the epoch whose accuracy on reference rows is closest to this."
    )

    def build(self, device: torch.device) -> TrainPrivately:
        """Return training with early stopping."""

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            lowest_cost, best_state = float("inf"), copy.deepcopy(network.state_dict())
            waited = 0  # epochs since the best one
            highest_accuracy = -1.0
            for done in epochs(network, data, plan, rng):
                progress(done, plan.epochs)
                if self.accuracy is None:
                    cost = _loss(network, data)
                else:
                    share = accuracy(network, data.reference_features, data.reference_labels)
                    cost = abs(share - self.accuracy) if share > highest_accuracy else float("inf")
                    highest_accuracy = max(highest_accuracy, share)
                waited += 1
                if cost < lowest_cost:
                    lowest_cost, best_state = cost, copy.deepcopy(network.state_dict())
                    waited = 0
                if self.accuracy is None and waited >= self.patience:
                    break
            network.load_state_dict(best_state)
            return network.eval()

        return train


def _loss(network: torch.nn.Module, data: TrainingData) -> float:
    """Return the cross-entropy on reference rows."""
    logits = logits_of(network.eval(), data.reference_features)
    return float(torch.nn.functional.cross_entropy(logits, data.reference_labels))


@hookimpl
def components() -> list[MembershipTraining]:
    return [EarlyStopping()]
