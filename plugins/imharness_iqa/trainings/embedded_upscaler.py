"""How the weights of harness/embedded-upscaler were trained."""

import torch
import torch.nn.functional as F

from imharness.data import Images, Info, Train, WeightTraining, hookimpl
from imharness_iqa.restoration_training import CropTraining, restoring
from imharness_iqa.restorers import SmallUpscaler


class EmbeddedUpscalerTraining(CropTraining):
    """The small upscaler, trained on shrunk and noisy images."""

    info = Info(id="harness/embedded-upscaler", version="1")

    def build(self, device: torch.device) -> Train:
        return restoring(SmallUpscaler, shrunk, steps=800)


def shrunk(clean: Images, rng: torch.Generator) -> Images:
    """Shrink four times and add a little noise."""
    small = F.interpolate(clean, scale_factor=1 / SmallUpscaler.SCALE, mode="bicubic", antialias=True)
    return (small + 4 / 255 * torch.randn(small.shape, generator=rng)).clamp(0, 1)


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedUpscalerTraining()]
