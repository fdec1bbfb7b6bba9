"""No defense: train to the end of the plan."""

import torch

from harness.api import MembershipDefenseInfo, MembershipTraining, TrainPrivately, hookimpl
from harness_membership.training import to_the_end


class PlainTraining(MembershipTraining):
    """No defense: the model is trained for every epoch of the plan."""

    info = MembershipDefenseInfo(id="harness/plain-training", version="1", baseline=True)

    def build(self, device: torch.device) -> TrainPrivately:
        """Return plain training."""
        return to_the_end()


@hookimpl
def register_defenses() -> list[MembershipTraining]:
    return [PlainTraining()]
