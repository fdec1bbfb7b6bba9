"""PSNR of images that are kept in 8 bits: their rounding limits how much of it means something."""

import math
from collections.abc import Container

PSNR = "harness/psnr"
RESOLVED = 10 * math.log10(12 * 255**2)
"""Signal to noise, in dB, of rounding to the 8 bits in which images and reconstructions are kept."""


def limit_of(metrics: Container[str]) -> str:
    """Return what readers should know where one of these metrics is PSNR, as a sentence after others; "" elsewhere."""
    if PSNR not in metrics:
        return ""
    return f" PSNR counts as at most {RESOLVED:.1f} dB, the noise of 8 bits: so do identical images."
