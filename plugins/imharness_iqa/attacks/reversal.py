"""Reversal: moves each score to where it passes most clean scores, and so reverses most pairs.

Rankings count the share of other images whose order with an attacked one changes. An attack that raises every score
reverses no pair of the best image; this one lowers that score. What it knows of other images is the scores of training
images, which it is fitted on; its steps are those of I-FGSM or of the Square attack.

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
"""How many times as long as an even share of the radius a step is, so that a few steps reach the edge of the ball."""
Share = Callable[[Scores], Scores]


def share_below(scores: Scores) -> Share:
    """Return a function: scores ``(n,)`` -> the share of `scores` ``(m,)`` below each, smooth and rising everywhere.

    Each score counts as a normal distribution as wide as a standard deviation of all over the root of m; a thousandth
    for each standard deviation from their mean separates scores that lie beyond all.
    """
    mean, spread = scores.mean(), scores.std(correction=0).clamp(min=1e-12)
    width = spread / len(scores) ** 0.5
    return lambda at: torch.special.ndtr((at[:, None] - scores) / width).mean(dim=1) + 1e-3 * (at - mean) / spread


class _Reversal(FittedAttack):
    """The scores of clean training images, with the defense in front of the metric if the attack knows it."""

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
            """Return +1 or -1 ``(N, 1, 1, 1)``: the side on which a step of first order passes more clean scores."""
            ahead = self.radius * gradient.abs().sum(dim=(1, 2, 3))
            up = share(scores + ahead) + share(scores - ahead) >= 2 * share(scores)
            return torch.where(up, 1.0, -1.0)[:, None, None, None]

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            low, high = (images - self.radius).clamp(min=0), (images + self.radius).clamp(max=1)
            attacked, side = images, None
            for _ in range(self.steps):
                leaf = attacked.detach().requires_grad_(True)
                scores = target(leaf)
                (gradient,) = torch.autograd.grad(scores.sum(), leaf)
                side = towards(scores.detach(), gradient) if side is None else side
                attacked = torch.clamp(attacked + STRIDE * self.radius / self.steps * side * gradient.sign(), low, high)
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
