"""SSAH: raise the score, keep the low frequencies.

Luo et al., "Frequency-driven Imperceptible Adversarial Attack on Semantic Similarity" (CVPR 2022), the low-frequency
constraint of section 3.3; the score takes the place of the semantic similarity, as in Guardians of Image Quality.
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from harness.api import Attack, AttackInfo, Budget, ImageRng, Images, Paper, Perturb, Target, hookimpl
from harness_iqa.adam import minimise


def low_frequencies(images: Images) -> Images:
    """Return the image rebuilt from the low band of a Haar transform: the mean of each 2x2 block; odd sides grow."""
    height, width = images.shape[2:]
    even = F.pad(images, (0, width % 2, 0, height % 2))
    return F.avg_pool2d(even, 2).repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)


class Ssah(Attack):
    """Adam on the score and on the distance of the low frequencies."""

    info = AttackInfo(
        id="harness/ssah",
        version="1",
        access="white_box",
        norm="linf",
        strengths={
            "weak": {"learning_rate": 0.2 / 255},
            "medium": {"learning_rate": 0.4 / 255},
            "strong": {"learning_rate": 0.8 / 255},
        },
        paper=Paper(
            title="Frequency-driven Imperceptible Adversarial Attack on Semantic Similarity",
            authors="Luo et al.",
            year=2022,
            url="https://arxiv.org/abs/2203.05151",
        ),
    )
    learning_rate: float = Field(default=0.001, gt=0, le=1, description="Of Adam, in units of the pixel range.")
    iterations: int = Field(default=10, ge=1, le=10_000, description="Steps.")
    weight: float = Field(default=0.1, ge=0, description="Of the low-frequency distance, a sum over pixels.")

    def budget(self) -> Budget:
        """Return one score per step; the distance is not bounded."""
        return Budget(queries=self.iterations)

    def build(self, device: torch.device) -> Perturb:
        """Return the attack."""

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            low = low_frequencies(images)

            def loss(x: Images) -> torch.Tensor:
                kept = F.smooth_l1_loss(low_frequencies(x), low, reduction="none").sum(dim=(1, 2, 3))
                return self.weight * kept - target(x) / (target.upper - target.lower)

            return minimise(loss, images, self.learning_rate, self.iterations)

        return perturb


@hookimpl
def register_attacks() -> list[Attack]:
    return [Ssah()]
