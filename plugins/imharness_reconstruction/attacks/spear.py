"""SPEAR: an honest server recovers a whole batch exactly from the mean gradient of a linear layer before a ReLU.

Dimitrov, Baader, Müller & Vechev, "SPEAR: Exact Gradient Inversion of Batches in Federated Learning" (NeurIPS 2024).
The gradient of the layer's weights is ``D^T X``: X ``(P, n)`` are the P images of the batch; D ``(P, m)`` are the
gradients at the layer's output, which are 0 where an image leaves a ReLU inactive. The search has four steps:

1. A decomposition of rank P gives the span of the rows of D. The rows are the sparse directions in it.
2. Random directions of an orthonormal basis are moved towards sparse ones, by least squares whose weights grow where a
   direction nearly vanishes. This is dictionary learning, as in Bakarsky, Dimitrov, Baader & Vechev, "SPEAR++: Scaling
   Gradient Inversion via Sparsely-Used Dictionary Learning" (2025). SPEAR samples P - 1 units instead, at all of which
   an image is inactive with a probability that falls exponentially with P.
3. P directions are chosen so that the images that follow from them activate exactly the units at which the directions
   do not vanish. Their lengths follow from the gradient of the bias, the sum of the rows of D. Each direction is then
   fitted to the units that its own image leaves inactive, so that rounding averages out.
4. An image is returned only with a certificate: the network's own gradient at the layer's output, for the recovered
   image and one of the labels, is its row of D. For any other image a grey one is returned.

Training makes images activate the same units, which defeats the attack. Of 4 groups of 4 thumbnails, `pixel-mlp` gave
all away as initialised, and at most one after five epochs, when 5 to 28 % of the units that some image activates were
inactive for another.
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.data import double
from imharness.errors import UsageError
from imharness.gradients import (
    HONEST,
    Gradients,
    ImageRng,
    Images,
    Info,
    Progress,
    Reconstruct,
    ReconstructionAttack,
    Round,
    hookimpl,
)
from imharness_reconstruction.linear_layer import first_linear

CHUNK = 64
"""The number of random directions that are moved at once."""
STEPS = 80
"""The number of steps by which a direction is moved."""
SHARPER = 1e-4
"""The value of a direction at a unit nearly vanishes if it is below a share of the median: 1 in the first step, this in
the last one."""
NOISY = 5.0
"""A value below so many standard deviations of the noise counts as 0."""
ZERO = 1e-3
"""A value below this share of the direction's largest value counts as 0, too."""
SPARSE = 0.05
"""A direction is sparse if it vanishes at this share of the units or more; by chance, the share is about `ZERO`."""
SAME = 0.999
"""Two directions with at least this cosine are the same."""
APART = 1e-3
"""A direction is independent of others if its component outside of their span has at least this share of its length."""
MOST = 64
"""The largest number of sparse directions that are considered."""
AGREED = 0.9
"""Certificates are computed once images and directions agree at this share of the units."""
FITS = 4
"""The number of rounds in which directions are fitted to the units that their images leave inactive."""
TINY = 1e-30
"""Divisors are raised to at least this."""
RANK = 1e-6
"""Singular values below this share of the largest one are rounding of float32."""


class Spear(ReconstructionAttack):
    """Exact inversion of the mean gradient of a batch by an honest server, through a linear layer before a ReLU."""

    info = Info(id="harness/spear", version="1", paper="dimitrov2024")
    opt_in = True
    images: int = Field(default=4, ge=1, le=64, description="Images of a participant, which the attacker knows.")
    starts: int = Field(
        default=1024, ge=1, le=2**24, description="Most random directions for a participant; few images need few."
    )
    tolerance: float = Field(
        default=0.1, gt=0, lt=1, description="Largest relative error of a gradient that certifies an image."
    )

    def round(self) -> Round:
        return Round(images=self.images)

    @property
    def assumes(self) -> str:
        """What the attack takes for granted, in a sentence."""
        return (
            f"The server is {HONEST}. It knows the network, in which a linear layer with a bias takes the pixels and a "
            f"ReLU follows, the loss, and the number of images of a participant ({self.images})."
        )

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            grey = torch.full((1, *shape), 0.5, device=rng.device)
            ramp = torch.linspace(0, 1, grey.numel(), device=rng.device).view_as(grey)
            name, layer, entered = first_linear(model, ramp, "SPEAR")
            if not torch.equal(entered.flatten(), ramp.flatten()):
                raise UsageError(f"model: SPEAR needs a linear layer that takes the pixels, and {name} takes others.")
            missing = {f"{name}.weight", f"{name}.bias"} - {*gradients}
            if missing:
                raise UsageError(f"gradients: {min(missing)} is missing, from which SPEAR recovers images.")
            weights, biases = gradients[f"{name}.weight"], gradients[f"{name}.bias"]
            size = len(rng) // len(biases)
            rebuilt = grey.expand(len(rng), -1, -1, -1).clone()
            for b, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                search = _Search(weight, bias, model, layer, shape, size, self.tolerance)
                images = search.run(rng.slice(b * size, b * size + 1), self.starts)
                rebuilt[b * size : b * size + len(images)] = images
                progress(b + 1, len(biases))
            return rebuilt

        return reconstruct


class _Search:
    """The search for the images behind one gradient of a linear layer, `weight` ``(m, n)`` and `bias` ``(m,)``."""

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor,
        model: torch.nn.Module,
        layer: torch.nn.Linear,
        shape: tuple[int, int, int],
        size: int,
        tolerance: float,
    ) -> None:
        self.model, self.layer, self.shape, self.size, self.tolerance = model, layer, shape, size, tolerance
        self.bias, gradient = double(bias), double(weight)
        units, lengths, rows = torch.linalg.svd(gradient, full_matrices=False)
        self.rank = min(size, int((lengths > RANK * lengths[0]).sum()))
        self.rows, self.lengths = rows[: self.rank], lengths[: self.rank]
        """An orthonormal basis ``(rank, n)`` of the span of the images, and the lengths of the gradient in it."""
        self.span = gradient @ self.rows.T
        """The coordinates ``(m, rank)`` of each unit's gradient in that basis; times a direction, it is a row of D."""
        degrees = max((gradient.shape[0] - self.rank) * (gradient.shape[1] - self.rank), 1)
        self.noise = float((gradient - self.span @ self.rows).square().sum() / degrees) ** 0.5
        self.live = (self.span.abs() > NOISY * self.noise).any(dim=1)
        """The units that some image activates ``(m,)``."""
        self.basis = units[self.live, : self.rank]
        outputs = self.rows @ double(layer.weight.detach()).T
        self.outputs, self.shift = outputs[:, self.live], double(layer.bias.detach())[self.live]
        """The layer's outputs for the rows of the basis ``(rank, live)``, without its bias, and the bias."""
        self.directions = self.span.new_ones(1, 1) if self.rank == 1 else self.span.new_zeros(0, self.rank)

    def run(self, stream: ImageRng, starts: int) -> Images:
        """Return the images that have a certificate ``(k, *shape)``, in the order of their labels."""
        best = self.span.new_zeros(0, *self.shape).float()
        if not self.rank or len(self.basis) < self.rank:
            return best
        for start in range(0, starts, CHUNK):
            if self.rank > 1:
                self._move(stream.normal(min(CHUNK, starts - start), self.rank)[0])
            directions, agreement = self._choose()
            if agreement >= AGREED or self.rank == 1:
                images = self._certified(*self._fitted(directions))
                best = images if len(images) > len(best) else best
            if len(best) == self.rank or self.rank == 1:
                break
        return best

    def _move(self, drawn: torch.Tensor) -> None:
        """Move directions ``(d, rank)`` until they vanish at many units, and keep the sparse ones."""
        moved = F.normalize(double(drawn), dim=1)
        for number in range(STEPS):
            values = moved @ self.basis.T
            small = values.abs().median(dim=1, keepdim=True).values * SHARPER ** (number / (STEPS - 1))
            noise = self.noise * torch.linalg.vector_norm(moved / self.lengths, dim=1, keepdim=True)
            weights = 1 / (values.square() + small.square() + noise.square()).clamp(min=TINY)
            moved = _least(weights, self.basis)
        every = torch.cat([self.directions, F.normalize(moved / self.lengths, dim=1)])
        zeros = double(self._vanishes(every)).mean(dim=1)
        order = zeros.argsort(descending=True, stable=True)
        order = order[(zeros[order] >= SPARSE) & (zeros[order] < 1)]
        alike = (every[order] @ every[order].T).abs() >= SAME
        self.directions = every[order[~alike.tril(-1).any(dim=1)]][:MOST]

    def _vanishes(self, directions: torch.Tensor) -> torch.Tensor:
        """Return at which live units directions ``(..., rank)`` are 0, ``(..., live)``."""
        values = (directions @ self.span[self.live].T).abs()
        return values <= torch.clamp(ZERO * values.amax(dim=-1, keepdim=True), min=NOISY * self.noise)

    def _choose(self) -> tuple[torch.Tensor, float]:
        """Return `rank` independent directions ``(rank, rank)``, and the share of units at which their images agree.

        First the sparsest independent ones are taken. Then one is exchanged for another as long as images and
        directions agree at more units, see `_agreement`.
        """
        chosen: list[int] = []
        basis = self.span.new_zeros(0, self.rank)
        for number, direction in enumerate(self.directions):
            rest = direction - basis.T @ (basis @ direction)
            if torch.linalg.vector_norm(rest) > APART and len(chosen) < self.rank:
                chosen.append(number)
                basis = torch.linalg.qr(self.directions[chosen].T).Q.T
        positions = torch.tensor(chosen, device=self.span.device, dtype=torch.long)
        if len(chosen) < self.rank:
            return self.directions[positions], 0.0
        agreement, count = float(self._agreement(positions[None])), len(self.directions)
        while agreement < 1:
            # every choice in which one direction is exchanged: ``(count * rank, rank)``
            others = torch.arange(count, device=positions.device).repeat_interleave(self.rank)
            exchanged = torch.arange(self.rank, device=positions.device).repeat(count)
            swapped = positions.repeat(len(others), 1).scatter(1, exchanged[:, None], others[:, None])
            agreements = self._agreement(swapped)
            best = int(agreements.argmax())
            if agreements[best] <= agreement:
                break
            positions, agreement = swapped[best], float(agreements[best])
        return self.directions[positions], agreement

    def _agreement(self, positions: torch.Tensor) -> torch.Tensor:
        """Return the share of live units at which an image is active where its direction is not 0, and only there.

        `positions`: c choices of `rank` directions, ``(c, rank)``; the result is ``(c,)``, 0 for dependent directions.
        """
        directions = self.directions[positions].transpose(1, 2)
        lengths, failed = torch.linalg.solve_ex(directions, self._total().expand(len(positions), -1, -1))
        images, _ = torch.linalg.solve_ex(directions * lengths.transpose(1, 2), self.outputs)
        same = (images + self.shift > 0) != self._vanishes(self.directions)[positions]
        return torch.where(failed == 0, double(same).mean(dim=(1, 2)), 0)

    def _total(self) -> torch.Tensor:
        """Return the sum of the rows of D, the gradient of the bias, as coordinates in the basis ``(rank, 1)``."""
        return torch.linalg.lstsq(self.span, self.bias[:, None]).solution

    def _fitted(self, directions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the images ``(rank, n)`` and the rows of D ``(rank, m)`` that follow from directions ``(rank, rank)``.

        Before, directions are fitted to the units that their images leave inactive, `FITS` times.
        """
        for _ in range(FITS if self.rank > 1 else 0):
            inactive = double(self._mixture(directions) @ self.outputs + self.shift <= 0)
            directions = _least(inactive, self.span[self.live])
        mixture = self._mixture(directions)
        return mixture @ self.rows, torch.linalg.inv_ex(mixture)[0].T @ self.span.T

    def _mixture(self, directions: torch.Tensor) -> torch.Tensor:
        """Return the images of directions as combinations of the rows of the basis ``(rank, rank)``."""
        lengths, _ = torch.linalg.solve_ex(directions.T, self._total())
        return torch.linalg.inv_ex(directions.T * lengths[:, 0])[0]

    def _certified(self, images: torch.Tensor, slopes: torch.Tensor) -> Images:
        """Return the images with a certificate, in the order of their labels.

        `slopes`: the rows of D ``(rank, m)``. The gradient at the layer's output is computed for every image with every
        label; an image has a certificate if the nearest one is its row of D, up to `tolerance`.
        """
        pictures = images.float().view(-1, *self.shape)
        at_output: list[torch.Tensor] = []

        def cut(layer: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
            at_output.append(output.detach().requires_grad_(True))
            return at_output[0].clone()

        handle = self.layer.register_forward_hook(cut)
        try:
            with torch.enable_grad():
                classes = self.model(pictures[:1]).shape[1]
                at_output.clear()
                labels = torch.arange(classes, device=pictures.device).repeat(len(pictures))
                loss = F.cross_entropy(self.model(pictures.repeat_interleave(classes, dim=0)), labels, reduction="sum")
        finally:
            handle.remove()
        (computed,) = torch.autograd.grad(loss, at_output)
        by_label = double(computed).flatten(1).unflatten(0, (len(pictures), classes)) / self.size
        errors = torch.linalg.vector_norm(by_label - slopes[:, None], dim=2)
        errors, labels = (errors / torch.linalg.vector_norm(slopes, dim=1)[:, None]).min(dim=1)
        order = labels.argsort(stable=True)
        return pictures[order[errors[order] <= self.tolerance]].clamp(0, 1)


def _least(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return for each of d weightings ``(d, m)`` the unit vector whose products with rows ``(m, k)`` are smallest.

    That is the vector v with the least sum of weights times (row . v)^2; the result is ``(d, k)``.
    """
    moments = (weights @ (rows[:, :, None] * rows[:, None, :]).flatten(1)).unflatten(1, (rows.shape[1], -1))
    return torch.linalg.eigh(moments).eigenvectors[:, :, 0]


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [Spear()]
