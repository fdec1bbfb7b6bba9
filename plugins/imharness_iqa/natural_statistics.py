"""Statistics of natural scenes: locally normalised luminance and the shape of its distribution.

Mittal, Moorthy & Bovik, "No-Reference Image Quality Assessment in the Spatial Domain" (IEEE TIP 2012), equations 1 to
14.
"""

import functools

import torch
import torch.nn.functional as F

from imharness.images import Images
from imharness_vision.constants import constant
from imharness_vision.filters import filtered

SHAPES = torch.arange(0.2, 10.001, 0.001, dtype=torch.float64)
NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))
TINY = 1e-12


def normalised(grey: torch.Tensor, line: torch.Tensor, constant: float) -> torch.Tensor:
    """Return luminance ``(N, 1, H, W)`` minus its local mean, divided by its local deviation plus a constant.

    `line` ``(k,)``: the window down and across, of sum 1.
    """
    padded = F.pad(grey, [len(line) // 2] * 4, mode="replicate")
    mean, power = filtered(padded, line), filtered(padded.square(), line)
    return (grey - mean) / (((power - mean.square()).abs() + TINY).sqrt() + constant)


@functools.lru_cache(maxsize=16)
def _ratios(dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return G(2/a)^2 / (G(1/a) G(3/a)) for the grid of shapes, which grows with a, and the shapes a."""
    logs = 2 * torch.lgamma(2 / SHAPES) - torch.lgamma(1 / SHAPES) - torch.lgamma(3 / SHAPES)
    return logs.exp().float().to(device, dtype), SHAPES.to(device, dtype)


def _shape(ratio: torch.Tensor) -> torch.Tensor:
    """Return the shape a with a ratio, see `_ratios`; linear between the points of the grid, so that gradients pass."""
    grid, shapes = _ratios(ratio.dtype, ratio.device)
    right = torch.searchsorted(grid, ratio.detach()).clamp(1, len(grid) - 1)
    low, high = grid[right - 1], grid[right]
    share = ((ratio - low) / (high - low)).clamp(0, 1)
    return shapes[right - 1] + share * (shapes[right] - shapes[right - 1])


def asymmetric_fit(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return shape, left and right deviation of an asymmetric generalised Gaussian, fitted over the last dimension."""
    below, above = x.clamp(max=0), x.clamp(min=0)
    left_spread = (below.square().sum(-1) / (x < 0).sum(-1).clamp(min=1) + TINY).sqrt()
    right_spread = (above.square().sum(-1) / (x > 0).sum(-1).clamp(min=1) + TINY).sqrt()
    gamma = left_spread / right_spread
    peaked = x.abs().mean(-1).square() / (x.square().mean(-1) + TINY)
    ratio = peaked * (gamma**3 + 1) * (gamma + 1) / (gamma.square() + 1).square()
    return _shape(ratio), left_spread, right_spread


def gamma_ratio(shape: torch.Tensor, top: float, bottom: float) -> torch.Tensor:
    """Return G(top / shape) / G(bottom / shape), with the gamma function G."""
    return (torch.lgamma(top / shape) - torch.lgamma(bottom / shape)).exp()


def luma(images: Images) -> torch.Tensor:
    """Return grey ``(N, 1, H, W)`` in [0, 1] with the weights of ITU-R BT.601."""
    return (images * constant((0.299, 0.587, 0.114), images).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)


def whole_levels(grey: torch.Tensor) -> torch.Tensor:
    """Return levels rounded to whole numbers, as an image of 8 bits has them; the gradient is that of the identity."""
    return grey.detach().round() + (grey - grey.detach())
