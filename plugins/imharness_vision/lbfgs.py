"""L-BFGS for a batch of independent problems: each row has its own memory, direction and step.

Nocedal & Wright, "Numerical Optimization" (2006), section 7.1, with unit steps as torch.optim.LBFGS takes them without
a line search.
"""

from collections.abc import Callable

import torch

from imharness.images import Progress

CURVATURE = 1e-10
"""The least curvature s · y of a pair that is used."""
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

    `objective`: points ``(n, D)``, and the positions ``(n,)`` of these rows among the N -> values ``(n,)``; each value
    depends on its row alone. `history`: the number of pairs of steps and changes of the gradient that are remembered.
    `rate`: factor on each step. `enough`: values ``(N,)`` at which rows stop; if it is given, a row also stops when its
    value hardly falls any more. A row whose value or gradient is no longer finite stays where it is.
    """
    rows = torch.arange(len(start), device=start.device)
    best, (lowest, gradient) = start.clone(), _value_and_gradient(objective, start, rows)
    x, before = start, lowest.clone()  # before: the lowest values `PATIENCE` steps ago
    memory = _Memory(start, min(history, iterations))
    for done in range(iterations):
        step = rate * memory.direction(gradient)
        if not done:
            step = step * (1 / gradient.abs().sum(dim=1, keepdim=True)).clamp(max=1)
        following = x + step
        value, new_gradient = _value_and_gradient(objective, following, rows)
        sound = torch.isfinite(value) & torch.isfinite(new_gradient).all(dim=1)
        following = torch.where(sound[:, None], following, x)
        new_gradient = torch.where(sound[:, None], new_gradient, gradient)
        memory.add(following - x, new_gradient - gradient)
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
            memory.keep(active_rows)
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


class _Memory:
    """The last `size` steps s and changes y of the gradient of each row, and the direction that follows from them.

    Of pairs that are not used, s and y are 0. The direction is that of the two loops over the pairs, of algorithm 7.4,
    as products of matrices (Byrd, Nocedal & Schnabel, "Representations of quasi-Newton matrices and their use in
    limited memory methods", Mathematical Programming 63, 1994, theorem 2.2): two passes over the pairs, not four, and a
    dozen operations, not four for each pair. The newest pair replaces the oldest.
    """

    def __init__(self, start: torch.Tensor, size: int) -> None:
        rows, values = start.shape
        self._size, self._added = size, 0
        self._pairs = start.new_zeros(rows, 2, size, values)
        self._products = start.new_zeros(rows, 2, size, size)
        """``[:, 0, i, j]`` is s_i · y_j, and ``[:, 1, i, j]`` is y_i · y_j."""
        self._scale = start.new_ones(rows, 1, 1)

    def add(self, step: torch.Tensor, change: torch.Tensor) -> None:
        """Add a pair ``(N, D)`` of each row; one whose curvature is too small is not used."""
        used = ((step * change).sum(dim=1, keepdim=True) > CURVATURE)[..., None]
        pair = torch.where(used, torch.stack([step, change], dim=1), 0)
        at, self._added = self._added % self._size, self._added + 1
        self._pairs[:, :, at] = pair
        products = self._with_pairs(pair)  # of each s and y with both of the new pair
        count = products.shape[3]
        self._products[:, 0, :count, at] = products[:, 0, 1]
        self._products[:, 0, at, :count] = products[:, 1, 0]
        self._products[:, 1, :count, at] = self._products[:, 1, at, :count] = products[:, 1, 1]
        curvature, square = (self._products[:, i, at, at, None, None] for i in range(2))
        self._scale = torch.where(used, curvature / square, 1)

    def keep(self, rows: torch.Tensor) -> None:
        """Keep the rows that a mask ``(N,)`` names."""
        self._pairs, self._products, self._scale = self._pairs[rows], self._products[rows], self._scale[rows]

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return the direction ``(N, D)`` of the next step.

        With q the negative gradient, c the scale, R the upper triangle of S'Y with the oldest pair first, and D its
        diagonal: a = R^-1 S'q, b = R'^-1 ((D + c Y'Y) a - c Y'q), and the direction is c q + S b - c Y a.
        """
        count, first = min(self._added, self._size), self._added % self._size
        if not count:
            return -gradient
        first = first if count == self._size else 0  # where the oldest pair is
        steps_with, changes_with = self._with_pairs(-gradient[:, None]).mT.unbind(dim=1)
        of_steps, of_changes = self._products[:, :, :count, :count].unbind(dim=1)
        curvature = of_steps.diagonal(dim1=1, dim2=2)[..., None]
        upper = of_steps.roll((-first, -first), dims=(1, 2)).triu()
        upper.diagonal(dim1=1, dim2=2).masked_fill_(curvature.roll(-first, dims=1)[..., 0] == 0, 1)
        a = torch.linalg.solve_triangular(upper, steps_with.roll(-first, dims=1), upper=True).roll(first, dims=1)
        right = curvature * a + self._scale * (of_changes @ a - changes_with)
        b = torch.linalg.solve_triangular(upper.mT, right.roll(-first, dims=1), upper=False).roll(first, dims=1)
        along = torch.stack([b, -self._scale * a], dim=1).mT @ self._pairs[:, :, :count]
        return along.sum(dim=(1, 2)) - self._scale[..., 0] * gradient

    def _with_pairs(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the products of vectors ``(N, k, D)`` with the pairs, ``(N, 2, k, pairs)``: with each s, then each y.

        The vectors are rows, which is five times as fast on a CPU as columns are.
        """
        return vectors[:, None] @ self._pairs[:, :, : min(self._added, self._size)].mT
