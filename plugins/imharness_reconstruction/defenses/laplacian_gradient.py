"""Laplacian noise on the gradient (Zhu et al., NeurIPS 2019, section 5.1)."""

import torch
from pydantic import Field

from imharness.gradients import GradientDefense, Gradients, ImageRng, Info, ProtectGradients, hookimpl


class LaplacianGradient(GradientDefense):
    """Adds Laplacian noise to every coordinate of the gradient."""

    info = Info(id="harness/laplacian-gradient", version="1")
    sigma: float = Field(default=1e-3, gt=0, le=10, description="Standard deviation.")

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            return {name: g + self.sigma * laplacian(rng, g.shape[1:]) for name, g in gradients.items()}

        return protect


def laplacian(rng: ImageRng, shape: torch.Size) -> torch.Tensor:
    """Return Laplace-distributed numbers of mean 0 and variance 1, ``(N, *shape)``, by inverting the distribution."""
    half = rng.uniform(*shape) - 0.5
    return -half.sign() * torch.log1p(-2 * half.abs().clamp(max=0.5 - 1e-7)) / 2**0.5


@hookimpl
def components() -> list[GradientDefense]:
    return [LaplacianGradient()]
