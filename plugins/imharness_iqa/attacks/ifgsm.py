"""I-FGSM: steps along the sign of the gradient, inside an L-infinity ball.

Kurakin, Goodfellow & Bengio, "Adversarial Examples in the Physical World" (ICLR workshop 2017), section 2.2.
"""

import torch
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl


class Ifgsm(Attack):
    """Iterated sign gradient in an L-infinity ball; ten steps by default."""

    info = AttackInfo(
        id="harness/ifgsm",
        version="1",
        access="white_box",
        norm="linf",
        strengths={"weak": {"alpha": 0.2 / 255}, "medium": {"alpha": 0.4 / 255}, "strong": {"alpha": 0.8 / 255}},
        paper="kurakin2017",
    )
    alpha: float = Field(default=1 / 255, gt=0, le=1, description="Step size, in units of the pixel range.")
    radius: float = Field(
        default=10 / 255, gt=0, le=1, description="Radius of the L-infinity ball, in units of the pixel range."
    )
    iterations: int = Field(default=10, ge=1, le=10_000, description="Number of steps.")

    def budget(self) -> Budget:
        """Return the ball and the number of scores: one per step."""
        return Budget(radius=min(self.radius, self.alpha * self.iterations), queries=self.iterations)

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            low, high = (images - self.radius).clamp(min=0), (images + self.radius).clamp(max=1)
            attacked = images
            for _ in range(self.iterations):
                leaf = attacked.detach().requires_grad_(True)
                (gradient,) = torch.autograd.grad(target(leaf).sum(), leaf)
                attacked = torch.clamp(attacked + self.alpha * gradient.sign(), low, high)
            return attacked

        return perturb


@hookimpl
def components() -> list[Attack]:
    return [Ifgsm()]
