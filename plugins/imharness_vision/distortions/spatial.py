"""Shifts, warps, ghosts and colour fringes; outside an image its border is repeated."""

import torch
import torch.nn.functional as F

from imharness.images import ImageRng, Images

SHIFT, WARP, FRINGE = 0.15, 0.15, 0.06
"""The largest displacements, as shares of the side."""


def _grid(images: Images) -> torch.Tensor:
    """Return the places of all pixels in [-1, 1], ``(1, H, W, 2)``."""
    whole = torch.eye(2, 3, device=images.device)[None]
    return F.affine_grid(whole, [1, 3, *images.shape[2:]], align_corners=False)


def _sampled(images: Images, grid: torch.Tensor) -> Images:
    return F.grid_sample(images, grid, mode="bicubic", padding_mode="border", align_corners=False)


def _direction(rng: ImageRng) -> torch.Tensor:
    angle = 2 * torch.pi * rng.uniform()
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def shift(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Move the image in a random direction."""
    move = 2 * SHIFT * severity[:, None] * _direction(rng)
    return _sampled(images, _grid(images) + move[:, None, None])


def affine(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Warp by a random affine map near the identity."""
    drawn = 2 * rng.uniform(2, 3) - 1
    whole = torch.eye(2, 3, device=images.device)[None] + 2 * WARP * severity.view(-1, 1, 1) * drawn
    return _sampled(images, F.affine_grid(whole, list(images.shape), align_corners=False))


def homography(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Warp by a random projective map near the identity."""
    drawn = (2 * rng.uniform(3, 3) - 1) * WARP * severity.view(-1, 1, 1)
    matrix = torch.eye(3, device=images.device)[None] + drawn
    places = _grid(images).expand(len(images), -1, -1, -1)
    lifted = torch.cat([places, torch.ones_like(places[..., :1])], dim=-1)
    moved = torch.einsum("nij,nhwj->nhwi", matrix, lifted)
    return _sampled(images, moved[..., :2] / moved[..., 2:].clamp(min=0.1))


def linear_warp(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Move a coarse grid of points at random, bilinear in between."""
    return _warped(images, severity, rng, "bilinear")


def cubic_warp(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Move a coarse grid of points at random, bicubic in between."""
    return _warped(images, severity, rng, "bicubic")


def _warped(images: Images, severity: torch.Tensor, rng: ImageRng, mode: str) -> Images:
    coarse = (2 * rng.uniform(2, 4, 4) - 1) * WARP * severity.view(-1, 1, 1, 1)
    field = F.interpolate(coarse, images.shape[2:], mode=mode, align_corners=True)
    return _sampled(images, _grid(images) + field.permute(0, 2, 3, 1))


def ghosting(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Lay a shifted copy over the image, at most half of it."""
    move = 2 * SHIFT * _direction(rng)
    ghost = _sampled(images, _grid(images) + move[:, None, None])
    return torch.lerp(images, ghost, 0.5 * severity.view(-1, 1, 1, 1))


def chromatic_aberration(images: Images, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Move red and blue apart in a random direction."""
    move = (2 * FRINGE * severity[:, None] * _direction(rng))[:, None, None]
    red, blue = (_sampled(images[:, c : c + 1], _grid(images) + way) for c, way in ((0, move), (2, -move)))
    return torch.cat([red, images[:, 1:2], blue], dim=1)
