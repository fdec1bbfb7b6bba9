"""MADC: raise the score without raising the mean squared error further than allowed.

Wang & Simoncelli, "Maximum differentiation (MAD) competition" (Journal of Vision 8, 2008). Each image has its own
projection and radius. The published code sums the projection over the batch and walks back in steps of 0.0005; here the
image is scaled back to the radius in one step.
"""

import torch
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl


class Madc(Attack):
    """Sign steps along the score's gradient, made orthogonal to the gradient of the distance."""

    info = AttackInfo(
        id="harness/madc",
        version="1",
        access="white_box",
        norm="linf",
        strengths={
            "weak": {"learning_rate": 0.25 / 255},
            "medium": {"learning_rate": 0.5 / 255},
            "strong": {"learning_rate": 1 / 255},
        },
        paper="wang2008",
    )
    learning_rate: float = Field(default=0.001, gt=0, le=1, description="Step size, in units of the pixel range.")
    iterations: int = Field(default=8, ge=1, le=10_000, description="Number of steps.")
    rmse: float = Field(
        default=10 / 255, gt=0, le=1, description="Largest root mean squared error, in units of the pixel range."
    )

    def budget(self) -> Budget:
        """Return the largest change and the number of scores: one per step."""
        return Budget(radius=min(1.0, self.learning_rate * self.iterations), queries=self.iterations)

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            attacked = images
            for _ in range(self.iterations):
                leaf = attacked.detach().requires_grad_(True)
                (gradient,) = torch.autograd.grad(target(leaf).sum(), leaf)
                change = attacked - images
                squares = change.square().sum(dim=(1, 2, 3), keepdim=True)
                projection = (gradient * change).sum(dim=(1, 2, 3), keepdim=True) / squares.clamp(min=1e-20)
                step = torch.where(squares > 0, gradient - projection * change, gradient).sign()
                change = (attacked + self.learning_rate * step).clamp(0, 1) - images
                distance = change.square().mean(dim=(1, 2, 3), keepdim=True).sqrt()
                attacked = images + change * (self.rmse / distance.clamp(min=1e-12)).clamp(max=1)
            return attacked.clamp(0, 1)

        return perturb


@hookimpl
def components() -> list[Attack]:
    return [Madc()]
