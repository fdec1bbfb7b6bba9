"""L2 regularisation, a standard means against overfitting (Shokri et al., IEEE S&P 2017, section VIII)."""

import torch
from pydantic import Field

from harness.api import MembershipDefenseInfo, MembershipTraining, TrainPrivately, hookimpl
from harness_membership.training import to_the_end


class L2(MembershipTraining):
    """Penalises the squared size of the weights."""

    info = MembershipDefenseInfo(id="harness/l2", version="1")
    weight: float = Field(default=5e-3, gt=0, le=1, description="Weight decay of Adam.")

    def build(self, device: torch.device) -> TrainPrivately:
        """Return training with weight decay."""
        return to_the_end(weight_decay=self.weight)


@hookimpl
def register_defenses() -> list[MembershipTraining]:
    return [L2()]
