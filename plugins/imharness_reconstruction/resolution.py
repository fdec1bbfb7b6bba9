"""The PSNR up to which images that are stored in 8 bits can be compared."""

import math
from collections.abc import Container

PSNR = "harness/psnr"
RESOLVED = 10 * math.log10(12 * 255**2)
"""The signal-to-noise ratio, in dB, of rounding to the 8 bits in which images and reconstructions are stored."""


def limit_of(metrics: Container[str]) -> str:
    """Return a sentence on the limit of PSNR, to follow others, if it is one of these metrics; else ""."""
    if PSNR not in metrics:
        return ""
    return f" PSNR counts as at most {RESOLVED:.1f} dB, the noise of 8 bits, also for identical images."
