"""L-BFGS for a batch of independent problems: each row has its own memory, direction and step.

Nocedal & Wright, "Numerical Optimization" (2006), algorithm 7.4, with unit steps as torch.optim.LBFGS takes
them without a line search.
"""

from collections.abc import Callable, Sequence

import torch

from imharness.images import Progress

CURVATURE = 1e-10
"""The least curvature of pairs that are used."""
Pair = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Steps and changes of the gradient, ``(N, D)``, and their product ``(N, 1)``, infinite for pairs that are not used."""
PATIENCE, GAIN = 100, 0.01
"""A row that may stop does so when its value fell by less than `GAIN`, as a share, in `PATIENCE` steps."""


def minimise(
    objective: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    start: torch.Tensor,
    iterations: int,
    history: int,
    progress: Progress,
    rate: float = 1.0,
    enough: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best point ``(N, D)`` that each row met, from `start`, and its value ``(N,)``.

    `objective`: ``(n, D)`` and the positions ``(n,)`` of these rows among the N -> ``(n,)``, each row by itself.
    `rate`: factor on each step. `enough`: values ``(N,)`` at which rows stop; then a row also stops
    when its value hardly falls any more. A row whose value or gradient stops being finite stays where it is.
    """
    rows = torch.arange(len(start), device=start.device)
    best, (lowest, gradient) = start.clone(), _value_and_gradient(objective, start, rows)
    x, before = start, lowest.clone()
    pairs: list[Pair] = []
    for done in range(iterations):
        direction = _direction(gradient, pairs)
        step = rate * direction
        if not pairs:
            step = step * (1 / gradient.abs().sum(dim=1, keepdim=True)).clamp(max=1)
        following = x + step
        value, new_gradient = _value_and_gradient(objective, following, rows)
        sound = torch.isfinite(value) & torch.isfinite(new_gradient).all(dim=1)
        following = torch.where(sound[:, None], following, x)
        new_gradient = torch.where(sound[:, None], new_gradient, gradient)
        pairs = [*pairs, _pair(following - x, new_gradient - gradient)][-history:]
        x, gradient = following, new_gradient
        better = sound & (value < lowest[rows])
        best[rows[better]], lowest[rows[better]] = x[better], value[better]
        progress(done + 1, iterations)
        if enough is None:
            continue
        active_rows = lowest[rows] > enough[rows]
        if (done + 1) % PATIENCE == 0:
            active_rows &= lowest[rows] < (1 - GAIN) * before[rows]
            before = lowest.clone()
        if not active_rows.all():
            rows, x, gradient = rows[active_rows], x[active_rows], gradient[active_rows]
            pairs = [(s[active_rows], y[active_rows], sy[active_rows]) for s, y, sy in pairs]
        if not len(rows):
            break
    return best, lowest


def _value_and_gradient(
    objective: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], x: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = x.detach().requires_grad_(True)
    value = objective(leaf, rows)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def _pair(step: torch.Tensor, change: torch.Tensor) -> Pair:
    curvature = (step * change).sum(dim=1, keepdim=True)
    return step, change, torch.where(curvature > CURVATURE, curvature, torch.inf)


def _direction(gradient: torch.Tensor, pairs: Sequence[Pair]) -> torch.Tensor:
    """Return minus the inverse Hessian estimate times the gradient: the two-loop recursion, row by row."""
    q, alphas = -gradient, []
    for s, y, sy in reversed(pairs):
        alpha = (s * q).sum(dim=1, keepdim=True) / sy
        alphas.append(alpha)
        q = q - alpha * y
    if pairs:
        _, y, sy = pairs[-1]
        q = q * torch.where(sy.isfinite(), sy / (y * y).sum(dim=1, keepdim=True), torch.ones_like(sy))
    for (s, y, sy), alpha in zip(pairs, reversed(alphas), strict=True):
        q = q + (alpha - (y * q).sum(dim=1, keepdim=True) / sy) * s
    return q
