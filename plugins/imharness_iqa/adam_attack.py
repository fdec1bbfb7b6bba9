"""The base of the attacks that run Adam on the pixels; they differ in the loss that they minimise."""

from collections.abc import Callable

import torch
from pydantic import Field

from imharness.images import Attack, Budget, ImageRng, Images, Perturb, Target

STRENGTHS = {
    "weak": {"learning_rate": 0.2 / 255},
    "medium": {"learning_rate": 0.4 / 255},
    "strong": {"learning_rate": 0.8 / 255},
}
"""Strengths: ten steps at these learning rates reach an L-infinity distance of about 2/255, 4/255 and 8/255."""


Loss = Callable[[Images, Target], Callable[[Images], torch.Tensor]]
"""Clean images and the target -> a function that returns the loss of images ``(N, 3, H, W)``, ``(N,)``."""


class AdamAttack(Attack):
    """Adam on the pixels of a batch, element by element, so that no image depends on another."""

    learning_rate: float = Field(
        default=0.005, gt=0, le=1, description="Adam's step size, in units of the pixel range."
    )
    iterations: int = Field(default=10, ge=1, le=10_000, description="Number of steps.")

    def budget(self) -> Budget:
        """Return one score for each step; the distance is not bounded."""
        return Budget(queries=self.iterations)

    def descend(self, loss: Loss, mask: Callable[[Images], torch.Tensor] | None = None) -> Perturb:
        """Return the attack that minimises the function ``loss(images, target)``, from the clean images on.

        `mask`: clean images -> the factor by which gradients are multiplied before Adam sees them, ``(N, 1 or 3, H,
        W)``; without it, 1. NaN in a gradient counts as zero.
        """

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            cost, weight = loss(images, target), mask(images) if mask else 1.0
            x = images.detach().clone().requires_grad_(True)
            optimiser = torch.optim.Adam([x], lr=self.learning_rate)
            for _ in range(self.iterations):
                (gradient,) = torch.autograd.grad(cost(x).sum(), x)
                x.grad = gradient.nan_to_num() * weight
                optimiser.step()
                with torch.no_grad():
                    x.clamp_(0, 1)
            return x.detach()

        return perturb


def relative(scores: torch.Tensor, target: Target) -> torch.Tensor:
    """Return scores divided by the range of the metric."""
    return scores / (target.upper - target.lower)
