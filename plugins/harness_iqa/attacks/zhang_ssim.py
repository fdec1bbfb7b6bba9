"""Zhang et al.: raise the score, keep the structural similarity.

Zhang, Li, Min, Zhai, Guo, Yang & Ma, "Perceptual Attacks of No-Reference Image Quality Models with Human-in-the-Loop"
(NeurIPS 2022), the Lagrangian form, with SSIM as the fidelity term.
"""

import torch
from pydantic import Field

from harness.api import Attack, AttackInfo, Budget, ImageRng, Images, Paper, Perturb, Target, hookimpl
from harness_iqa.adam import minimise

WINDOW = 11


class ZhangSsim(Attack):
    """Adam on the score and on 1 - SSIM (11x11 Gaussian window)."""

    info = AttackInfo(
        id="harness/zhang-ssim",
        version="1",
        access="white_box",
        norm="linf",
        strengths={
            "weak": {"learning_rate": 0.2 / 255},
            "medium": {"learning_rate": 0.4 / 255},
            "strong": {"learning_rate": 0.8 / 255},
        },
        paper=Paper(
            title="Perceptual Attacks of No-Reference Image Quality Models with Human-in-the-Loop",
            authors="Zhang et al.",
            year=2022,
            url="https://arxiv.org/abs/2210.00933",
        ),
    )
    learning_rate: float = Field(default=0.005, gt=0, le=1, description="Of Adam, in units of the pixel range.")
    iterations: int = Field(default=10, ge=1, le=10_000, description="Steps.")

    def budget(self) -> Budget:
        """Return one score per step; the distance is not bounded."""
        return Budget(queries=self.iterations)

    def build(self, device: torch.device) -> Perturb:
        """Return the attack."""
        from kornia.metrics import ssim

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            def loss(x: Images) -> torch.Tensor:
                similarity = ssim(x, images, WINDOW).mean(dim=(1, 2, 3))
                return 1 - similarity - target(x) / (target.upper - target.lower)

            return minimise(loss, images, self.learning_rate, self.iterations)

        return perturb


@hookimpl
def register_attacks() -> list[Attack]:
    return [ZhangSsim()]
