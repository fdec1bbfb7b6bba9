"""Perturbations that repeat over an image."""

import torch

from imharness.images import Images


def laid(tiles: torch.Tensor, images: Images) -> torch.Tensor:
    """Return tiles ``(..., t, t)`` repeated from the upper left corner over the size of the images."""
    down, across = (-(-length // tiles.shape[-1]) for length in images.shape[2:])
    repeated = tiles.repeat(*[1] * (tiles.ndim - 2), down, across)
    return repeated[..., : images.shape[2], : images.shape[3]]
