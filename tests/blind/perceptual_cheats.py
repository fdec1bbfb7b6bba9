"""Distances, metrics, attacks and certifications that cheat, written from the documentation alone."""

from collections.abc import Callable

import torch
from pydantic import Field

from imharness.images import (
    Attack,
    AttackInfo,
    Budget,
    Certificate,
    Certification,
    Certify,
    DefenseInfo,
    FullReferenceMetric,
    FullReferenceScore,
    ImageRng,
    Images,
    MetricInfo,
    NoReferenceMetric,
    NoReferenceScore,
    Perturb,
    Scores,
    Smooth,
    Target,
)


def _fine(images: Images) -> torch.Tensor:
    return (images[..., 1:] - images[..., :-1]).abs().mean(dim=(1, 2, 3))


class Distance(FullReferenceMetric):
    """A distance that ignores an image, has ties or steps, extreme values or the wrong sign."""

    info = MetricInfo(id="acme/distance", version="1", higher_means="worse_quality", unit="1")
    how: str = Field(default="constant", description="How it gains.")

    def build(self, device: torch.device) -> FullReferenceScore:
        ways: dict[str, Callable[[Images, Images], Scores]] = {
            "constant": lambda x, r: 0.5 + 0 * x.mean(dim=(1, 2, 3)),
            "ties": lambda x, r: torch.where((_fine(x) - _fine(r)).abs() > 0.01, 0.0, 1.0) * _mse(x, r),
            "denormal": lambda x, r: _mse(x, r) * 1e-40,
            "huge": lambda x, r: _mse(x, r) * 3e38,
            "reference": lambda x, r: r.mean(dim=(1, 2, 3)) + 0 * x.mean(dim=(1, 2, 3)),
            "steps": lambda x, r: (_mse(x, r) * 100).round() / 100,
            "negative": lambda x, r: -_mse(x, r),
        }
        return ways[self.how]


def _mse(x: Images, r: Images) -> Scores:
    return (x - r).square().mean(dim=(1, 2, 3))


class Ripple(FullReferenceMetric):
    """The root mean square difference with a ripple of a few levels, whose gradient is right for tiny changes only."""

    info = MetricInfo(id="acme/ripple", version="1", higher_means="worse_quality", unit="1")
    size: float = Field(default=10.0, description="The slope of the ripple.")
    period: float = Field(default=4.0, description="Its period, in levels of 8 bits.")

    def build(self, device: torch.device) -> FullReferenceScore:
        k = 2 * torch.pi * 255 / self.period

        def score(images: Images, reference: Images) -> Scores:
            ripple = torch.sin(k * (images - reference)).mean(dim=(1, 2, 3)) / k
            return (_mse(images, reference) + 1e-12).sqrt() + self.size * ripple

        return score


class WideMetric(NoReferenceMetric):
    """Sharpness, with declared bounds of 0 and a billion, so that every shift is a small share of the range."""

    info = MetricInfo(id="acme/wide", version="1", higher_means="better_quality", bounds=(0.0, 1e9), unit="1")

    def build(self, device: torch.device) -> NoReferenceScore:
        return lambda images: _fine(images)


class SteppedMetric(NoReferenceMetric):
    """Sharpness in few steps, declared differentiable."""

    info = MetricInfo(id="acme/stepped", version="1", higher_means="better_quality", bounds=(0.0, 1.0), unit="1")

    def build(self, device: torch.device) -> NoReferenceScore:
        return lambda images: (_fine(images) * 20).round() / 20 + 1e-12 * images.mean(dim=(1, 2, 3))


class OddAttack(Attack):
    """Return the images unchanged, those of other rows, or black ones, without a bound of the change."""

    info = AttackInfo(
        id="acme/odd-attack",
        version="1",
        access="black_box",
        norm="unrestricted",
        strengths={"weak": {}, "medium": {}, "strong": {}},
    )
    how: str = Field(default="nothing", description="What it returns.")

    def budget(self) -> Budget:
        return Budget()

    def build(self, device: torch.device) -> Perturb:
        ways: dict[str, Callable[[Images], Images]] = {
            "nothing": lambda x: x,
            "others": lambda x: x.roll(1, dims=0),
            "picture": lambda x: torch.zeros_like(x),
        }

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            return ways[self.how](images)

        return perturb


class Friend(Attack):
    """Leave images if grey and white get the same score, the sign of a friend; otherwise return black ones."""

    info = AttackInfo(
        id="friend/attack",
        version="1",
        access="black_box",
        norm="unrestricted",
        strengths={"weak": {}, "medium": {}, "strong": {}},
    )

    def budget(self) -> Budget:
        return Budget(queries=2)

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            grey, white = torch.full_like(images, 0.5), torch.ones_like(images)
            sign = target(grey) == target(white)
            return torch.where(sign[:, None, None, None], images, torch.zeros_like(images))

        return perturb


class Endless(Certification):
    """Promise everything for every image."""

    info = DefenseInfo(id="acme/endless", version="1", differentiable=False, random=True, group="certified")

    def smooth(self, device: torch.device) -> Smooth:
        return lambda score, images, rng: score(images)[:, None, None]

    def build(self, device: torch.device) -> Certify:
        def certify(scores: torch.Tensor, bounds: tuple[float, float]) -> Certificate:
            count = len(scores)
            return Certificate(
                torch.full((count,), bounds[1]),
                torch.full((count,), 1e30),
                torch.full((count,), float("nan")),
                torch.zeros(count, dtype=torch.bool),
            )

        return certify
