"""`ih.score`: the scores of images by any metric."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from imharness.contracts.call import checked
from imharness.contracts.component import Component
from imharness.contracts.distribution_metric import DistributionMetric
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.metric import Metric
from imharness.contracts.near_duplicates import said_of_pairs, thumbnails
from imharness.errors import UsageError
from imharness.notebook.arguments import short
from imharness.notebook.coercion import component_from, device_of, images_of
from imharness.notebook.objects import UserObject
from imharness.notebook.randomness import say_who_drew
from imharness.running.memory import in_chunks
from imharness.testing.audit import RANDOM_STATE
from imharness.testing.examination import failed_checks

BATCH = 16
WIDENED = 0.5
"""By which share of its width scores may leave the range that a metric declares."""
NEARER = 4
"""If exchanging red and blue of an image divides its mean squared error from the reference by more than this, its
colours were in the wrong order."""


class _Examined(NamedTuple):
    """The quick checks that a metric's function failed. `function` returns the function, or None if it is gone."""

    function: Callable[[], object]
    failed: tuple[str, ...]


_examined: dict[tuple[int, str], _Examined] = {}
"""The id of a metric's function, and the digest of what the metric declares -> the result of its examination."""


def score(
    metric: str | Component | UserObject, images: Any, reference: Any = None, *, device: str = "auto"
) -> npt.NDArray[np.float32]:
    """Return the score of each image by a metric.

    Args:
        metric: a name as on the command line, such as ``"lpips"``, ``"lpips[net=vgg]"`` or ``"embedded-cnn"``, or a
            metric made by `ih.metric`.
        images: an array or tensor ``(n, 3, h, w)`` or ``(3, h, w)`` of floats in [0, 1], or of bytes from 0 to 255.
        reference: the references for a metric that compares: as many images of the same size, or one for all. A metric
            of whole sets, such as FID, compares the set of images with this set, which may have another size.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".

    A metric of your own is examined, too, for a few seconds, and a warning says which quick check it failed: whether
    it scores each image alone, the same again, and so on.

    Returns:
        float32 ``(n,)``, in the metric's own unit and direction (`harness plugins show NAME` shows them), or ``(1,)``
        for a metric of whole sets.

    Raises:
        UsageError: an argument does not fit; the message names it.
        Unavailable: weights or a package are not on this machine; the message has the command that gets them.
    """
    chosen = metric_of("metric", metric)
    batch = images_of("images", images)
    torch_device = torch.device(device_of(device))
    references = _references(chosen, batch, reference)
    if references is not None and isinstance(chosen, FullReferenceMetric):
        _warn_of_pairs(batch, references)
    scores = scores_of(chosen, batch, references, torch_device)
    _warn_of_range(chosen, scores)
    if isinstance(metric, UserObject):  # after what cannot be scored at all: its error says more than a check does
        warn_of_failed(chosen, metric)
    say_who_drew()
    return scores


def _warn_of_pairs(images: torch.Tensor, references: torch.Tensor) -> None:
    """Warn of images that were not made from their references, and of red and blue that were exchanged."""
    names = [(f"image {i}", f"reference {i}") for i in range(len(images))]
    small_images, small_references = (thumbnails(image[None] for image in each) for each in (images, references))
    if sentence := said_of_pairs(names, small_images, small_references):
        warnings.warn(sentence, stacklevel=3)
    exchanged = sum(_has_exchanged_colours(*pair) for pair in zip(images, references, strict=True))
    if 2 * exchanged > len(images):
        warnings.warn(
            f"{exchanged} of {len(images)} images are much nearer to their references with red and blue exchanged; "
            "OpenCV reads blue first, which [:, ::-1] turns round",
            stacklevel=3,
        )


def _warn_of_range(metric: Metric, scores: npt.NDArray[np.float32]) -> None:
    """Warn of scores of single images far outside the range that a metric declares.

    The range is that of natural images, and scores of others leave it a little. Metrics that compare are left out:
    theirs is that of usual distortions.
    """
    if metric.info.bounds is None or isinstance(metric, FullReferenceMetric | DistributionMetric):
        return
    lower, upper = metric.info.bounds
    room = WIDENED * (upper - lower)
    outside = np.flatnonzero((scores < lower - room) | (scores > upper + room))
    if len(outside):
        warnings.warn(
            f"{len(outside)} of {len(scores)} scores by {metric.label} lie far outside its range, {lower:g} to "
            f"{upper:g}, such as {scores[outside[0]]:g} of image {outside[0]}: the range is wrong, or the images are "
            "not what the metric expects",
            stacklevel=3,
        )


def _has_exchanged_colours(image: torch.Tensor, reference: torch.Tensor) -> bool:
    """Return whether an image ``(3, h, w)`` is much nearer to its reference with red and blue exchanged."""
    return float(F.mse_loss(image.flip(0), reference)) < float(F.mse_loss(image, reference)) / NEARER


def warn_of_failed(metric: Metric, user_object: UserObject) -> None:
    """Warn of the quick checks that a metric fails; each is examined once in a process, on random images.

    `say_who_drew` warns of a metric that draws from global randomness, so that this check is left out here.
    """
    key = id(user_object.function), metric.content()
    examined = _examined.get(key)
    if examined is None or examined.function() is not user_object.function:  # an id may be used again
        examined = _examined[key] = _Examined(_reference_to(user_object.function), tuple(failed_checks(metric)))
    lines = [line for line in examined.failed if RANDOM_STATE not in line]
    if lines:
        warnings.warn(
            f"{metric.label} {'; it '.join(lines)}. Its scores may be wrong here or on another device.", stacklevel=3
        )


def _reference_to(function: Callable[..., Any]) -> Callable[[], object]:
    """Return a weak reference to a function, which does not keep it alive; or a strong one if it allows no weak one."""
    try:
        return weakref.ref(function)
    except TypeError:
        return lambda: function


def metric_of(argument: str, metric: str | Component | UserObject) -> Metric:
    """Return a metric that can be built here; `argument` is its name in messages."""
    chosen = component_from("metric", metric, argument)
    if not isinstance(chosen, Metric):
        raise UsageError(f"{argument}: {short(metric)} is not a metric; name one, or make one with ih.metric.")
    return chosen


def scores_of(
    metric: Metric, images: torch.Tensor, reference: torch.Tensor | None, device: torch.device
) -> npt.NDArray[np.float32]:
    """Return the scores ``(n,)`` of images ``(n, 3, h, w)`` in [0, 1], or ``(1,)`` for a metric of whole sets."""
    built = checked(metric, metric.build(device))  # type: ignore[attr-defined]

    def one(start: int, stop: int) -> npt.NDArray[np.float32]:
        compared = () if reference is None else (reference[start:stop].to(device),)
        return np.asarray(built(images[start:stop].to(device), *compared).float().cpu().numpy())

    with torch.no_grad():
        if isinstance(metric, DistributionMetric):
            assert reference is not None
            return np.array([float(built(images.to(device), reference.to(device)))], dtype=np.float32)
        return np.concatenate(in_chunks(len(images), BATCH, one)[0])


def _references(metric: Metric, images: torch.Tensor, value: Any) -> torch.Tensor | None:
    """Return the references, expanded to the images, or None for a metric that scores an image alone."""
    compares = isinstance(metric, FullReferenceMetric | DistributionMetric)
    if value is None:
        if compares:
            raise UsageError(f"reference: {metric.label} compares with a reference; give one.")
        return None
    if not compares:
        raise UsageError(f"reference: {metric.label} scores an image alone; leave the reference out.")
    references = images_of("reference", value)
    if isinstance(metric, DistributionMetric):
        return references
    if references.shape[1:] != images.shape[1:]:
        sizes = [f"{shape[-1]}x{shape[-2]} px" for shape in (references.shape, images.shape)]
        raise UsageError(f"reference has {sizes[0]} and images {sizes[1]}; give both the same size.")
    if len(references) not in (1, len(images)):
        raise UsageError(f"reference must hold 1 or {len(images)} images, got {len(references)}.")
    return references.expand(len(images), -1, -1, -1)
