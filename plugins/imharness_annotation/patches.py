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
"""Sentinels of just noticeable differences."""
TRAINING = (("same", 4), ("noisy", 1), ("distorted", 5))
SENTINELS = 15
"""Sentinels of forced choices: 90 % of the people passed 14 of 15."""
LITTLE, MUCH = 0.02, 0.3
"""Standard deviations of Gaussian noise, of the range of pixels; the paper gives no numbers."""


def nearer_questions(images: ImageSet, count: int, seed: int = 0) -> Iterator[Question]:
    """Yield forced choices about patches of the images in turn, and sentinels with little and with much noise."""
    for number in range(count + SENTINELS):
        (name, photograph), patch, rng = _patch(images, number, seed)
        decoy = number >= count
        if decoy:
            versions = [("noise", _noisy(patch, LITTLE, rng)), ("noise", _noisy(patch, MUCH, rng))]
        else:
            versions = [_distorted(patch, rng, f"{seed} {number} {side}") for side in range(2)]
        turned = number % 2 if decoy else int(rng.random() < 0.5)
        if turned:
            versions.reverse()
        truth = (RIGHT if turned else LEFT) if decoy else ""
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
        what, picture = {
            "same": lambda p=patch: ("identical", p),
            "noisy": lambda p=patch, r=rng: ("noise", _noisy(p, MUCH, r)),
            "distorted": lambda p=patch, r=rng, n=number: _distorted(p, r, f"{seed} {n} jnd"),
        }[kind]()
        truth = SAME if kind == "same" else DIFFERENT
        facts = {"name": name, "photograph": photograph, "right": what, "family": "traditional"}
        pair = png(as_bytes(patch)), png(as_bytes(picture))
        yield Question(
            f"jnd {seed} {number} {kind} {name}", facts, (SAME, DIFFERENT), truth, decoy, *pair, training=training
        )


def _patch(images: ImageSet, number: int, seed: int) -> tuple[tuple[str, str], torch.Tensor, np.random.Generator]:
    """Return the names of an image and of its photograph, a patch at a random place, and random numbers of its own."""
    if not len(images):
        raise UsageError("the data set has no images to take patches from.")
    rng = np.random.default_rng(derive_seed(seed, "patch", str(number)))
    image = images.load([number % len(images)])[0].cpu()
    top, left_edge = (int(rng.integers(0, max(side - SIDE, 0) + 1)) for side in image.shape[1:])
    photographs = images.columns.get("photograph", images.columns.get("reference", np.array(images.names)))
    names = images.names[number % len(images)], str(photographs[number % len(images)])
    return names, image[:, top : top + SIDE, left_edge : left_edge + SIDE], rng


def _noisy(patch: torch.Tensor, spread: float, rng: np.random.Generator) -> torch.Tensor:
    return (patch + spread * torch.from_numpy(rng.standard_normal(patch.shape)).float()).clamp(0, 1)


def _distorted(patch: torch.Tensor, rng: np.random.Generator, stream: str) -> tuple[str, torch.Tensor]:
    """Return what was done to a patch and the result: one distortion, or two after each other."""
    names = [str(n) for n in rng.choice(list(DISTORTIONS), size=int(rng.integers(1, 3)), replace=False)]
    severity = rng.random(len(names))
    random = ImageRng([derive_seed(0, "distortion", stream)])
    result = distorted(patch[None], names, torch.from_numpy(severity).float()[None], random)[0]
    return ", ".join(f"{n} {s:.2f}" for n, s in zip(names, severity, strict=True)), result
