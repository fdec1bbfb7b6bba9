"""The base of InvGrad and GradAttack: signed Adam matches the direction of the gradient, with priors on the image.

Geiping et al., "Inverting Gradients - How easy is it to break privacy in federated learning?" (NeurIPS 2020), equation
4: 1 - cosine + total variation; the step size is divided by 10 after 3/8, 5/8 and 7/8 of the steps. The label is read
from the gradient. All images and all starts are optimised at once, each with its own loss. The last steps are left out,
because rounding to 8 bits moves pixels as far.
"""

import torch
from pydantic import Field

from imharness.gradients import Gradients, ImageRng, Images, Progress, Reconstruct, ReconstructionAttack
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.per_image import image_gradients, labels_from_gradients

DECAYS, DECAY = (3, 5, 7), 0.1
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's decay rates and epsilon."""
EVERY = slice(None)
TINY = 1e-8
"""The least length of a gradient that has a direction."""
HALF_LEVEL = 0.5 / 255
"""Rounding to 8 bits moves a pixel by up to this; final steps that together could move none further are left out."""


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
        """Return the number of steps that are taken: a step of Adam on signs moves no pixel by more than its size.

        That holds while the gradient of a pixel is not 0: after many zeros, a step is several times as long.
        """
        total = 0.0
        for done in reversed(range(1, self.steps)):
            total += self.rate(done)
            if total >= HALF_LEVEL:
                return done + 1
        return 1

    def stepped(
        self,
        x: Images,
        mean: torch.Tensor,
        square: torch.Tensor,
        slope: torch.Tensor,
        done: int,
        at: torch.Tensor | slice = EVERY,
    ) -> None:
        """Take step `done` of Adam on the signs of `slope`, in place, with its running means; `at`: of which rows."""
        sign, rate = slope.sign(), self.rate(done)
        mean[at] = torch.lerp(sign, mean[at], BETAS[0])
        square[at] = torch.lerp(sign.square(), square[at], BETAS[1])
        scale = (square[at] / (1 - BETAS[1] ** (done + 1))).sqrt() + EPS
        x[at] = (x[at] - rate / (1 - BETAS[0] ** (done + 1)) * mean[at] / scale).clamp(0, 1)

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients,
            model: torch.nn.Module,
            shape: tuple[int, int, int],
            rng: ImageRng,
            progress: Progress,
        ) -> Images:
            labels = labels_from_gradients(gradients, model, shape).repeat(self.starts)
            wanted = directions(gradients)
            masks = survivors(gradients) if self.surviving else None
            first = torch.cat([rng.normal(*shape) for _ in range(self.starts)])
            x = (0.5 + 0.2 * first).clamp(0, 1)
            lowest = x.new_full((len(x),), torch.inf)
            rows, (mean, square) = torch.arange(len(x), device=x.device), torch.zeros(2, *x.shape, device=x.device)
            steps = self.worth()
            for done in range(steps):
                at = rows if len(rows) < len(x) else slice(None)  # a slice is not copied
                image_index = rows % len(rng) if self.starts > 1 else at
                leaf = x[at].clone().requires_grad_(True)
                computed = image_gradients(model, leaf, labels[at])
                ours = [
                    computed[name] if masks is None else computed[name] * masks[name][image_index] for name in gradients
                ]
                gap = CosineDistance.apply(*ours, *(w[image_index] for w in wanted))
                loss = gap + self.prior(model, leaf)
                (slope,) = torch.autograd.grad(loss.sum(), leaf)
                lowest[at] = loss.detach()
                going = gap.detach() > self.tolerance
                if not going.all():
                    at = rows = rows[going]
                    slope = slope[going]
                if not len(rows):
                    break
                self.stepped(x, mean, square, slope, done, at)
                progress(done + 1, steps)
            if self.starts == 1:
                return x
            best = lowest.view(self.starts, -1).argmin(dim=0)
            return x.view(self.starts, len(best), *shape)[best, torch.arange(len(best), device=x.device)]

        return reconstruct


def flat(gradients: Gradients) -> torch.Tensor:
    """Return all coordinates of each image's gradient in one row, ``(N, D)``."""
    return torch.cat([values.flatten(1) for values in gradients.values()], dim=1)


def lengths(rows: torch.Tensor) -> torch.Tensor:
    """Return the length of each row ``(N, D)``, however short it is; of a row of zeros the least number above 0."""
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

    Takes the parts of the gradients ``(N, *shape)``, then those of the directions, of length 1 over all parts.
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
