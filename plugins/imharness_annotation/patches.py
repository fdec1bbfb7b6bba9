"""Questions about distorted patches: which of two is nearer to the original, and are two the same?

Zhang et al. (CVPR 2018), section 2.2. In a forced choice (2AFC) people see a patch and two distortions of it. For just
noticeable differences (JND) they see a patch and a distortion of it, each for one second with 250 ms between, and say
whether they are the same. A subject sees 160 pairs among 40 sentinels, 32 of them identical and 8 with much Gaussian
noise, after training with 10 pairs: 4 the same, 1 obviously different, 5 by the distortions.

A distortion is one of the traditional ones, or two of them one after the other, with severities drawn uniformly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from imharness.data import ImageRng, ImageSet, derive_seed
from imharness.errors import UsageError
from imharness_annotation.book import Question
from imharness_annotation.sources import DIFFERENT, LEFT, RIGHT, SAME, as_bytes, png
from imharness_vision.distortions import DISTORTIONS, distorted

SIDE = 64
"""The side of a patch, px."""
IDENTICAL, NOISY = 32, 8
"""The numbers of sentinels, that is decoys, of just noticeable differences: identical pairs, and pairs with noise."""
TRAINING = (("same", 4), ("noisy", 1), ("distorted", 5))
"""The kinds and numbers of training pairs of just noticeable differences."""
SENTINELS = 15
"""The number of sentinels of forced choices; in the paper 90 % of the people got at least 14 of 15 right."""
LITTLE, MUCH = 0.02, 0.3
"""Standard deviations of weak and of strong Gaussian noise, for pixels in [0, 1]; the paper gives no numbers."""


def nearer_questions(images: ImageSet, count: int, seed: int = 0) -> Iterator[Question]:
    """Yield forced choices about patches of the images in turn, and sentinels with little and with much noise."""
    for number in range(count + SENTINELS):
        (name, photograph), patch, rng = _patch(images, number, seed)
        decoy = number >= count
        if decoy:
            versions = [("noise", _noisy(patch, LITTLE, rng)), ("noise", _noisy(patch, MUCH, rng))]
        else:
            versions = [_distorted(patch, rng, f"{seed} {number} {side}") for side in range(2)]
        swapped = number % 2 if decoy else int(rng.random() < 0.5)
        if swapped:
            versions.reverse()
        truth = (RIGHT if swapped else LEFT) if decoy else ""  # the patch with little noise is nearer
        facts = {"name": name, "photograph": photograph, "left": versions[0][0], "right": versions[1][0]}
        facts["family"] = "traditional"
        sides = [png(as_bytes(pixels)) for _, pixels in versions]
        key = f"2afc {seed} {'sentinel ' if decoy else ''}{number} {name}"
        yield Question(key, facts, (LEFT, RIGHT), truth, decoy, *sides, png(as_bytes(patch)))


def noticeable_questions(images: ImageSet, count: int, seed: int = 0) -> Iterator[Question]:
    """Yield training, sentinels, and pairs of patches of the images in turn with distortions of them."""
    kinds = [(kind, True, False) for kind, often in TRAINING for _ in range(often)]
    order = np.random.default_rng(derive_seed(seed, "training")).permutation(len(kinds))
    kinds = [kinds[i] for i in order]
    kinds += [("same", False, True)] * IDENTICAL + [("noisy", False, True)] * NOISY
    kinds += [("distorted", False, False)] * count
    for number, (kind, training, decoy) in enumerate(kinds):
        (name, photograph), patch, rng = _patch(images, number, seed)
        if kind == "same":
            change, picture = "identical", patch
        elif kind == "noisy":
            change, picture = "noise", _noisy(patch, MUCH, rng)
        else:
            change, picture = _distorted(patch, rng, f"{seed} {number} jnd")
        truth = SAME if kind == "same" else DIFFERENT
        facts = {"name": name, "photograph": photograph, "right": change, "family": "traditional"}
        pair = png(as_bytes(patch)), png(as_bytes(picture))
        yield Question(
            f"jnd {seed} {number} {kind} {name}", facts, (SAME, DIFFERENT), truth, decoy, *pair, training=training
        )


def _patch(images: ImageSet, number: int, seed: int) -> tuple[tuple[str, str], torch.Tensor, np.random.Generator]:
    """Return (name of the image, name of its photograph), a random patch ``(3, SIDE, SIDE)``, and a generator.

    A patch is smaller if the image is. Questions take the images in turn, by their `number`.
    """
    if not len(images):
        raise UsageError("the data set has no images to take patches from.")
    rng = np.random.default_rng(derive_seed(seed, "patch", str(number)))
    image = images.load([number % len(images)])[0].cpu()
    top, left_edge = (int(rng.integers(0, max(side - SIDE, 0) + 1)) for side in image.shape[1:])
    photographs = images.columns.get("photograph", images.columns.get("reference", np.array(images.names)))
    names = images.names[number % len(images)], str(photographs[number % len(images)])
    return names, image[:, top : top + SIDE, left_edge : left_edge + SIDE], rng


def _noisy(patch: torch.Tensor, spread: float, rng: np.random.Generator) -> torch.Tensor:
    """Return a patch in [0, 1] with Gaussian noise of this standard deviation."""
    return (patch + spread * torch.from_numpy(rng.standard_normal(patch.shape)).float()).clamp(0, 1)


def _distorted(patch: torch.Tensor, rng: np.random.Generator, stream: str) -> tuple[str, torch.Tensor]:
    """Return what was done to a patch and the result: one distortion, or two after each other."""
    names = [str(n) for n in rng.choice(list(DISTORTIONS), size=int(rng.integers(1, 3)), replace=False)]
    severity = rng.random(len(names))
    random = ImageRng([derive_seed(0, "distortion", stream)])
    result = distorted(patch[None], names, torch.from_numpy(severity).float()[None], random)[0]
    return ", ".join(f"{n} {s:.2f}" for n, s in zip(names, severity, strict=True)), result
