"""Statistics of natural scenes: locally normalised luminance and the shape of its distribution.

Mittal, Moorthy & Bovik, "No-Reference Image Quality Assessment in the Spatial Domain" (IEEE TIP 2012), equations 1 to
14.
"""

import functools

import torch
import torch.nn.functional as F

from imharness.images import Images

SHAPES = torch.arange(0.2, 10.001, 0.001, dtype=torch.float64)
NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))
TINY = 1e-12


def window(size: int, sigma: float) -> torch.Tensor:
    """Return a Gaussian window ``(size, size)`` of sum 1."""
    line = torch.exp(-((torch.arange(size, dtype=torch.float64) - size // 2) ** 2) / (2 * sigma**2))
    return (line[:, None] * line[None] / line.sum() ** 2).float()


def normalised(grey: torch.Tensor, kernel: torch.Tensor, constant: float) -> torch.Tensor:
    """Return luminance ``(N, 1, H, W)`` minus its local mean, divided by its local deviation plus a constant."""
    kernel = kernel.to(grey)[None, None]
    padded = F.pad(grey, [kernel.shape[-1] // 2] * 4, mode="replicate")
    mean, power = F.conv2d(padded, kernel), F.conv2d(padded.square(), kernel)
    return (grey - mean) / (((power - mean.square()).abs() + TINY).sqrt() + constant)


@functools.cache
def _ratios() -> torch.Tensor:
    """Return G(2/a)^2 / (G(1/a) G(3/a)) for the grid of shapes; it grows with a."""
    logs = 2 * torch.lgamma(2 / SHAPES) - torch.lgamma(1 / SHAPES) - torch.lgamma(3 / SHAPES)
    return logs.exp().float()


def _shape(ratio: torch.Tensor) -> torch.Tensor:
    """Return the shape a for a ratio: linear between the points of the grid, so that a gradient passes."""
    grid, shapes = _ratios().to(ratio), SHAPES.to(ratio)
    right = torch.searchsorted(grid, ratio.detach()).clamp(1, len(grid) - 1)
    low, high = grid[right - 1], grid[right]
    share = ((ratio - low) / (high - low)).clamp(0, 1)
    return shapes[right - 1] + share * (shapes[right] - shapes[right - 1])


def asymmetric_fit(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return shape, left and right deviation of an asymmetric generalised Gaussian over the last dimension."""
    below, above = x.clamp(max=0), x.clamp(min=0)
    left = (below.square().sum(-1) / (x < 0).sum(-1).clamp(min=1) + TINY).sqrt()
    right = (above.square().sum(-1) / (x > 0).sum(-1).clamp(min=1) + TINY).sqrt()
    gamma = left / right
    peaked = x.abs().mean(-1).square() / (x.square().mean(-1) + TINY)
    ratio = peaked * (gamma**3 + 1) * (gamma + 1) / (gamma.square() + 1).square()
    return _shape(ratio), left, right


def log_gamma_ratio(shape: torch.Tensor, top: float, bottom: float) -> torch.Tensor:
    """Return G(top / shape) / G(bottom / shape)."""
    return (torch.lgamma(top / shape) - torch.lgamma(bottom / shape)).exp()


def luma(images: Images) -> torch.Tensor:
    """Return grey ``(N, 1, H, W)`` in [0, 1] with the weights of ITU-R BT.601."""
    return (images * images.new_tensor((0.299, 0.587, 0.114)).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)
