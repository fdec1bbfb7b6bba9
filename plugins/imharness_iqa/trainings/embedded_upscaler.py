"""How the weights of harness/embedded-upscaler were trained."""

import torch
import torch.nn.functional as F
from torch import nn

from imharness.data import Images, Info, hookimpl
from imharness.training import WeightTraining
from imharness_iqa.restoration_training import RestorerTraining
from imharness_iqa.restorers import SmallUpscaler

BLUR, NOISE = 4.0, 20 / 255
"""Standard deviations of the strongest blur, in px of the large image, and of the strongest noise."""


class EmbeddedUpscalerTraining(RestorerTraining):
    """The small upscaler, trained on blurred, shrunk and noisy images."""

    info = Info(id="harness/embedded-upscaler", version="4")
    steps = 1500
    margin = 1.0

    def fresh(self) -> nn.Module:
        return SmallUpscaler()

    def degraded(self, clean: Images, rng: torch.Generator) -> Images:
        """Blur, halve the size and add noise, with other strengths for each image."""
        from kornia.filters import gaussian_blur2d

        blur, noise = (torch.rand(len(clean), 1, generator=rng) for _ in range(2))
        blurred = gaussian_blur2d(clean, (13, 13), (BLUR * blur).clamp(min=0.1).expand(-1, 2))
        small = F.interpolate(blurred, scale_factor=1 / SmallUpscaler.SCALE, mode="bicubic", antialias=True)
        return (small + NOISE * noise[..., None, None] * torch.randn(small.shape, generator=rng)).clamp(0, 1)


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedUpscalerTraining()]
