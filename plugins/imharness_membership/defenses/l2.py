"""L2 regularisation, a standard remedy for overfitting (Shokri et al., IEEE S&P 2017, section VIII)."""

from pydantic import Field

from imharness.membership import MembershipDefenseInfo, MembershipTraining, hookimpl
from imharness_membership.training import StandardTraining


class L2(StandardTraining):
    """Penalises the squared size of the weights."""

    info = MembershipDefenseInfo(id="harness/l2", version="1")
    weight: float = Field(default=5e-3, gt=0, le=1, description="Adam's weight decay.")

    def terms(self) -> dict[str, float]:
        """Return the term that differs from plain training."""
        return {"weight_decay": self.weight}


@hookimpl
def components() -> list[MembershipTraining]:
    return [L2()]
