"""Gradient pruning: share only the largest coordinates (Zhu et al., NeurIPS 2019, section 5.2)."""

import torch
from pydantic import Field

from imharness.gradients import GradientDefense, Gradients, ImageRng, Info, ProtectGradients, hookimpl


class GradientPruning(GradientDefense):
    """Sets the smallest coordinates of each tensor of the gradient to zero."""

    info = Info(id="harness/gradient-pruning", version="1")
    share: float = Field(
        default=0.7, gt=0, lt=1, description="Share of the coordinates of each tensor that are set to zero."
    )

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            return {name: pruned(g, self.share) for name, g in gradients.items()}

        return protect


def pruned(gradient: torch.Tensor, share: float) -> torch.Tensor:
    """Return ``(N, ...)`` with the `share` smallest magnitudes of each image's tensor set to zero."""
    size = gradient.flatten(1).abs()
    dropped = int(share * size.shape[1])
    if dropped == 0:
        return gradient
    limit = size.kthvalue(dropped, dim=1).values
    return gradient * (size > limit[:, None]).view(gradient.shape)


@hookimpl
def components() -> list[GradientDefense]:
    return [GradientPruning()]
