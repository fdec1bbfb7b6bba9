"""The fifty transformations that ATS policies are made of; they work on batches, with random numbers for each image.

Gao et al., "Privacy-preserving Collaborative Learning with Automatic Transformation Search" (CVPR 2021), section 3:
each is an operation of AutoAugment with a probability and a magnitude in 0..9. A policy such as 3-1-7 applies the
transformations of these numbers one after the other; 3-1-7+43-18-18 draws one of two policies for each image. The list
is that of the published code, in which 3-1-7 is translateX, contrast, translateY and 43-18-18 is translateY, contrast,
contrast. SemSim's table 3 prints other names for two of these numbers: Invert for 1 and Autocontrast for 18. The
policies of those names can be written, too: 3-0-7 is translateX, invert, translateY, and 43-8-8 is translateY,
autocontrast, autocontrast.

The published code differs from the paper: it applies every transformation whatever its probability, colour, contrast,
sharpness and brightness change by at most 0.5 where AutoAugment has 0.9, areas that a shift or shear uncovers are
black, and rotations go in one direction only. Both forms are implemented here.
"""

import functools
import math
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
"""The name, the probability and the magnitude in 0..9 of each transformation; a policy names it by its index."""
LEVELS = 9
"""The largest magnitude."""
WIDEST = 150 / 331
"""The longest shift, as a share of the side."""


@functools.cache
def operations(published: bool = True) -> dict[str, Callable[[Images, float, int], Images]]:
    """Return name -> (images, magnitude in [0, 1], sign -1 or 1) -> images.

    The ranges are those of the published code, or AutoAugment's (Cubuk et al., CVPR 2019). Torchvision is imported here
    because it is slow to import.
    """
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as tv

    uncovered, largest = (0.0, 0.5) if published else (0.5, 0.9)
    turn = {"angle": 0, "translate": [0, 0], "scale": 1.0, "shear": [0, 0], "fill": [uncovered]}

    def shift(images: Images, across: float, down: float) -> Images:
        pixels = [round(across * images.shape[3]), round(down * images.shape[2])]
        return tv.affine(images, **{**turn, "translate": pixels})

    def shear(images: Images, across: float, down: float) -> Images:
        angles = [math.degrees(math.atan(slope)) for slope in (across, down)]
        return tv.affine(
            images, **{**turn, "shear": angles}, center=[0.0, 0.0], interpolation=InterpolationMode.BILINEAR
        )

    def rotate(images: Images, m: float, sign: int) -> Images:
        return tv.affine(images, **{**turn, "angle": -30 * m if published else sign * 30 * m, "fill": [0.5]})

    def colour(change: Callable[[Images, float], Images]) -> Callable[[Images, float, int], Images]:
        return lambda images, m, sign: change(images, 1 + sign * largest * m)

    return {
        "shearX": lambda x, m, sign: shear(x, sign * 0.3 * m, 0),
        "shearY": lambda x, m, sign: shear(x, 0, sign * 0.3 * m),
        "translateX": lambda x, m, sign: shift(x, sign * WIDEST * m, 0),
        "translateY": lambda x, m, sign: shift(x, 0, sign * WIDEST * m),
        "rotate": rotate,
        "color": colour(tv.adjust_saturation),
        "contrast": colour(tv.adjust_contrast),
        "sharpness": colour(tv.adjust_sharpness),
        "brightness": colour(tv.adjust_brightness),
        "posterize": lambda x, m, sign: tv.posterize(x, round(8 - 4 * m)),
        "solarize": lambda x, m, sign: torch.where(x >= 256 / 255 * (1 - m), 1 - x, x),
        "autocontrast": lambda x, m, sign: tv.autocontrast(x),
        "equalize": lambda x, m, sign: tv.equalize(x),
        "invert": lambda x, m, sign: tv.invert(x),
    }


def parse_policy(text: str) -> list[list[int]]:
    """Return the policies of a text: ``3-1-7+43-18-18`` is ``[[3, 1, 7], [43, 18, 18]]``.

    Raises `ValueError` if it is not such a text, or names a transformation that does not exist.
    """
    try:
        policies = [[int(number) for number in policy.split("-")] for policy in text.split("+")]
    except ValueError:
        policies = []
    if not policies or not all(0 <= number < len(TRANSFORMATIONS) for policy in policies for number in policy):
        highest = len(TRANSFORMATIONS) - 1
        raise ValueError(f"{text!r} is not a policy: write numbers from 0 to {highest} as in 3-1-7+43-18-18")
    return policies


def transformed(images: Images, policies: list[list[int]], rng: ImageRng, published: bool = True) -> Images:
    """Return the images, each changed by one of the policies, which is drawn at random.

    `published`: as the published code does it; else with the probabilities and magnitudes of the paper.
    """
    chosen = rng.integers(0, len(policies))
    result = images
    for number, policy in enumerate(policies):
        changed = images
        for index in policy:
            changed = _apply(changed, index, rng, published)
        result = torch.where((chosen == number)[:, None, None, None], changed, result)
    return result.clamp(0, 1)


def _apply(images: Images, index: int, rng: ImageRng, published: bool) -> Images:
    """Return the images ``(N, C, H, W)`` after a transformation, with a random sign for each image.

    As the paper has it (`published` is False), an image is changed only with the probability of the transformation.
    """
    name, probability, magnitude = TRANSFORMATIONS[index]
    drawn = rng.uniform(2)
    for sign in (-1, 1):
        selected = ((drawn[:, 0] < probability) | published) & ((drawn[:, 1] < 0.5) == (sign < 0))
        changed = operations(published)[name](images, magnitude / LEVELS, sign)
        images = torch.where(selected[:, None, None, None], changed, images)
    return images
