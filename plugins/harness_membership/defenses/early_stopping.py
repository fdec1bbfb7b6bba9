"""Early stopping: keep the epoch that does best on rows outside the training set.

Song & Mittal (USENIX Security 2021), section 5.2.3, use it as the benchmark that any defense should beat.
"""

import copy

import torch
from pydantic import Field

from harness.api import (
    MembershipDefenseInfo,
    MembershipTraining,
    Paper,
    Progress,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    hookimpl,
)
from harness_membership.training import epochs


class EarlyStopping(MembershipTraining):
    """Stops when the loss on reference rows has not fallen for some epochs, and keeps the best weights."""

    info = MembershipDefenseInfo(
        id="harness/early-stopping",
        version="1",
        paper=Paper(
            title="Systematic Evaluation of Privacy Risks of Machine Learning Models",
            authors="Song & Mittal",
            year=2021,
            url="https://arxiv.org/abs/2003.10595",
        ),
    )
    patience: int = Field(default=3, ge=1, le=1000, description="Epochs without a lower loss before stopping.")

    def build(self, device: torch.device) -> TrainPrivately:
        """Return training with early stopping."""

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            best, kept, waited = float("inf"), copy.deepcopy(network.state_dict()), 0
            for done in epochs(network, data, plan, rng):
                progress(done, plan.epochs)
                with torch.no_grad():
                    logits = network.eval()(data.reference_features)
                    loss = float(torch.nn.functional.cross_entropy(logits, data.reference_labels))
                if loss < best:
                    best, kept, waited = loss, copy.deepcopy(network.state_dict()), 0
                    continue
                waited += 1
                if waited >= self.patience:
                    break
            network.load_state_dict(kept)
            return network.eval()

        return train


@hookimpl
def register_defenses() -> list[MembershipTraining]:
    return [EarlyStopping()]
