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
    """Further images that a participant holds, float32 ``(M, 3, H, W)``, with targets ``(M, classes)``."""

    images: Images
    targets: torch.Tensor


ProtectImages: TypeAlias = Callable[[Images, torch.Tensor, ImagePool, ImageRng], tuple[Images, torch.Tensor]]
"""A built image protection: images ``(N, 3, H, W)`` and targets ``(N, classes)`` in, both of the same shape out.

The images may leave [0, 1]: InstaHide turns signs.
"""
POOL = Record(ImagePool, images=IMAGES, targets=TARGETS)
PROTECTED = Several(images=Rows(like="images", annotation="Images"), targets=TARGETS)


class ImageProtection(Component, Builds[ProtectImages]):
    """Changes images and labels before a gradient is computed from them, in training and in sharing."""

    kind: ClassVar[str] = "defense"
    call = Call(images=IMAGES, targets=TARGETS, pool=POOL, rng=STREAMS, returns=PROTECTED)
