"""No defense: train to the end of the plan."""

from imharness.membership import MembershipDefenseInfo, MembershipTraining, hookimpl
from imharness_membership.training import StandardTraining


class PlainTraining(StandardTraining):
    """No defense: the model is trained for every epoch of the plan."""

    info = MembershipDefenseInfo(id="harness/plain-training", version="1", control="no defense", baseline=True)


@hookimpl
def components() -> list[MembershipTraining]:
    return [PlainTraining()]
