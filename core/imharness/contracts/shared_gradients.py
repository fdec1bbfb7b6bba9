"""Gradients of one model that were shared: what a track is given by `imharness.reconstruct`, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

if TYPE_CHECKING:
    import torch

    from imharness.contracts.randomness import ImageRng
    from imharness.contracts.values import Gradients, Images


@dataclass(frozen=True)
class SharedGradients:
    """What `imharness.reconstruct` asks of a track.

    Args:
        gradients: ``(n, *shape)`` by parameter, in the order of the parameters, of n images that each shared their own.
        network: the classifier that gave them, in evaluation mode, without gradients of its own.
        size: ``(3, h, w)`` of an image.
        attack: what rebuilds the images: a built `ReconstructionAttack`.
        streams: the random stream of each image.
        originals: the private images ``(n, 3, h, w)`` in [0, 1] on the device of the gradients, where they are known.
    """

    gradients: Gradients
    network: torch.nn.Module
    size: tuple[int, int, int]
    attack: Callable[..., Images]
    streams: ImageRng
    originals: Images | None


@dataclass(frozen=True)
class Reconstructed:
    """What a track answers.

    Args:
        images: rebuilt, ``(n, 3, h, w)`` in [0, 1], multiples of 1/255.
        columns: one number for each image, by name.
        told: column -> what it says, of those whose means are shown.
    """

    images: Images
    columns: Mapping[str, npt.NDArray[Any]]
    told: Mapping[str, str]
