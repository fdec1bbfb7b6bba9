"""Tells whether the colour profile of an image is that of sRGB, as which its values are read."""

from __future__ import annotations

import functools
import io
import struct

import numpy as np
from PIL import Image, ImageCms

from imharness.reading.text import plain

APART = 3.0
"""The levels of 255 by which colours differ from sRGB in the mean; those of a curve of 2.2 differ by 1.4."""
STEPS = 9
GAMMA, GAMMA_APART = 0.45455, 0.05
"""The exponent that PNG files of sRGB state, and from which difference on it is another one."""
PRIMARIES = (0.3127, 0.329, 0.64, 0.33, 0.3, 0.6, 0.15, 0.06)
"""White, red, green and blue of sRGB, x and y of each, as PNG files state them."""
PRIMARIES_APART = 0.02
_CODED = ((b"\x00\x00\x00\x04cICP", ">BB", b"IDAT"), (b"colrnclx", ">HH", b""))
"""What stands before the numbers of primaries and curve (ITU-T H.273) in PNG, and in AVIF and HEIC, their form, and
what ends the header: large profiles and lists of tiles may stand before them."""
_SRGB_PRIMARIES, _SRGB_CURVES = (1, 2), (1, 2, 6, 13)
"""Those of sRGB, those that differ little, and 2, which says nothing."""
_INTEROPERABILITY, _ADOBE = 0xA005, "R03"
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


def other_colours(image: Image.Image, content: bytes) -> str:
    """Return what an image says of its colours, if they are not about sRGB's; else "".

    Of several statements that counts which programs follow: code points before an ICC profile in PNG, and the profile
    before them in AVIF and HEIC.
    """
    coded = _code_points(content)
    profile = image.info.get("icc_profile")
    if coded is not None and (image.format == "PNG" or not profile):
        return coded
    return other_profile(profile) if profile else _other_header(image)


def _code_points(content: bytes) -> str | None:
    """Return which numbers a file has for its primaries and curve; "" if they are sRGB's, and None if it has none."""
    for name, form, end in _CODED:
        start = content.find(name, 0, content.find(end) if end else None)
        if start >= 0 and len(content) >= start + len(name) + struct.calcsize(form):
            primaries, curve = struct.unpack_from(form, content, start + len(name))
            same = primaries in _SRGB_PRIMARIES and curve in _SRGB_CURVES
            return "" if same else f"primaries {primaries} and curve {curve} of H.273"
    return None


def _other_header(image: Image.Image) -> str:
    """Return what the header of a file without code points or profile says of its colours, if it is not sRGB."""
    facts = image.info
    if image.format == "PNG" and "srgb" not in facts:
        if abs(facts.get("gamma", GAMMA) - GAMMA) > GAMMA_APART:
            return f"gamma {facts['gamma']:.3g}"
        if np.abs(np.subtract(facts.get("chromaticity", PRIMARIES), PRIMARIES)).max() > PRIMARIES_APART:
            return "other primaries"
    if image.format in ("JPEG", "MPO", "TIFF"):
        return "Adobe RGB by its EXIF" if image.getexif().get_ifd(_INTEROPERABILITY).get(1) == _ADOBE else ""
    return ""
