"""The base of DLG and iDLG: L-BFGS changes dummy images, from several starts, until they have the shared gradient."""

from collections.abc import Callable

import torch
from pydantic import Field

from imharness.gradients import Gradients, Progress, ReconstructionAttack
from imharness_reconstruction.per_image import image_gradients
from imharness_reconstruction.undoing import as_read
from imharness_vision.lbfgs import minimise

Dummy = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Flat variables ``(n, d)`` and the positions ``(n,)`` of their images -> images and targets."""
PRUNED = 0.5
"""The share of zeros above which a gradient may have been pruned."""
ENOUGH = 100
"""With fewer numbers, neither the zeros nor the smallest magnitude say whether a gradient was pruned."""
GAP = 0.15
"""Pruned numbers have no magnitude below this share of their median.

Measured on the plain gradients of MLPs, LeNets and ConvNets, of one image and of up to eight: at most 0.07. After
pruning to the largest 45 % or fewer, in tensors whose zeros are of pruning: 0.16 and more.
"""


def survivors(gradients: Gradients) -> Gradients | None:
    """Return masks of gradients ``(N, *shape)``: 0 for coordinates that pruning set to 0, else 1; None without pruning.

    Many coordinates of a plain gradient are exactly 0, too: those of units that were not active, and of inputs that are
    0. They say something about the image, so their mask is 1. Each of the N gradients is judged by itself: it was
    pruned if one of its parameters shows it, or if most of it is 0 and no parameter shows the opposite. Then the zeros
    of every parameter that does not show the opposite are those of pruning.
    """
    signs = {name: [_pruned(row) for row in values] for name, values in gradients.items()}
    zeros = sum((values == 0).flatten(1).sum(dim=1) for values in gradients.values())
    size = sum(values[0].numel() for values in gradients.values())
    was_pruned = []  # of each gradient
    for of_parameters, share in zip(zip(*signs.values(), strict=True), (zeros / size).tolist(), strict=True):
        was_pruned.append(any(of_parameters) or (False not in of_parameters and share > PRUNED))
    if not any(was_pruned):
        return None
    masks = {}
    for name, values in gradients.items():
        hides_zeros = torch.tensor(
            [pruned and sign is not False for pruned, sign in zip(was_pruned, signs[name], strict=True)]
        )
        hides_zeros = hides_zeros.to(values.device).view(-1, *[1] * (values.ndim - 1))
        masks[name] = ((values != 0) | ~hides_zeros).to(values.dtype)
    return masks


def _pruned(values: torch.Tensor) -> bool | None:
    """Return whether the zeros of one parameter's gradient are those of pruning; None if one cannot tell.

    Without pruning, zeros fill whole rows and columns of a weight, and some other numbers are nearly 0. Any pruning
    scatters its zeros, and pruning by magnitude leaves no number that is nearly 0.
    """
    nonzero = values != 0
    if int(nonzero.sum()) >= (1 - PRUNED) * values.numel():
        return None
    if values.ndim > 1:
        grid = nonzero.flatten(1)
        live = int(grid.any(dim=1).sum()) * int(grid.any(dim=0).sum())  # numbers outside rows and columns of zeros
        if live >= ENOUGH and int(nonzero.sum()) < (1 - PRUNED) * live:
            return True
    if int(nonzero.sum()) < ENOUGH:
        return None
    sizes = values[nonzero].abs().unique()  # few different ones where pixels are 0 or 1, which leave a gap themselves
    return len(sizes) >= ENOUGH and bool(sizes[0] > GAP * sizes[len(sizes) // 2])


class GradientMatching(ReconstructionAttack):
    """Minimises the squared distance of gradients by L-BFGS; every image has its own memory and step."""

    iterations: int = Field(
        default=6000, ge=1, le=100_000, description="Largest number of L-BFGS steps of each start, one evaluation each."
    )
    """Both papers' authors take 300 iterations of torch.optim.LBFGS, each of which takes up to 20 steps."""
    history: int = Field(default=100, ge=1, le=200, description="Number of L-BFGS pairs that are kept.")
    starts: int = Field(
        default=3, ge=1, le=100, description="Largest number of random starts; an image keeps the best result."
    )
    tolerance: float = Field(
        default=1e-9, ge=0, lt=1, description="Squared distance that ends the search, as a share of the gradient's own."
    )
    again: float = Field(
        default=0,
        ge=0,
        le=1,
        description="An image starts again if its result leaves more than this share of the gradient's squared length.",
    )

    surviving: bool = Field(default=True, description="Match only coordinates that are not 0, which pruning leaves.")

    def match(
        self,
        gradients: Gradients,
        model: torch.nn.Module,
        start: Callable[[], torch.Tensor],
        dummy: Dummy,
        progress: Progress,
    ) -> torch.Tensor:
        """Return for each image the result ``(N, d)`` with the smallest distance over all starts.

        An image whose distance is small enough takes no part in further starts: with a wrong image, a large share of
        the gradient remains; with a right one, only noise does.

        Args:
            start: draws a start ``(N, d)``.
            dummy: turns variables into images and targets.
        """
        masks = survivors(gradients) if self.surviving else None
        wanted = as_read(gradients, gradients)
        squared_length = sum(values.square().flatten(1).sum(dim=1) for values in wanted.values())
        enough, best, lowest = self.tolerance * squared_length, start(), torch.full_like(squared_length, torch.inf)
        final = max(self.again, self.tolerance) * squared_length  # no image starts again from this distance on down
        for number in range(self.starts):
            chosen = (lowest > final).nonzero()[:, 0]
            first = best if number == 0 else start()
            if not len(chosen):
                break

            def distance(flat: torch.Tensor, rows: torch.Tensor, chosen: torch.Tensor = chosen) -> torch.Tensor:
                indices = chosen[rows]
                computed = image_gradients(model, *dummy(flat, indices))
                if masks is not None:
                    computed = {name: computed[name] * mask[indices] for name, mask in masks.items()}
                computed = as_read(computed, gradients)
                gap = {name: computed[name] - values[indices] for name, values in wanted.items()}
                return sum(values.square().flatten(1).sum(dim=1) for values in gap.values())

            def report(done: int, total: int, number: int = number) -> None:
                progress(number * total + done, self.starts * total)

            ends, losses = minimise(
                distance, first[chosen], self.iterations, self.history, report, enough=enough[chosen]
            )
            better = losses < lowest[chosen]
            best[chosen[better]], lowest[chosen[better]] = ends[better], losses[better]
        return best
