"""The traditional distortions of the LPIPS paper, batched, with a continuous severity and randomness per image.

Zhang et al., CVPR 2018, table 2 (traditional). Each takes images ``(N, 3, H, W)``, severities ``(N,)`` in [0, 1] and
one random stream per image, and returns images in [0, 1]; severity 0 changes nothing. The paper samples severities
continuously and applies distortions one after the other in pairs.
"""

from collections.abc import Callable, Mapping, Sequence

import torch

from imharness.images import ImageRng, Images
from imharness_vision.distortions import blur, compression, noise, photometric, spatial

Distort = Callable[[Images, torch.Tensor, ImageRng], Images]

FAMILIES: Mapping[str, Mapping[str, Distort]] = {
    "photometric": {
        "lightness": photometric.lightness,
        "color-shift": photometric.color_shift,
        "contrast": photometric.contrast,
        "saturation": photometric.saturation,
    },
    "noise": {
        "uniform-white": noise.uniform_white,
        "gaussian-white": noise.gaussian_white,
        "pink": noise.pink,
        "blue": noise.blue,
        "colored": noise.colored,
        "checkerboard": noise.checkerboard,
    },
    "blur": {"gaussian-blur": blur.gaussian, "bilateral": blur.bilateral},
    "spatial": {
        "shift": spatial.shift,
        "affine": spatial.affine,
        "homography": spatial.homography,
        "linear-warp": spatial.linear_warp,
        "cubic-warp": spatial.cubic_warp,
        "ghosting": spatial.ghosting,
        "chromatic-aberration": spatial.chromatic_aberration,
    },
    "compression": {"jpeg": compression.jpeg},
}
DISTORTIONS: dict[str, Distort] = {name: fn for family in FAMILIES.values() for name, fn in family.items()}


def distorted(images: Images, names: Sequence[str], severity: torch.Tensor, rng: ImageRng) -> Images:
    """Apply distortions one after the other, each with a column of ``severity`` ``(N, len(names))``."""
    out = images
    for number, name in enumerate(names):
        out = DISTORTIONS[name](out, severity[:, number], rng).clamp(0, 1)
    return out
