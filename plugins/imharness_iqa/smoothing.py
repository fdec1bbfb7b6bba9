"""Randomised smoothing of a quality metric: the scores of noisy copies, and two certificates that follow from them.

Cohen, Rosenfeld & Kolter, "Certified Adversarial Robustness via Randomized Smoothing" (ICML 2019), algorithm CERTIFY
and theorem 1, on the score cut into ordered classes; Chiang et al., "Detection as Regression: Certified Object
Detection with Median Smoothing" (NeurIPS 2020), theorem 1 and its order statistics. Settings of Guardians of Image
Quality, appendix A.3.5.
"""

from collections.abc import Callable

import numpy as np
import scipy
import torch
from pydantic import Field

from imharness.errors import UsageError
from imharness.images import Certificate, Certification, Certify, ImageRng, Images, Scores, Smooth

ALPHA = 0.001
"""One minus the confidence level of a radius."""
DRAWN = 16
"""The number of copies of an image that are drawn at once. It does not depend on the batch, so that results do not."""
SCORED = {"cpu": 64}
"""The number of copies that are scored at once, by kind of device; other devices have `SCORED_ELSEWHERE`."""
SCORED_ELSEWHERE = 256
Denoise = Callable[[Images, ImageRng], Images]


class GaussianPass(Certification):
    """The scores of noisy copies ``(N, selection + samples, votes)``, with or without a denoiser before the metric."""

    sigma: float = Field(default=0.12, gt=0, le=1, description="Standard deviation of the noise, in units of [0, 1].")
    selection: int = Field(default=100, ge=1, le=100_000, description="Number of copies that choose the class.")
    samples: int = Field(default=1000, ge=1, le=1_000_000, description="Number of copies that estimate the radius.")
    votes: int = Field(default=1, ge=1, le=101, description="Denoised versions of each copy that vote on its class.")

    def denoiser(self, device: torch.device) -> Denoise | None:
        """Return the denoiser of noisy copies, or None."""
        return None

    def smooth(self, device: torch.device) -> Smooth:
        """Return the noisy pass: ``(N, selection + samples, votes)``, copies scored as they are drawn.

        Clipping to [0, 1] is a part of the smoothed metric, so the certificate holds with it.
        """
        denoise = self.denoiser(device)
        scored = SCORED.get(device.type, SCORED_ELSEWHERE)
        total = self.selection + self.samples
        draws = [min(DRAWN, total - first) for first in range(0, total, DRAWN)]

        def smooth(score: Callable[[Images], Scores], images: Images, rng: ImageRng) -> torch.Tensor:
            draws_at_once = 1 if denoise is not None else max(1, scored // (DRAWN * len(images)))
            score_blocks = []
            for first in range(0, len(draws), draws_at_once):
                drawn = [rng.normal(size, *images.shape[1:]) for size in draws[first : first + draws_at_once]]
                noise = torch.cat(drawn, dim=1)
                noisy = noise.mul_(self.sigma).add_(images[:, None])
                count = noisy.shape[1]  # copies of each image
                noisy = noisy.flatten(0, 1)
                streams = rng.repeated(count) if denoise is not None else rng
                chunks = [
                    self._votes(score, denoise, chunk, streams.slice(start, start + len(chunk)))
                    for start, chunk in zip(range(0, len(noisy), scored), noisy.split(scored), strict=True)
                ]
                score_blocks.append(torch.cat(chunks).unflatten(0, (len(images), count)))
            return torch.cat(score_blocks, dim=1)

        return smooth

    def _votes(
        self, score: Callable[[Images], Scores], denoise: Denoise | None, noisy: Images, rng: ImageRng
    ) -> torch.Tensor:
        """Return the scores of noisy copies ``(n, votes)``; without a denoiser all votes are the same."""
        if denoise is None:
            return score(noisy.clamp(0, 1))[:, None].expand(-1, self.votes)
        return torch.stack([score(denoise(noisy, rng)) for _ in range(self.votes)], dim=1)


class ClassSmoothing(GaussianPass):
    """A radius within which the most frequent class of the score stays the most frequent one."""

    classes: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Number of ordered classes inside the bounds; there is one more at each end.",
    )

    def noisy(self) -> Certification:
        """Return this certification with its classes at their default: the noisy scores do not depend on them."""
        return type(self).model_validate({k: v for k, v in self.model_dump().items() if k != "classes"})

    def build(self, device: torch.device) -> Certify:
        def certify(scores: torch.Tensor, bounds: tuple[float, float]) -> Certificate:
            predicted = classes_of(scores, bounds, self.classes)
            predicted = predicted.mode(dim=2).values
            top = predicted[:, : self.selection].mode(dim=1).values
            hits = (predicted[:, self.selection :] == top[:, None]).sum(dim=1)
            low = torch.from_numpy(lower_confidence(hits.cpu().numpy(), self.samples)).to(scores)
            abstained = low < 0.5
            radius = torch.where(abstained, torch.zeros_like(low), self.sigma * torch.special.ndtri(low))
            lower, upper = bounds
            centre = lower + (top.to(scores) - 0.5) * (upper - lower) / self.classes
            value = centre.clamp(lower, upper)
            return Certificate(value, radius, torch.full_like(value, torch.nan), abstained)

        return certify


class MedianSmoothing(GaussianPass):
    """An interval that holds the median score of noisy copies, for every image within a radius."""

    epsilon: float = Field(default=0.05, gt=0, le=10, description="Euclidean radius, for images in [0, 1].")
    confidence: float = Field(default=0.999, gt=0.5, lt=1, description="Confidence of each end of the interval.")

    def build(self, device: torch.device) -> Certify:
        """Return the certification; raises `UsageError` when there are too few copies for the radius."""
        order_statistics(self.samples, self.sigma, self.epsilon, self.confidence)

        def certify(scores: torch.Tensor, bounds: tuple[float, float]) -> Certificate:
            ordered = self._ordered(scores)
            value = (ordered[:, (self.samples - 1) // 2] + ordered[:, self.samples // 2]) / 2
            low, high = self.ends(scores)
            certain = torch.zeros_like(value, dtype=torch.bool)
            return Certificate(value, torch.full_like(value, torch.nan), high - low, certain)

        return certify

    def ends(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the ends ``(N,)`` of the interval that holds the median of every image within `epsilon`.

        `scores`: the scores of the noisy pass.
        """
        low, high = order_statistics(self.samples, self.sigma, self.epsilon, self.confidence)
        ordered = self._ordered(scores)
        return ordered[:, low - 1], ordered[:, high - 1]

    def _ordered(self, scores: torch.Tensor) -> torch.Tensor:
        return scores[:, self.selection :].mean(dim=2).sort(dim=1).values


def classes_of(scores: torch.Tensor, bounds: tuple[float, float], classes: int) -> torch.Tensor:
    """Return the class of each score, int64: 0 below the bounds, 1 to `classes` inside, `classes` + 1 above them.

    The upper bound itself counts as above.
    """
    lower, upper = bounds
    class_index = ((scores - lower) / (upper - lower) * classes).floor().long() + 1
    return class_index.clamp(0, classes + 1)


def lower_confidence(hits: np.ndarray, samples: int, alpha: float = ALPHA) -> np.ndarray:
    """Return Clopper & Pearson's lower bound of a share, given `hits` of `samples`, with confidence 1 - alpha."""
    from statsmodels.stats.proportion import proportion_confint

    return proportion_confint(hits, samples, alpha=2 * alpha, method="beta")[0]


def order_statistics(samples: int, sigma: float, epsilon: float, confidence: float) -> tuple[int, int]:
    """Return which two of the sorted scores, counted from 1, enclose the median of every image within the radius.

    With p = Phi(epsilon / sigma), the upper one is the smallest k such that, with the confidence, fewer than k of the
    scores lie below the p-quantile; the lower one is its mirror image. Raises `UsageError` if no k is small enough.
    """
    p = scipy.stats.norm.cdf(epsilon / sigma)
    high = int(scipy.stats.binom.ppf(confidence, samples, p)) + 1
    if high > samples:
        raise UsageError(f"{samples} noisy copies are too few for radius {epsilon:g} at noise {sigma:g}; take more")
    return samples + 1 - high, high
