"""A U-Net of strided convolutions, as image-to-image generators use it."""

import torch
import torch.nn.functional as F
from torch import nn


class UNet(nn.Module):
    """Images ``(N, 3, H, W)`` -> ``(N, 3, H, W)`` in [-1, 1].

    Isola, Zhu, Zhou & Efros, "Image-to-Image Translation with Conditional Adversarial Networks" (CVPR 2017), the
    generator, with instance normalisation and without dropout. Sides are mirrored up to multiples of ``2**depth``.
    """

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.depth = depth
        widths = [width * min(2**level, 8) for level in range(depth)]
        self.down = nn.ModuleList(nn.Conv2d(i, o, 4, 2, 1) for i, o in zip([3, *widths[:-1]], widths, strict=True))
        ins = [widths[-1], *(2 * w for w in reversed(widths[:-1]))]
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(i, o, 4, 2, 1) for i, o in zip(ins, [*reversed(widths[:-1]), 3], strict=True)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[2:]
        unit = 2**self.depth
        x = F.pad(images, (0, -width % unit, 0, -height % unit), mode="replicate")
        skips: list[torch.Tensor] = []
        for level, layer in enumerate(self.down):
            x = layer(F.leaky_relu(x, 0.2) if level else x)
            if 0 < level < self.depth - 1:
                x = F.instance_norm(x)
            skips.append(x)
        x = skips.pop()
        for layer in self.up:
            x = layer(F.relu(x))
            if skips:
                x = torch.cat([F.instance_norm(x), skips.pop()], dim=1)
        return torch.tanh(x)[:, :, :height, :width]
