"""Reversal: moves the score of an image past as many scores of clean images as it can, up or down.

Rankings count the share of other images whose order with an attacked image changes. An attack that raises every score
changes nothing for the best image; this attack lowers that score. It does not know the scores of the tested images: it
takes those of training images, on which it is fitted, in their place. Its steps are those of I-FGSM or of the Square
attack.

Yang et al., "Beyond Score Changes: Adversarial Attack on No-Reference Image Quality Assessment from Two Perspectives"
(2024), turn the order of a whole set at once, by target scores for all of its images. Here image i is attacked by
itself. Of that paper the abstract and the two stages of its attack were read.
"""

from collections.abc import Callable, Mapping

import torch
from pydantic import Field

from imharness.images import (
    AttackInfo,
    Budget,
    FittedAttack,
    ImageRng,
    Images,
    Perturb,
    Progress,
    Scores,
    Target,
    hookimpl,
)
from imharness_iqa.attacks.square import Square

STRIDE = 2
"""The length of a step, in units of radius / steps: with 2, half of the steps reach the edge of the ball."""
SLOPE = 1e-3
"""What a standard deviation adds to the share of scores below."""
Share = Callable[[Scores], Scores]
"""Scores ``(n,)`` -> the share of the clean scores below each ``(n,)``."""


def share_below(scores: Scores) -> Share:
    """Return a function: scores ``(n,)`` -> the share of `scores` ``(m,)`` below each, smooth and rising everywhere.

    Each of the m scores is smoothed to a normal distribution, with the standard deviation of all of them divided by the
    square root of m as its width. Beyond all m scores that share would be flat, so a line of a small slope is added:
    `SLOPE` for each standard deviation.
    """
    mean, spread = scores.mean(), scores.std(correction=0).clamp(min=1e-12)
    width = spread / len(scores) ** 0.5

    def share(at: Scores) -> Scores:
        smoothed = torch.special.ndtr((at[:, None] - scores) / width).mean(dim=1)
        return smoothed + SLOPE * (at - mean) / spread

    return share


class _Reversal(FittedAttack):
    """The base of both attacks: it keeps the scores of clean training images.

    If the attack knows the defense, they are the scores behind it.
    """

    opt_in = True

    def fit(self, images: Images, target: Target, rng: torch.Generator, progress: Progress) -> dict[str, torch.Tensor]:
        """Score the training images."""
        return {"scores": target(images, torch.arange(len(images)))}


class Reversal(_Reversal):
    """Iterated sign gradient up or down, whichever is expected to reverse more pairs, in an L-infinity ball."""

    info = AttackInfo(
        id="harness/reversal",
        version="1",
        access="white_box",
        norm="linf",
        raises=False,
        strengths={"weak": {"radius": 2 / 255}, "medium": {"radius": 4 / 255}, "strong": {"radius": 8 / 255}},
        paper="yang2024",
    )
    radius: float = Field(
        default=4 / 255, gt=0, le=1, description="Radius of the L-infinity ball, in units of the pixel range."
    )
    steps: int = Field(default=10, ge=1, le=10_000, description="Number of steps, of 2 radius / steps each.")

    def budget(self) -> Budget:
        """Return the ball and the number of scores: one per step."""
        return Budget(radius=self.radius, queries=self.steps)

    def build(self, device: torch.device, fitted: Mapping[str, torch.Tensor]) -> Perturb:
        """Return the attack for a metric whose clean scores are known."""
        share = share_below(fitted["scores"].to(device))

        def towards(scores: Scores, gradient: Images) -> torch.Tensor:
            """Return +1 or -1 ``(N, 1, 1, 1)``: the direction in which a score can pass more clean scores."""
            reach = self.radius * gradient.abs().sum(dim=(1, 2, 3))  # how far the score can move, to first order
            # upwards it passes share(scores + reach) - share(scores), downwards share(scores) - share(scores - reach)
            up = share(scores + reach) + share(scores - reach) >= 2 * share(scores)
            return torch.where(up, 1.0, -1.0)[:, None, None, None]

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            low, high = (images - self.radius).clamp(min=0), (images + self.radius).clamp(max=1)
            attacked, direction = images, None
            for _ in range(self.steps):
                leaf = attacked.detach().requires_grad_(True)
                scores = target(leaf)
                (gradient,) = torch.autograd.grad(scores.sum(), leaf)
                direction = towards(scores.detach(), gradient) if direction is None else direction
                step = STRIDE * self.radius / self.steps * direction * gradient.sign()
                attacked = torch.clamp(attacked + step, low, high)
            return attacked

        return perturb


class ReversalSquare(_Reversal):
    """The random search of the Square attack, for the score that reverses most pairs."""

    info = AttackInfo(
        id="harness/reversal-square",
        version="1",
        access="black_box",
        norm="linf",
        raises=False,
        strengths=Square.info.strengths,
        paper="yang2024",
    )
    eps: float = Field(default=0.1, gt=0, le=1, description="L-infinity distance, in units of the pixel range.")
    queries: int = Field(default=10_000, ge=2, le=1_000_000, description="Scores per image.")
    p: float = Field(default=0.05, gt=0, le=1, description="Share of the pixels that the first squares change.")

    def budget(self) -> Budget:
        """Return the distance and the number of scores."""
        return Budget(radius=self.eps, queries=self.queries)

    def build(self, device: torch.device, fitted: Mapping[str, torch.Tensor]) -> Perturb:
        """Return the attack for a metric whose clean scores are known."""
        share = share_below(fitted["scores"].to(device))
        search = Square(eps=self.eps, queries=self.queries, p=self.p).build(device)
        return lambda images, target, rng: search(images, _Passed(target, share), rng)


class _Passed:
    """A target whose score is the share of clean scores between the score of an image and its first one."""

    def __init__(self, target: Target, share: Share) -> None:
        self._target, self._share, self._start = target, share, None
        self.differentiable, self.lower, self.upper = False, 0.0, 1.0

    def __call__(self, images: Images, rows: torch.Tensor | None = None) -> Scores:
        shares = self._share(self._target(images, rows))
        if self._start is None:
            self._start = shares
        return (shares - self._start).abs()

    @property
    def queries(self) -> torch.Tensor:
        return self._target.queries


@hookimpl
def components() -> list[FittedAttack]:
    return [Reversal(), ReversalSquare()]
