"""Inputs that the conformance suite draws anew for each seed, and small stand-ins for what a component meets."""

from __future__ import annotations

import torch
from torch import nn

from imharness.contracts.types import Images
from imharness.contracts.values import IMAGES
from imharness.randomness import generator, seeded_init


def images(n: int, height: int, width: int, seed: int) -> Images:
    """Return smooth images with a little noise, float32 ``(n, 3, height, width)`` in [0, 1]."""
    return IMAGES.drawn(n, height, width, seed)


STEEP = 20.0
"""How fast the score of `Quality` goes from 0 to 1."""


class Quality(nn.Module):
    """A small smooth network that scores images in (0, 1): something to attack."""

    bounds = (0.0, 1.0)
    grey: torch.Tensor
    """The raw score of a grey image, which gets 0.5."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        with seeded_init(generator(seed)):
            self.layers = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.Softplus(), nn.Conv2d(8, 8, 3, 2), nn.Softplus())
            self.head = nn.Linear(8, 1)
        self.eval().requires_grad_(False)
        self.register_buffer("grey", self._raw(torch.full((1, 3, 32, 32), 0.5)))

    def _raw(self, x: Images) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.layers(2 * x - 1).mean(dim=(2, 3)))[:, 0]
        return scores

    def forward(self, x: Images) -> torch.Tensor:
        """Return scores ``(N,)``."""
        return torch.sigmoid(STEEP * (self._raw(x) - self.grey))


def classifier(features: int, classes: int, seed: int) -> nn.Module:
    """Return a fully connected classifier of flattened inputs."""
    with seeded_init(generator(seed)):
        layers = nn.Sequential(nn.Flatten(), nn.Linear(features, 16), nn.Sigmoid(), nn.Linear(16, classes))
    return layers
