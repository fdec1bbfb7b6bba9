"""Defenses of private images, which change images and labels before a gradient is computed from them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import IMAGES, STREAMS, TARGETS, Images, Record, Rows, Several


@dataclass(frozen=True)
class ImagePool:
    """Further images of a participant, to mix private ones with (as InstaHide does, Huang et al., ICML 2020).

    Attributes:
        images: float32 ``(M, 3, H, W)`` in [0, 1].
        targets: float32 ``(M, classes)``, the share of each class.
    """

    images: Images
    targets: torch.Tensor


ProtectImages: TypeAlias = Callable[[Images, torch.Tensor, ImagePool, ImageRng], tuple[Images, torch.Tensor]]
"""A built image protection: (images, targets, pool, streams) -> (images, targets), of the same shapes.

Images are float32 ``(N, 3, H, W)`` in [0, 1], targets float32 ``(N, classes)``, and there is one stream for each image.
The returned images are finite and may leave [0, 1], because InstaHide flips signs.
"""
POOL = Record(ImagePool, images=IMAGES, targets=TARGETS)
PROTECTED = Several(images=Rows(like="images", annotation="Images"), targets=TARGETS)


class ImageProtection(Component, Builds[ProtectImages]):
    """Changes images and labels before a gradient is computed from them, in training and in sharing."""

    kind: ClassVar[str] = "defense"
    call = Call(images=IMAGES, targets=TARGETS, pool=POOL, rng=STREAMS, returns=PROTECTED)
