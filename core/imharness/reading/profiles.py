"""Finds images whose colours are not those of sRGB, by their ICC profile or their header: values are read as sRGB."""

from __future__ import annotations

import functools
import io
import struct

import numpy as np
from PIL import Image, ImageCms

from imharness.reading.text import plain

APART = 3.0
"""A profile is another one if its colours differ from sRGB's by more than this in the mean, in levels of 8 bits. A
profile with a curve of gamma 2.2 differs by 1.4, and counts as sRGB."""
STEPS = 9
"""How many levels of each channel are compared."""
GAMMA, GAMMA_APART = 0.45455, 0.05
"""The exponent that PNG files of sRGB state, and by how much another exponent may differ."""
PRIMARIES = (0.3127, 0.329, 0.64, 0.33, 0.3, 0.6, 0.15, 0.06)
"""The chromaticities of sRGB as PNG files state them: x and y of white, red, green and blue."""
PRIMARIES_APART = 0.02
"""By how much another chromaticity may differ."""
_CODED = ((b"\x00\x00\x00\x04cICP", ">BB", b"IDAT"), (b"colrnclx", ">HH", b""))
"""For PNG, then for AVIF and HEIC: the bytes before the code points of primaries and curve (ITU-T H.273), the form of
these two numbers, and the bytes that end the header. Large profiles and lists of tiles may come before the numbers."""
_SRGB_PRIMARIES, _SRGB_CURVES = (1, 2), (1, 2, 6, 13)
"""Code points that count as sRGB: its own, those that differ little, and 2, which means "not specified"."""
_INTEROPERABILITY, _ADOBE = 0xA005, "R03"
"""The EXIF directory that names a colour space, and the name of Adobe RGB in it."""
NAMELESS = "without a name"


@functools.lru_cache(maxsize=256)
def other_profile(content: bytes) -> str:
    """Return the name of an ICC profile whose colours differ from sRGB's, or "" if they are nearly the same.

    Only profiles of RGB and grey images are compared; others, and those that cannot be read, give "".
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

    If a file makes several statements, the one that programs follow counts: in PNG code points come before an ICC
    profile, in AVIF and HEIC the profile comes before code points.
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
