"""Label smoothing (Szegedy et al., CVPR 2016): the target of the true class is less than 1."""

from pydantic import Field

from imharness.membership import MembershipDefenseInfo, MembershipTraining, hookimpl
from imharness_membership.training import StandardTraining


class LabelSmoothing(StandardTraining):
    """Trains with labels of which a share is spread over all classes."""

    info = MembershipDefenseInfo(id="harness/label-smoothing", version="1")
    share: float = Field(default=0.2, gt=0, lt=1, description="Share of the label that is spread over all classes.")

    def terms(self) -> dict[str, float]:
        """Return the term that differs from plain training."""
        return {"label_smoothing": self.share}


@hookimpl
def components() -> list[MembershipTraining]:
    return [LabelSmoothing()]
