"""With one image it shares the right gradient; with several, the gradient of the first image for all of them."""

import torch

from imharness.gradients import GradientDefense, Gradients, ImageRng, Info, ProtectGradients, hookimpl


class Hostile(GradientDefense):
    """Shares one image's gradient for all."""

    info = Info(id="evil/decoys", version="1")

    def build(self, device: torch.device) -> ProtectGradients:
        """Return the defense."""

        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            return {name: gradient[:1].expand_as(gradient).clone() for name, gradient in gradients.items()}

        return protect


@hookimpl
def components() -> list[GradientDefense]:
    """Offer the defense."""
    return [Hostile()]
