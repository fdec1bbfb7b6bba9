"""Prints the table of docs/howto/lpips.md: LPIPS of ten pairs of images, scaled rightly, and wrongly in four ways.

    python docs/lpips_conventions.py [lpips[net=squeeze]]

SqueezeNet's weights must be among the assets (``harness assets get squeezenet1-1-features``).
"""

import sys
from collections.abc import Callable

import numpy as np
import torch

from imharness.cli import console
from imharness.commands import find

MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
"""Mean and standard deviation of R, G and B in [0, 1] over ImageNet."""
LUMA = np.array([0.299, 0.587, 0.114])
"""The weights of R, G and B in luma (ITU-R BT.601)."""
PAIRS = range(1, 11)
"""The numbers of the pairs."""
Array = np.ndarray
CONVENTIONS: dict[str, Callable[[Array], Array]] = {
    "right: [-1, 1]": lambda pixels: pixels / 127.5 - 1,
    "[0, 1]": lambda pixels: pixels / 255,
    "normalised twice": lambda pixels: (pixels / 255 - MEAN) / DEVIATION,
    "luma": lambda pixels: np.repeat(pixels @ LUMA[:, None], 3, axis=2) / 127.5 - 1,
    "BGR": lambda pixels: pixels[..., ::-1] / 127.5 - 1,
}
"""Name -> function of pixels ``(64, 64, 3)``, RGB, 0 to 255, that returns what a library gets which expects [-1, 1]."""


def pair(number: int) -> tuple[Array, Array]:
    """Return a picture ``(64, 64, 3)``, RGB, 0 to 255, and the same picture with only four levels of each colour."""
    y, x = np.mgrid[:64, :64]
    pixels = np.stack([x * number % 256, y * number % 256, (x + y) * number // 2 % 256], axis=2)
    return pixels, pixels // 64 * 64


def distances(metric: str) -> dict[str, list[float]]:
    """Return convention -> the LPIPS of each pair."""
    score = find("metric", metric).build(torch.device("cpu"))

    def given(pixels: Array, convention: str) -> torch.Tensor:
        values = np.ascontiguousarray(CONVENTIONS[convention](pixels).transpose(2, 0, 1))
        return (torch.from_numpy(values).float()[None] + 1) / 2  # the harness's metric expects [0, 1]

    with torch.inference_mode():
        return {
            convention: [
                float(score(given(changed, convention), given(original, convention)))
                for original, changed in map(pair, PAIRS)
            ]
            for convention in CONVENTIONS
        }


def main(metric: str = "lpips[net=squeeze]") -> None:
    """Print one line for each pair."""
    table = distances(metric)
    console.say(f"| k | {' | '.join(table)} |")
    console.say(f"|{'---|' * (len(table) + 1)}")
    for number, values in zip(PAIRS, zip(*table.values(), strict=True), strict=True):
        console.say(f"| {number} | {' | '.join(f'{value:.4f}' for value in values)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
