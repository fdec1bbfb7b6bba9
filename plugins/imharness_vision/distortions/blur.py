"""Gaussian blur and bilateral filtering; each image has its own kernel."""

import torch
import torch.nn.functional as F

from imharness.images import ImageRng, Images

SIGMA, COLOUR_SIGMA, RADIUS = 5.0, 0.3, 3
"""The largest deviation of the Gaussian, px, and that of the bilateral filter in colour; the filter's radius, px."""
BAND = 32
"""How many rows of an image the bilateral filter takes at once: what they need stays in the processor's cache."""


def gaussian(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Blur with a standard deviation of at most 5 px."""
    sigma = (SIGMA * severity).clamp(min=1e-3)
    radius = min(int(3 * float(sigma.max())) + 1, min(images.shape[2:]) - 1)
    offsets = torch.arange(-radius, radius + 1, device=images.device)
    kernel = torch.exp(-offsets[None].square() / (2 * sigma[:, None].square()))
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).repeat_interleave(3, dim=0)  # (3 N, k)
    flat = images.reshape(1, -1, *images.shape[2:])
    flat = F.pad(flat, [radius] * 4, mode="reflect")
    for shape in ((-1, 1, 2 * radius + 1, 1), (-1, 1, 1, 2 * radius + 1)):
        flat = F.conv2d(flat, kernel.view(shape), groups=flat.shape[1])
    return flat.view(images.shape)


def bilateral(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Average neighbours of like colour, of colours at most 0.3 apart in deviation, in a window of 7 px."""
    padded = F.pad(images, [RADIUS] * 4, mode="reflect")
    line = torch.arange(-RADIUS, RADIUS + 1, device=images.device)
    far = (line[:, None].square() + line[None].square()).flatten().view(1, -1, 1, 1) / (2 * RADIUS**2)
    spread = (COLOUR_SIGMA * severity).clamp(min=1e-3).view(-1, 1, 1, 1)
    out = torch.empty_like(images)
    for i in range(len(images)):  # one by one: the windows of all pixels are 49 times as large as the image
        for top in range(0, images.shape[2], BAND):
            band = (slice(i, i + 1), slice(None), slice(top, top + BAND))
            pixels = images[band]
            near = F.unfold(padded[i : i + 1, :, top : top + BAND + 2 * RADIUS], 2 * RADIUS + 1)
            near = near.view(1, 3, -1, *pixels.shape[2:])
            apart = (near - pixels[:, :, None]).square_().sum(dim=1)
            weight = torch.exp(-apart / (2 * spread[i].square()) - far)
            out[band] = near.mul_(weight[:, None]).sum(dim=2) / weight.sum(dim=1, keepdim=True)
    return out
