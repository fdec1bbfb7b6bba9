"""What a full-reference metric compares an image with, and which way an attack on it moves the score.

The reference of an image x is the undistorted image that it was made from, if the data set has it. The attacked image
x' and the defended ones, D(x) and D(x'), are compared with the same reference, which nobody attacks or defends: whoever
compares holds it. If the defense changes the size, its result is resized to the reference's first.

The direction in which an attack moves the score depends on the data set:

- If x has an undistorted reference, x' is to pass for `CLOSER` to it than it is: the attack improves the score. This
  is how codecs and enhancers gain on a metric without a better image (Siniukov et al., "Hacking VMAF and VMAF NEG:
  Vulnerability to Different Preprocessing Methods", AICCC 2021), and the direction of the track's other attacks.
- If not, x is its own reference. Its score is the best that there is, so the attack worsens it: a change that is hard
  to see makes the metric call x' `FARTHER` from x (Ghildyal & Liu, "Attacking Perceptual Similarity Metrics", TMLR
  2023).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from imharness.data import ImageSet
from imharness.errors import UsageError
from imharness.images import FullReferenceMetric, Images, Scores
from imharness.tracks import StepContext, as_large

CLOSER, FARTHER = "closer to its reference", "farther from itself"
"""What an attacked image is to pass for."""
Scored = Callable[[Sequence[int], Images], Scores]
"""Positions in an image set, and for each a version of the image at it -> scores of these versions ``(n,)``."""


def compares(context: StepContext) -> bool:
    """Return whether the metric of a task compares images with references."""
    return isinstance(context.component("metric"), FullReferenceMetric)


def threat(images: ImageSet) -> str:
    """Return what attacked images of a set are to pass for."""
    return FARTHER if images.originals is None else CLOSER


def references(images: ImageSet, positions: Sequence[int], device: torch.device) -> Images:
    """Return the reference of each image."""
    load = images.load if images.originals is None else images.originals
    return load(list(positions)).to(device)


def scored(context: StepContext, images: ImageSet, role: str = "metric") -> Scored:
    """Return the function that scores images of a set, against their references if the metric compares."""
    score = context.build(role)
    if not compares(context):
        return lambda positions, batch: score(batch)

    def compared(positions: Sequence[int], batch: Images) -> Scores:
        reference = references(images, positions, batch.device)
        return score(as_large(batch, reference), reference)

    return compared


def attacked_with(context: StepContext, images: ImageSet, positions: Sequence[int]) -> dict[str, Any]:
    """Return further arguments of `StepContext.target`: references and direction, if the metric compares."""
    if not compares(context):
        return {}
    return {
        "reference": references(images, positions, context.device),
        "towards": threat(images) == CLOSER,
    }


def check_alike(context: StepContext, images: ImageSet, trained: Sequence[str]) -> None:
    """Raise `UsageError` if an attack was trained for another threat than that of a set of images.

    `trained`: what the training images were to pass for.
    """
    if compares(context) and set(trained) != {threat(images)}:
        raise UsageError(
            f"{context.component('attack').label} was trained to make images pass for {trained[0]}, and the tested "
            f"ones are to pass for {threat(images)}; name a fit_dataset "
            f"{'with' if threat(images) == CLOSER else 'without'} reference images"
        )
