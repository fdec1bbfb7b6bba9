"""Label smoothing (Szegedy et al., CVPR 2016): the true class is asked for less than certainty."""

import torch
from pydantic import Field

from harness.api import MembershipDefenseInfo, MembershipTraining, TrainPrivately, hookimpl
from harness_membership.training import to_the_end


class LabelSmoothing(MembershipTraining):
    """Trains towards labels of which a share is spread over all classes."""

    info = MembershipDefenseInfo(id="harness/label-smoothing", version="1")
    share: float = Field(default=0.2, gt=0, lt=1, description="Of the label that is spread.")

    def build(self, device: torch.device) -> TrainPrivately:
        """Return training with smooth labels."""
        return to_the_end(label_smoothing=self.share)


@hookimpl
def register_defenses() -> list[MembershipTraining]:
    return [LabelSmoothing()]
