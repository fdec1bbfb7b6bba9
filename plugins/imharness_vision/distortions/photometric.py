"""Lightness, colour, contrast and saturation."""

import torch

from imharness.images import ImageRng, Images
from imharness_vision.constants import constant

LIGHTNESS, COLOUR = 40.0, 40.0
"""The largest shifts, in units of Lab."""
RANGE = 0.9


def _four(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1, 1, 1, 1)


def _sign(rng: ImageRng) -> torch.Tensor:
    return 1 - 2 * (rng.uniform() < 0.5).float()


def lightness(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Shift L of Lab up or down by at most 40."""
    from kornia.color import lab_to_rgb, rgb_to_lab

    lab = rgb_to_lab(images)
    light = lab[:, :1] + _four(LIGHTNESS * severity * _sign(rng))
    return _unless_zero(images, severity, lab_to_rgb(torch.cat([light.clamp(0, 100), lab[:, 1:]], dim=1)))


def color_shift(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Shift a and b of Lab in a random direction by at most 40."""
    from kornia.color import lab_to_rgb, rgb_to_lab

    lab, angle = rgb_to_lab(images), 2 * torch.pi * rng.uniform()
    way = COLOUR * severity[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)
    return _unless_zero(
        images, severity, lab_to_rgb(torch.cat([lab[:, :1], lab[:, 1:] + way[:, :, None, None]], dim=1))
    )


def contrast(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Stretch or shrink around the mean grey, by at most 90%."""
    middle = images.mean(dim=(1, 2, 3), keepdim=True)
    return middle + _four(1 + RANGE * severity * _sign(rng)) * (images - middle)


def saturation(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Move towards grey or away from it, by at most 90%."""
    weights = constant((0.299, 0.587, 0.114), images).view(1, 3, 1, 1)
    grey = (weights * images).sum(dim=1, keepdim=True)
    return grey + _four(1 + RANGE * severity * _sign(rng)) * (images - grey)


def _unless_zero(images: Images, severity: torch.Tensor, changed: Images) -> Images:
    """Return the images themselves at severity 0, because conversion to Lab and back is not exact."""
    return torch.where(_four(severity) > 0, changed, images)
