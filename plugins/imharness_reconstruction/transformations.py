"""The fifty transformations that ATS policies are made of; they work on batches, with random numbers for each image.

Gao et al., "Privacy-preserving Collaborative Learning with Automatic Transformation Search" (CVPR 2021), section 3:
each is an operation of AutoAugment with a probability and a magnitude in 0..9. A policy such as 3-1-7 applies the
transformations of these numbers one after the other; 3-1-7+43-18-18 draws one of two policies for each image. The list
is that of the published code, in which 3-1-7 is translateX, contrast, translateY and 43-18-18 is translateY, contrast,
contrast; SemSim's table 3 prints Invert for 1 and Autocontrast for 18.
"""

import functools
from collections.abc import Callable

import torch

from imharness.gradients import ImageRng, Images

TRANSFORMATIONS: tuple[tuple[str, float, int], ...] = (
    ("invert", 0.1, 7), ("contrast", 0.2, 6), ("rotate", 0.7, 2), ("translateX", 0.3, 9), ("sharpness", 0.8, 1),
    ("sharpness", 0.9, 3), ("shearY", 0.5, 2), ("translateY", 0.7, 2), ("autocontrast", 0.5, 5), ("equalize", 0.9, 2),
    ("shearY", 0.2, 5), ("posterize", 0.3, 5), ("color", 0.4, 3), ("brightness", 0.6, 5), ("sharpness", 0.3, 9),
    ("brightness", 0.7, 9), ("equalize", 0.6, 5), ("equalize", 0.5, 1), ("contrast", 0.6, 7), ("sharpness", 0.6, 5),
    ("color", 0.7, 5), ("translateX", 0.5, 5), ("equalize", 0.3, 7), ("autocontrast", 0.4, 8), ("translateY", 0.4, 3),
    ("sharpness", 0.2, 6), ("brightness", 0.9, 6), ("color", 0.2, 8), ("solarize", 0.5, 0), ("invert", 0.0, 0),
    ("equalize", 0.2, 0), ("autocontrast", 0.6, 0), ("equalize", 0.2, 8), ("equalize", 0.6, 4), ("color", 0.9, 5),
    ("equalize", 0.6, 5), ("autocontrast", 0.8, 4), ("solarize", 0.2, 4), ("brightness", 0.1, 3), ("color", 0.7, 0),
    ("solarize", 0.4, 1), ("autocontrast", 0.9, 0), ("translateY", 0.9, 3), ("translateY", 0.7, 3),
    ("autocontrast", 0.9, 1), ("solarize", 0.8, 1), ("equalize", 0.8, 5), ("invert", 0.1, 0), ("translateY", 0.7, 3),
    ("autocontrast", 0.9, 1),
)  # fmt: skip
LEVELS = 9


@functools.cache
def operations() -> dict[str, Callable[[Images, float, int], Images]]:
    """Return name -> (images, magnitude in [0, 1], sign -1 or 1) -> images.

    The ranges are AutoAugment's (Cubuk et al., CVPR 2019). Torchvision is imported here because it is slow to import.
    """
    from torchvision.transforms.v2 import functional as tv

    def affine(images: Images, shift: list[float], shear: list[float], angle: float) -> Images:
        moved = [round(shift[0] * images.shape[3]), round(shift[1] * images.shape[2])]
        return tv.affine(images, angle=angle, translate=moved, scale=1.0, shear=shear, fill=[0.5])

    def colour(change: Callable[[Images, float], Images]) -> Callable[[Images, float, int], Images]:
        return lambda images, m, sign: change(images, 1 + sign * 0.9 * m)

    return {
        "shearX": lambda x, m, sign: affine(x, [0, 0], [sign * 17 * m, 0], 0),
        "shearY": lambda x, m, sign: affine(x, [0, 0], [0, sign * 17 * m], 0),
        "translateX": lambda x, m, sign: affine(x, [sign * 0.453 * m, 0], [0, 0], 0),
        "translateY": lambda x, m, sign: affine(x, [0, sign * 0.453 * m], [0, 0], 0),
        "rotate": lambda x, m, sign: affine(x, [0, 0], [0, 0], sign * 30 * m),
        "color": colour(tv.adjust_saturation),
        "contrast": colour(tv.adjust_contrast),
        "sharpness": colour(tv.adjust_sharpness),
        "brightness": colour(tv.adjust_brightness),
        "posterize": lambda x, m, sign: tv.posterize(x, round(8 - 4 * m)),
        "solarize": lambda x, m, sign: tv.solarize(x, max(0.0, 1 - m)),
        "autocontrast": lambda x, m, sign: tv.autocontrast(x),
        "equalize": lambda x, m, sign: tv.equalize(x),
        "invert": lambda x, m, sign: tv.invert(x),
    }


def parse_policy(text: str) -> list[list[int]]:
    """Return the numbers of ``3-1-7+43-18-18``; raises `ValueError`."""
    try:
        found = [[int(number) for number in policy.split("-")] for policy in text.split("+")]
    except ValueError:
        found = []
    if not found or not all(0 <= number < len(TRANSFORMATIONS) for policy in found for number in policy):
        highest = len(TRANSFORMATIONS) - 1
        raise ValueError(f"{text!r} is no policy: write numbers from 0 to {highest} as in 3-1-7+43-18-18")
    return found


def transformed(images: Images, policies: list[list[int]], rng: ImageRng) -> Images:
    """Return the images, each changed by one of the policies, which is drawn at random."""
    chosen = rng.integers(0, len(policies))
    out = images
    for number, policy in enumerate(policies):
        done = images
        for index in policy:
            done = _apply(done, index, rng)
        out = torch.where((chosen == number)[:, None, None, None], done, out)
    return out.clamp(0, 1)


def _apply(images: Images, index: int, rng: ImageRng) -> Images:
    name, probability, magnitude = TRANSFORMATIONS[index]
    drawn = rng.uniform(2)
    for sign in (-1, 1):
        meant = (drawn[:, 0] < probability) & ((drawn[:, 1] < 0.5) == (sign < 0))
        changed = operations()[name](images, magnitude / LEVELS, sign)
        images = torch.where(meant[:, None, None, None], changed, images)
    return images
