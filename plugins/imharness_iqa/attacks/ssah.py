"""SSAH: raise the score and keep the low frequencies.

Luo et al., "Frequency-driven Imperceptible Adversarial Attack on Semantic Similarity" (CVPR 2022), the low-frequency
constraint of section 3.3; the score takes the place of the semantic similarity, as in Guardians of Image Quality.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import Attack, AttackInfo, Images, Perturb, Target, hookimpl
from imharness_iqa.adam_attack import STRENGTHS, AdamAttack, relative


def low_frequencies(images: Images) -> Images:
    """Return the image rebuilt from the low band of a Haar transform: the mean of each 2x2 block; odd sides grow."""
    height, width = images.shape[2:]
    even = F.pad(images, (0, width % 2, 0, height % 2))
    return F.avg_pool2d(even, 2).repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)


class Ssah(AdamAttack):
    """Adam on the score and on the distance of the low frequencies."""

    info = AttackInfo(
        id="harness/ssah", version="1", access="white_box", norm="linf", strengths=STRENGTHS, paper="luo2022"
    )
    learning_rate: float = Field(
        default=0.001, gt=0, le=1, description="Adam's step size, in units of the pixel range."
    )
    weight: float = Field(default=0.1, ge=0, description="Weight of the low-frequency distance, a sum over pixels.")

    def build(self, device: torch.device) -> Perturb:
        """Return the attack: the weighted distance of the low frequencies minus the score over its range."""

        def loss(images: Images, target: Target) -> Callable[[Images], torch.Tensor]:
            low = low_frequencies(images)

            def cost(x: Images) -> torch.Tensor:
                smoothness = F.smooth_l1_loss(low_frequencies(x), low, reduction="none").sum(dim=(1, 2, 3))
                return self.weight * smoothness - relative(target(x), target)

            return cost

        return self.descend(loss)


@hookimpl
def components() -> list[Attack]:
    return [Ssah()]
