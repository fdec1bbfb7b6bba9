"""Labels instead of probabilities, the most that confidence masking can hide (Shokri et al., IEEE S&P 2017, VIII)."""

import torch
from torch.nn.functional import one_hot

from imharness.membership import DefenderOutputs, MembershipDefenseInfo, MembershipRelease, ReleaseOutputs, hookimpl


class LabelRelease(MembershipRelease):
    """Releases the most likely class alone, as a probability of 1."""

    info = MembershipDefenseInfo(id="harness/label-release", version="1", paper="shokri2017")
    opt_in = True

    def build(self, device: torch.device) -> ReleaseOutputs:
        """Return the release; of equally likely classes it names the first."""

        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            return one_hot(outputs.argmax(dim=1), outputs.shape[1]).to(outputs.dtype)

        return release


@hookimpl
def components() -> list[MembershipRelease]:
    return [LabelRelease()]
