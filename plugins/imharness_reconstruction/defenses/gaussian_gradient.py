"""Gaussian noise on the gradient (Zhu et al., NeurIPS 2019, section 5.1)."""

import torch
from pydantic import Field

from imharness.gradients import GradientDefense, Gradients, ImageRng, Info, ProtectGradients, hookimpl


class GaussianGradient(GradientDefense):
    """Adds white Gaussian noise to every coordinate of the gradient."""

    info = Info(id="harness/gaussian-gradient", version="1")
    sigma: float = Field(default=1e-3, gt=0, le=10, description="Standard deviation.")

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            return {name: g + self.sigma * rng.normal(*g.shape[1:]) for name, g in gradients.items()}

        return protect


@hookimpl
def components() -> list[GradientDefense]:
    return [GaussianGradient()]
