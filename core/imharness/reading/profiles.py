"""Tells whether the colour profile of an image is that of sRGB, as which its values are read."""

from __future__ import annotations

import functools
import io

import numpy as np
from PIL import Image, ImageCms

from imharness.reading.text import plain

APART = 3.0
"""The levels of 255 by which colours differ from sRGB in the mean; those of a curve of 2.2 differ by 1.4."""
STEPS = 9
NAMELESS = "without a name"


@functools.lru_cache(maxsize=256)
def other_profile(content: bytes) -> str:
    """Return the name of an ICC profile of red, green and blue, or grey, that is not about sRGB's; "" for sRGB's.

    Profiles of other colours, and those that cannot be read, say nothing of the values that are read: "".
    """
    levels = np.linspace(0, 255, STEPS).round().astype(np.uint8)
    cube = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(1, -1, 3)
    samples = {"RGB ": cube, "GRAY": levels[None]}
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(content))
        space = profile.profile.xcolor_space
        if space not in samples:
            return ""
        image = Image.fromarray(samples[space])
        turned = ImageCms.profileToProfile(
            image, profile, ImageCms.createProfile("sRGB"), ImageCms.Intent.RELATIVE_COLORIMETRIC, "RGB"
        )
        name = plain(ImageCms.getProfileDescription(profile)).strip() or NAMELESS
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return ""
    read, meant = (np.asarray(each, dtype=np.int64) for each in (image.convert("RGB"), turned))
    return name if np.abs(read - meant).mean() > APART else ""
