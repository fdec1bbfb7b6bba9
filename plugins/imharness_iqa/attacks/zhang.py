"""Zhang et al.: raise the score and keep a full-reference distance small.

Zhang, Li, Min, Zhai, Guo, Yang & Ma, "Perceptual Attacks of No-Reference Image Quality Models with Human-in-the-Loop"
(NeurIPS 2022), the Lagrangian form, with DISTS, LPIPS or SSIM as the fidelity term.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch

from imharness.images import Asset, Attack, AttackInfo, Images, Perturb, Scores, Target, hookimpl
from imharness_iqa.adam_attack import STRENGTHS, AdamAttack, relative
from imharness_vision.lpips import lpips_squeeze
from imharness_vision.perceptual import DISTS_WEIGHTS, SQUEEZENET, VGG16, dists

WINDOW = 11
Distance = Callable[[Images, Images], Scores]


def _info(name: str) -> AttackInfo:
    return AttackInfo(
        id=f"harness/zhang-{name}", version="1", access="white_box", norm="linf", strengths=STRENGTHS, paper="zhang2022"
    )


class _Zhang(AdamAttack):
    """Adam optimises the score and a distance to the original."""

    @abstractmethod
    def distance(self, device: torch.device) -> Distance:
        """Return the fidelity term: images, originals -> ``(N,)``."""

    def build(self, device: torch.device) -> Perturb:
        distance = self.distance(device)

        def loss(images: Images, target: Target) -> Callable[[Images], torch.Tensor]:
            return lambda x: distance(x, images) - relative(target(x), target)

        return self.descend(loss)


class ZhangSsim(_Zhang):
    """Adam optimises the score and 1 - SSIM (11x11 Gaussian window)."""

    info: ClassVar[AttackInfo] = _info("ssim")

    def distance(self, device: torch.device) -> Distance:
        from kornia.metrics import ssim

        return lambda x, y: 1 - ssim(x, y, WINDOW).mean(dim=(1, 2, 3))


class ZhangLpips(_Zhang):
    """Adam optimises the score and LPIPS (SqueezeNet)."""

    info: ClassVar[AttackInfo] = _info("lpips")

    def assets(self) -> tuple[Asset, ...]:
        return (SQUEEZENET,)

    def distance(self, device: torch.device) -> Distance:
        return lpips_squeeze(device)


class ZhangDists(_Zhang):
    """Adam optimises the score and DISTS (VGG-16)."""

    info: ClassVar[AttackInfo] = _info("dists")

    def assets(self) -> tuple[Asset, ...]:
        """Return the backbone and the weights of DISTS."""
        return (VGG16, DISTS_WEIGHTS)

    def distance(self, device: torch.device) -> Distance:
        return dists(device)


@hookimpl
def components() -> list[Attack]:
    return [ZhangDists(), ZhangLpips(), ZhangSsim()]
