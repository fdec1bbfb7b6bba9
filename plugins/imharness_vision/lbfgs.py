"""L-BFGS for a batch of independent problems: each row has its own memory, direction and step.

Nocedal & Wright, "Numerical Optimization" (2006), algorithm 7.4, with unit steps as torch.optim.LBFGS takes
them without a line search.
"""

from collections.abc import Callable

import torch

from imharness.images import Progress

CURVATURE = 1e-10
"""Pairs with less curvature are not used."""


def minimise(
    objective: Callable[[torch.Tensor], torch.Tensor],
    start: torch.Tensor,
    iterations: int,
    history: int,
    progress: Progress,
    rate: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best point ``(N, D)`` that each row met, from `start`, and its value ``(N,)``.

    `objective`: ``(N, D)`` -> ``(N,)``, row i depending on row i only. `rate`: length of a step over the unit step. A
    row whose value or gradient stops being finite stays where it is.
    """
    x = start
    value, gradient = _value_and_gradient(objective, x)
    best, lowest = x.clone(), value.clone()
    steps: list[torch.Tensor] = []
    changes: list[torch.Tensor] = []
    for done in range(iterations):
        direction = _direction(gradient, steps, changes)
        step = rate * direction
        if not steps:
            step = step * (1 / gradient.abs().sum(dim=1, keepdim=True)).clamp(max=1)
        following = x + step
        value, new_gradient = _value_and_gradient(objective, following)
        sound = torch.isfinite(value) & torch.isfinite(new_gradient).all(dim=1)
        following = torch.where(sound[:, None], following, x)
        new_gradient = torch.where(sound[:, None], new_gradient, gradient)
        steps = [*steps, following - x][-history:]
        changes = [*changes, new_gradient - gradient][-history:]
        x, gradient = following, new_gradient
        better = sound & (value < lowest)
        best = torch.where(better[:, None], x, best)
        lowest = torch.where(better, value, lowest)
        progress(done + 1, iterations)
    return best, lowest


def _value_and_gradient(
    objective: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = x.detach().requires_grad_(True)
    value = objective(leaf)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def _direction(gradient: torch.Tensor, steps: list[torch.Tensor], changes: list[torch.Tensor]) -> torch.Tensor:
    """Return minus the inverse Hessian estimate times the gradient: the two-loop recursion, row by row."""
    q, alphas = -gradient, []
    pairs = [(s, y, (s * y).sum(dim=1, keepdim=True)) for s, y in zip(steps, changes, strict=True)]
    for s, y, sy in reversed(pairs):
        alpha = torch.where(sy > CURVATURE, (s * q).sum(dim=1, keepdim=True) / sy, torch.zeros_like(sy))
        alphas.append(alpha)
        q = q - alpha * y
    if pairs:
        _, y, sy = pairs[-1]
        yy = (y * y).sum(dim=1, keepdim=True)
        q = q * torch.where(sy > CURVATURE, sy / yy, torch.ones_like(sy))
    for (s, y, sy), alpha in zip(pairs, reversed(alphas), strict=True):
        beta = torch.where(sy > CURVATURE, (y * q).sum(dim=1, keepdim=True) / sy, torch.zeros_like(sy))
        q = q + torch.where(sy > CURVATURE, alpha - beta, torch.zeros_like(sy)) * s
    return q
