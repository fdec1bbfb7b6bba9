"""Certifications: defenses that prove how far a score can move (randomized smoothing).

A certification scores many noisy copies of an image and derives a promise from these scores: a radius within which the
value stays (Cohen, Rosenfeld & Kolter, ICML 2019), or an interval that holds the score of every image within a fixed
radius (Chiang et al., "Detection as Regression: Certified Object Detection with Median Smoothing", NeurIPS 2020).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric_defense import MetricDefense
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import BOUNDS, IMAGES, STREAMS, Images, Only, Record, Rows, Scores


@dataclass(frozen=True)
class Certificate:
    """What is proven for each image, with the confidence that the method states. All tensors are ``(N,)``.

    Attributes:
        value: score of the smoothed metric, finite.
        radius: Euclidean distance, on images in [0, 1], within which the value stays; NaN for a method that bounds the
            score instead.
        delta: width of the interval that holds the smoothed score of every image within the method's own radius, in the
            unit of the score; NaN for a method that gives a radius.
        abstained: bool; True means no promise for this image.
    """

    value: torch.Tensor
    radius: torch.Tensor
    delta: torch.Tensor
    abstained: torch.Tensor


Smooth: TypeAlias = Callable[[Callable[[Images], Scores], Images, ImageRng], torch.Tensor]
"""A built noisy pass: (metric, images ``(N, 3, H, W)``, streams) -> finite scores ``(N, S, V)``.

S noisy copies of each image are scored in V versions, such as before and after a denoiser. The copies are made and
scored a few at a time, so that memory does not grow with S.
"""
Certify: TypeAlias = Callable[[torch.Tensor, tuple[float, float]], Certificate]
"""A built certification: scores ``(N, S, V)`` of noisy copies and the metric's (lower, upper) -> certificate."""
SCORER = Only("Callable[[Images], Scores]")
"""The metric that is smoothed; it is always called in this process, wherever the noisy pass runs."""
NOISY_SCORES = Rows(dimensions=3)
CERTIFICATE = Record(Certificate, value=Rows(), radius=Rows(gaps=True), delta=Rows(gaps=True), abstained=Rows())


class Certification(MetricDefense, Builds[Certify]):
    """A defense that proves how much a score can change: it scores noisy copies and derives a promise from them."""

    call = Call(scores=NOISY_SCORES, bounds=BOUNDS, returns=CERTIFICATE)
    smooth_call: ClassVar[Call] = Call(score=SCORER, images=IMAGES, rng=STREAMS, returns=NOISY_SCORES)

    def noisy(self) -> Certification:
        """Return the certification whose noisy pass this one uses, by default its own.

        Certifications that return equal ones share one pass over the noisy copies.
        """
        return self

    @abstractmethod
    def smooth(self, device: torch.device) -> Smooth:
        """Return the noisy pass; `build` returns the function that derives the certificate from its scores."""
