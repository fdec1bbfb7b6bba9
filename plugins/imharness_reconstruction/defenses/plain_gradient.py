"""No defense: the gradient is shared as it is."""

import torch

from imharness.gradients import GradientDefense, Gradients, ImageRng, Info, ProtectGradients, hookimpl


class PlainGradient(GradientDefense):
    """No defense: the gradient is shared as it is."""

    info = Info(id="harness/plain-gradient", version="1", control="no defense")

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            return gradients

        return protect


@hookimpl
def components() -> list[GradientDefense]:
    return [PlainGradient()]
