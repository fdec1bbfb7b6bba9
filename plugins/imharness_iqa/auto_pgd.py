"""Auto-PGD: projected gradient steps whose size is halved where they stop helping.

Croce & Hein, "Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse Parameter-Free Attacks" (ICML
2020), algorithm 1 and section 3. With P, which clamps to the ball and to [0, 1], a step of size s goes from x_k to

    z = P(x_k + s sign(gradient)),  x_(k+1) = P(x_k + alpha (z - x_k) + (1 - alpha) (x_k - x_(k-1))),

with alpha = 0.75, and 1 in the first step. At a checkpoint w_j the step of an image is halved and its search starts
again from the best point, if fewer than 75 % of the steps since the last checkpoint raised the loss, or if neither the
step nor the best value changed. This is decided for each image separately.
"""

from collections.abc import Callable

import torch

from imharness.images import Images, Scores

ALPHA, RISING = 0.75, 0.75
"""The weight of the new step against momentum, and the share of steps that must raise the loss."""


def checkpoints(steps: int) -> list[int]:
    """Return the numbers of the steps after which step sizes are reconsidered: at 0.22 of all, then ever more often."""
    marks, previous, fraction = [], 0.0, 0.22
    while fraction <= 1:
        marks.append(-(-round(1e6 * fraction * steps) // 1_000_000))  # rounded up, after noise of floats is cut
        previous, fraction = fraction, fraction + max(fraction - previous - 0.03, 0.06)
    return sorted(set(marks))


def auto_pgd(
    loss: Callable[[Images], Scores], images: Images, radius: float, steps: int, first_step: float = 2.0
) -> Images:
    """Return images ``(N, 3, H, W)`` in [0, 1], within `radius` of the given ones (L-infinity), with a high loss.

    Args:
        loss: images -> ``(N,)``, differentiable; it is called `steps` + 1 times.
        radius: radius of the ball.
        steps: number of gradient steps.
        first_step: size of the first step, in radii.
    """
    low, high = (images - radius).clamp(min=0), (images + radius).clamp(max=1)
    shape = (-1, 1, 1, 1)
    step = torch.full((len(images),), first_step * radius, device=images.device)
    before, now = images, images  # x_(k-1) and x_k
    value, gradient = _with_gradient(loss, now)
    best, best_value, best_gradient = now, value, gradient
    # of the last checkpoint: its number, the best loss then, and whether the step was halved; `risen` counts since then
    last_mark, checked_value, risen = 0, value, torch.zeros_like(value)
    halved = torch.ones_like(value, dtype=torch.bool)  # so that no image is stuck at the first checkpoint
    marks = set(checkpoints(steps))
    for number in range(1, steps + 1):
        z = torch.clamp(now + step.view(shape) * gradient.sign(), low, high)
        alpha = ALPHA if number > 1 else 1.0
        moved = torch.clamp(now + alpha * (z - now) + (1 - alpha) * (now - before), low, high)
        before, now = now, moved
        previous_value = value
        value, gradient = _with_gradient(loss, now) if number < steps else (_value(loss, now), gradient)
        risen = risen + (value > previous_value)
        better = value > best_value
        best, best_gradient = (
            torch.where(better.view(shape), a, b) for a, b in ((now, best), (gradient, best_gradient))
        )
        best_value = torch.where(better, value, best_value)
        if number in marks:
            stuck = ~halved & (checked_value >= best_value)
            halved = (risen < RISING * (number - last_mark)) | stuck
            step = torch.where(halved, step / 2, step)
            back = halved.view(shape)
            now, gradient = torch.where(back, best, now), torch.where(back, best_gradient, gradient)
            value = torch.where(halved, best_value, value)
            last_mark, checked_value, risen = number, best_value, torch.zeros_like(risen)
    return best


def _with_gradient(loss: Callable[[Images], Scores], images: Images) -> tuple[Scores, Images]:
    with torch.enable_grad():
        leaf = images.detach().requires_grad_(True)
        value = loss(leaf)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def _value(loss: Callable[[Images], Scores], images: Images) -> Scores:
    with torch.no_grad():
        return loss(images)
