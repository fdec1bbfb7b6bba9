"""Gaussian blur and bilateral filtering; each image has its own kernel."""

import torch
import torch.nn.functional as F

from imharness.images import ImageRng, Images

SIGMA, COLOUR_SIGMA, RADIUS = 5.0, 0.3, 3
"""The largest deviation of the Gaussian, px, and that of the bilateral filter in colour; the filter's radius, px."""


def gaussian(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Blur with a standard deviation of at most 5 px."""
    sigma = (SIGMA * severity).clamp(min=1e-3)
    radius = min(int(3 * float(sigma.max())) + 1, min(images.shape[2:]) - 1)
    place = torch.arange(-radius, radius + 1, device=images.device)
    kernel = torch.exp(-place[None].square() / (2 * sigma[:, None].square()))
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).repeat_interleave(3, dim=0)  # (3 N, k)
    flat = images.reshape(1, -1, *images.shape[2:])
    flat = F.pad(flat, [radius] * 4, mode="reflect")
    for shape in ((-1, 1, 2 * radius + 1, 1), (-1, 1, 1, 2 * radius + 1)):
        flat = F.conv2d(flat, kernel.view(shape), groups=flat.shape[1])
    return flat.view(images.shape)


def bilateral(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Average neighbours of like colour, of colours at most 0.3 apart in deviation, in a window of 7 px."""
    side = 2 * RADIUS + 1
    padded = F.pad(images, [RADIUS] * 4, mode="reflect")
    near = F.unfold(padded, side).view(len(images), 3, side * side, *images.shape[2:])
    spread = (COLOUR_SIGMA * severity).clamp(min=1e-3).view(-1, 1, 1, 1)
    apart = (near - images[:, :, None]).square().sum(dim=1)
    line = torch.arange(-RADIUS, RADIUS + 1, device=images.device)
    far = (line[:, None].square() + line[None].square()).flatten().view(1, -1, 1, 1)
    weight = torch.exp(-apart / (2 * spread.square()) - far / (2 * RADIUS**2))
    return (near * weight[:, None]).sum(dim=2) / weight.sum(dim=1, keepdim=True)
