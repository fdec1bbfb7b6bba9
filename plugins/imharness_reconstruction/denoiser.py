"""A small denoiser of small images, which serves attacks as a prior; `harness train embedded-prior` trains it.

Zhang, Zuo & Zhang, "FFDNet: Toward a Fast and Flexible Solution for CNN-Based Image Denoising" (TIP 2018): the layers
work at half the size, and the level of the noise is a map beside the image.
"""

import functools
from importlib.resources import files

import torch
import torch.nn.functional as F
from safetensors.torch import load
from torch import nn

from imharness.data import Images, seeded_init

WEIGHTS = "embedded-prior.safetensors"


class Denoiser(nn.Module):
    """Noisy images ``(N, 3, H, W)`` and the standard deviations ``(N,)`` of their noise -> images, not clipped."""

    def __init__(self, width: int = 24, blocks: int = 2) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(13, width, 3, 1, 1), nn.Conv2d(width, 12, 3, 1, 1)
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(2)) for _ in range(blocks)
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)
        for layer in (self.last, *(second for _, second in self.blocks)):
            nn.init.zeros_(layer.weight)

    def forward(self, noisy: Images, levels: torch.Tensor) -> Images:
        height, width = noisy.shape[2:]
        even = F.pad(noisy - 0.5, (0, width % 2, 0, height % 2), mode="replicate")
        small = F.pixel_unshuffle(even, 2)
        h = self.first(torch.cat([small, levels.view(-1, 1, 1, 1).expand(-1, 1, *small.shape[2:])], dim=1))
        for first, second in self.blocks:
            h = h + second(F.relu(first(F.relu(h))))
        return noisy - F.pixel_shuffle(self.last(F.relu(h)), 2)[:, :, :height, :width]


@functools.lru_cache(maxsize=8)
def shipped(device: torch.device) -> Denoiser:
    """Return the denoiser with the weights of this package."""
    with seeded_init(torch.Generator()):  # the global generator stays as it was
        network = Denoiser()
    network.load_state_dict(load((files("imharness_reconstruction") / "weights" / WEIGHTS).read_bytes()))
    return network.eval().requires_grad_(False).to(device)


@torch.no_grad()
def denoised(images: Images, level: float) -> Images:
    """Return images ``(N, 3, H, W)``, or grey ones ``(N, 1, H, W)``, without noise of standard deviation `level`."""
    network = shipped(images.device)
    cleaned = network(images.expand(-1, 3, -1, -1), images.new_full((len(images),), level))
    return cleaned if images.shape[1] == 3 else cleaned.mean(dim=1, keepdim=True)
