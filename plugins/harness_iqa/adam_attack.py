"""What the attacks share that run Adam on the pixels: they differ in what they minimise."""

from abc import abstractmethod
from collections.abc import Callable

import torch
from pydantic import Field

from harness.api import Attack, Budget, ImageRng, Images, Perturb, Target

STRENGTHS = {
    "weak": {"learning_rate": 0.2 / 255},
    "medium": {"learning_rate": 0.4 / 255},
    "strong": {"learning_rate": 0.8 / 255},
}
"""Ten steps at these rates reach an L-infinity distance of about 2, 4 and 8 /255."""


class AdamAttack(Attack):
    """Adam on the pixels of a batch, element by element, so that no image depends on another."""

    learning_rate: float = Field(default=0.005, gt=0, le=1, description="Of Adam, in units of the pixel range.")
    iterations: int = Field(default=10, ge=1, le=10_000, description="Steps.")

    def budget(self) -> Budget:
        """Return one score per step; the distance is not bounded."""
        return Budget(queries=self.iterations)

    @abstractmethod
    def loss(self, images: Images, target: Target) -> Callable[[Images], torch.Tensor]:
        """Return what is minimised: ``(N, 3, H, W)`` -> ``(N,)``, given the images to attack."""

    def mask(self, images: Images) -> torch.Tensor | None:
        """Return what the gradient is multiplied by before Adam sees it, or None."""
        return None

    def build(self, device: torch.device) -> Perturb:
        """Return the attack; NaN in a gradient counts as zero."""

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            loss, mask = self.loss(images, target), self.mask(images)
            x = images.detach().clone().requires_grad_(True)
            optimiser = torch.optim.Adam([x], lr=self.learning_rate)
            for _ in range(self.iterations):
                (gradient,) = torch.autograd.grad(loss(x).sum(), x)
                x.grad = gradient.nan_to_num() if mask is None else gradient.nan_to_num() * mask
                optimiser.step()
                with torch.no_grad():
                    x.clamp_(0, 1)
            return x.detach()

        return perturb


def relative(scores: torch.Tensor, target: Target) -> torch.Tensor:
    """Return scores over the range of the metric."""
    return scores / (target.upper - target.lower)
