"""APGD as an attack on a metric: gradient steps whose size adapts to progress.

Croce & Hein, "Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse Parameter-free Attacks" (ICML
2020), algorithm 1.
"""

import torch
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl
from imharness_iqa.auto_pgd import auto_pgd


class Apgd(Attack):
    """Auto-PGD on the score: gradient steps with momentum, whose size is halved when progress stops."""

    info = AttackInfo(
        id="harness/apgd",
        version="1",
        access="white_box",
        norm="linf",
        strengths={"weak": {"radius": 2 / 255}, "medium": {"radius": 4 / 255}, "strong": {"radius": 8 / 255}},
        paper="croce2020",
    )
    radius: float = Field(
        default=4 / 255, gt=0, le=1, description="Radius of the L-infinity ball, in units of the pixel range."
    )
    steps: int = Field(default=10, ge=1, le=10_000, description="Number of gradient steps.")

    def budget(self) -> Budget:
        """Return the ball and the number of scores: one per step and one for the start."""
        return Budget(radius=self.radius, queries=self.steps + 1)

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            return auto_pgd(target, images, self.radius, self.steps)

        return perturb


@hookimpl
def components() -> list[Attack]:
    return [Apgd()]
