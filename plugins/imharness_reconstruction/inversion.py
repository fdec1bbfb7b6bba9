"""The base of InvGrad and GradAttack: signed Adam matches the direction of the gradient, with priors on the image.

Geiping et al., "Inverting Gradients - How easy is it to break privacy in federated learning?" (NeurIPS 2020), equation
4: 1 - cosine + total variation; the step size is divided by 10 after 3/8, 5/8 and 7/8 of the steps. The label is read
from the gradient. All images and all starts are optimised at once, each with its own loss. The last steps are left
out: together they would change a pixel by less than the rounding to 8 bits does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from pydantic import Field

from imharness.gradients import Gradients, ImageRng, Images, Progress, Reconstruct, ReconstructionAttack
from imharness_reconstruction.captured import captured
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.per_image import image_gradients, labels_from_gradients
from imharness_reconstruction.undoing import as_read

DECAYS, DECAY = (3, 5, 7), 0.1
"""The eighths of the steps after which the step size is multiplied by `DECAY`."""
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's decay rates and epsilon."""
LOOK_CPU, LOOK = 1, 20
"""After every so many steps, images that have stopped are removed from the batch; until then they do not change.

To find out which images have stopped takes no time on a CPU, but a GPU must wait. Results do not depend on this number,
up to rounding, which differs with the size of the batch.
"""
TINY = 1e-8
"""The length of a gradient is raised to at least this before something is divided by it."""
HALF_LEVEL = 0.5 / 255
"""The most by which rounding to 8 bits changes a pixel."""


@dataclass
class Rows:
    """The images of all starts that are optimised together, in tensors that are changed in place.

    Attributes:
        x: the images ``(N, 3, H, W)``.
        labels: ``(N,)``.
        wanted: the directions of the shared gradients, ``(N, *shape)`` for each parameter.
        masks: 1 where a coordinate counts, else 0, in the same shapes; None if all count.
        mean, square: Adam's running means, in the shape of `x`.
        lowest: the last loss of each image ``(N,)``.
        going: whether the image has not stopped, bool ``(N,)``.
    """

    x: Images
    labels: torch.Tensor
    wanted: list[torch.Tensor]
    masks: list[torch.Tensor] | None

    def __post_init__(self) -> None:
        self.mean, self.square = torch.zeros(2, *self.x.shape, device=self.x.device)
        self.lowest = self.x.new_full((len(self.x),), torch.inf)
        self.going = torch.ones_like(self.lowest, dtype=torch.bool)

    def chosen(self, which: torch.Tensor) -> Rows:
        """Return the rows for which `which` ``(N,)`` is true, in new tensors."""
        masks = None if self.masks is None else [mask[which] for mask in self.masks]
        rows = Rows(self.x[which], self.labels[which], [values[which] for values in self.wanted], masks)
        rows.mean, rows.square, rows.lowest = self.mean[which], self.square[which], self.lowest[which]
        return rows


class GradientInversion(ReconstructionAttack):
    """Changes images by signed Adam until their gradient has the direction of the shared one."""

    steps: int = Field(default=4800, ge=8, le=100_000, description="Number of Adam steps.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Adam's step size, in units of the pixel range.")
    total_variation: float = Field(default=1e-4, ge=0, description="Weight of the total variation.")
    starts: int = Field(
        default=1, ge=1, le=100, description="Number of random starts; each image keeps the best result."
    )
    tolerance: float = Field(
        default=1e-6, ge=0, lt=1, description="An image stops when the cosine distance of its gradient is below this."
    )
    surviving: bool = Field(default=True, description="Match only coordinates that are not 0, which pruning leaves.")

    def prior(self, model: torch.nn.Module, images: Images) -> torch.Tensor:
        """Return the prior that is added to the loss of each image, ``(N,)``."""
        return self.total_variation * total_variation(images)

    def rate(self, done: int) -> float:
        """Return the step size after `done` steps."""
        return self.learning_rate * DECAY ** sum(done >= self.steps * k // 8 for k in DECAYS)

    def worth(self) -> int:
        """Return the number of steps that are taken: all but the last ones, which together are below `HALF_LEVEL`.

        A step of Adam on signs changes no pixel by more than the step size, while the pixel's gradient is not 0; after
        many zeros, a step is several times as long.
        """
        total = 0.0
        for done in reversed(range(1, self.steps)):
            total += self.rate(done)
            if total >= HALF_LEVEL:
                return done + 1
        return 1

    def paces(self, steps: int) -> torch.Tensor:
        """Return for each step its size, divided by Adam's correction of the mean, and the correction of the square.

        The result is ``(steps, 2)``.
        """
        corrections = [[1 - beta ** (done + 1) for beta in BETAS] for done in range(steps)]
        return torch.tensor([[self.rate(done) / first, second] for done, (first, second) in enumerate(corrections)])

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients,
            model: torch.nn.Module,
            shape: tuple[int, int, int],
            rng: ImageRng,
            progress: Progress,
        ) -> Images:
            labels = labels_from_gradients(gradients, model, shape).repeat(self.starts)
            masks = survivors(gradients) if self.surviving else None
            first = torch.cat([rng.normal(*shape) for _ in range(self.starts)])
            rows = Rows(
                (0.5 + 0.2 * first).clamp(0, 1),
                labels,
                self._of_starts(directions(as_read(gradients, gradients))),
                None if masks is None else self._of_starts([masks[name] for name in gradients]),
            )
            x, lowest, positions = rows.x.clone(), rows.lowest.clone(), torch.arange(len(labels), device=labels.device)
            steps = self.worth()
            look = LOOK_CPU if x.device.type == "cpu" else LOOK
            paces, number = self.paces(steps).to(x.device), positions.new_zeros(1)

            def step_of(rows: Rows) -> Callable[[], None]:
                """Return the function that takes a step of these rows."""
                return captured(partial(self._step, model, gradients, rows, paces, number), x.device)

            step = step_of(rows)
            for done in range(1, steps + 1):
                step()
                progress(done, steps)
                if done % look == 0 and not rows.going.all():
                    x[positions], lowest[positions] = rows.x, rows.lowest
                    positions, rows = positions[rows.going], rows.chosen(rows.going)
                    if not len(positions):
                        break
                    step = step_of(rows)
            x[positions], lowest[positions] = rows.x, rows.lowest
            if self.starts == 1:
                return x
            best = lowest.view(self.starts, -1).argmin(dim=0)
            return x.view(self.starts, len(best), *shape)[best, torch.arange(len(best), device=x.device)]

        return reconstruct

    def _of_starts(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return tensors ``(N, ...)`` repeated for all starts, ``(starts * N, ...)``."""
        if self.starts == 1:
            return tensors
        return [tensor.repeat(self.starts, *[1] * (tensor.ndim - 1)) for tensor in tensors]

    def _step(
        self, model: torch.nn.Module, shared: Gradients, rows: Rows, paces: torch.Tensor, number: torch.Tensor
    ) -> None:
        """Take the step with the number ``(1,)`` for all rows, in place; rows that have stopped do not change."""
        leaf = rows.x.detach().requires_grad_(True)
        computed = image_gradients(model, leaf, rows.labels)
        ours = {name: computed[name] for name in shared}
        if rows.masks is not None:
            ours = {name: values * mask for (name, values), mask in zip(ours.items(), rows.masks, strict=True)}
        gap = CosineDistance.apply(*as_read(ours, shared).values(), *rows.wanted)
        loss = gap + self.prior(model, leaf)
        (slope,) = torch.autograd.grad(loss.sum(), leaf)
        torch.where(rows.going, loss.detach(), rows.lowest, out=rows.lowest)
        rows.going.logical_and_(gap.detach() > self.tolerance)
        moved = stepped(rows.x, rows.mean, rows.square, slope, paces.index_select(0, number))
        torch.where(rows.going.view(-1, 1, 1, 1), moved, rows.x, out=rows.x)
        number.add_(1)


def stepped(
    x: Images, mean: torch.Tensor, square: torch.Tensor, slope: torch.Tensor, pace: torch.Tensor
) -> torch.Tensor:
    """Return images after a step of Adam on the signs of `slope`; Adam's means change in place.

    `pace`: a row of `GradientInversion.paces`.
    """
    sign, (size, correction) = slope.sign(), pace.unbind(-1)
    torch.lerp(sign, mean, BETAS[0], out=mean)
    torch.lerp(sign.square(), square, BETAS[1], out=square)
    return (x - size * mean / ((square / correction).sqrt() + EPS)).clamp(0, 1)


def flat(gradients: Gradients) -> torch.Tensor:
    """Return all coordinates of each image's gradient in one row, ``(N, D)``."""
    return torch.cat([values.flatten(1) for values in gradients.values()], dim=1)


def lengths(rows: torch.Tensor) -> torch.Tensor:
    """Return the length of each row ``(N, D)`` without underflow; for a row of zeros the smallest number above 0."""
    tiny = torch.finfo(rows.dtype).tiny
    exponent = torch.frexp(rows.abs().amax(dim=1).clamp(min=tiny)).exponent  # powers of 2 round nothing
    scaled = torch.ldexp(rows, -exponent[:, None])
    return torch.ldexp(torch.linalg.vector_norm(scaled, dim=1), exponent).clamp(min=tiny)


def unit(rows: torch.Tensor) -> torch.Tensor:
    """Return rows ``(N, D)`` divided by their lengths; those of zeros stay."""
    return rows / lengths(rows)[:, None]


def directions(gradients: Gradients) -> list[torch.Tensor]:
    """Return each image's gradient, divided by its length, as one tensor for each parameter."""
    length = lengths(flat(gradients))
    return [values / length.view(-1, *[1] * (values.ndim - 1)) for values in gradients.values()]


class CosineDistance(torch.autograd.Function):
    """One minus the cosine of each image's gradient and a direction, ``(N,)``, in few passes over the coordinates.

    The arguments are the gradients ``(N, *shape)`` of all parameters, then the directions in the same shapes; the
    direction of an image has length 1 over all parameters.
    """

    @staticmethod
    def forward(ctx, *tensors: torch.Tensor) -> torch.Tensor:
        ours, wanted = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
        along = sum(torch.linalg.vecdot(g.flatten(1), w.flatten(1)) for g, w in zip(ours, wanted, strict=True))
        square = sum(torch.linalg.vecdot(g.flatten(1), g.flatten(1)) for g in ours)
        length = square.sqrt().clamp(min=TINY)
        ctx.save_for_backward(along / length**3, 1 / length, *tensors)
        return 1 - along / length

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        of_ours, of_wanted, *tensors = ctx.saved_tensors
        ours, wanted = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
        a, b = slope * of_ours, -slope * of_wanted
        gradients = []
        for g, w in zip(ours, wanted, strict=True):
            shape = (-1, *[1] * (g.ndim - 1))
            gradients.append(torch.addcmul(g * a.view(shape), w, b.view(shape)))
        return *gradients, *[None] * len(wanted)


def total_variation(images: torch.Tensor) -> torch.Tensor:
    """Return the sum over both directions of the mean absolute difference of neighbouring pixels, ``(N,)``."""
    down = (images[:, :, 1:] - images[:, :, :-1]).abs().flatten(1).mean(dim=1)
    across = (images[:, :, :, 1:] - images[:, :, :, :-1]).abs().flatten(1).mean(dim=1)
    return down + across
