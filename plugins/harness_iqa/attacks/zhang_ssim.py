"""Zhang et al.: raise the score, keep the structural similarity.

Zhang, Li, Min, Zhai, Guo, Yang & Ma, "Perceptual Attacks of No-Reference Image Quality Models with Human-in-the-Loop"
(NeurIPS 2022), the Lagrangian form, with SSIM as the fidelity term.
"""

from collections.abc import Callable

import torch

from harness.api import Attack, AttackInfo, Images, Paper, Target, hookimpl
from harness_iqa.adam_attack import STRENGTHS, AdamAttack, relative

WINDOW = 11


class ZhangSsim(AdamAttack):
    """Adam on the score and on 1 - SSIM (11x11 Gaussian window)."""

    info = AttackInfo(
        id="harness/zhang-ssim",
        version="1",
        access="white_box",
        norm="linf",
        strengths=STRENGTHS,
        paper=Paper(
            title="Perceptual Attacks of No-Reference Image Quality Models with Human-in-the-Loop",
            authors="Zhang et al.",
            year=2022,
            url="https://arxiv.org/abs/2210.00933",
        ),
    )

    def loss(self, images: Images, target: Target) -> Callable[[Images], torch.Tensor]:
        """Return 1 - SSIM minus the score over its range."""
        from kornia.metrics import ssim

        return lambda x: 1 - ssim(x, images, WINDOW).mean(dim=(1, 2, 3)) - relative(target(x), target)


@hookimpl
def register_attacks() -> list[Attack]:
    return [ZhangSsim()]
