"""The base of DLG and iDLG: L-BFGS changes dummies, from several starts, until their gradient is the shared one."""

from collections.abc import Callable

import torch
from pydantic import Field

from imharness.gradients import Gradients, Progress, ReconstructionAttack
from imharness_reconstruction.per_image import image_gradients
from imharness_vision.lbfgs import minimise

Dummy = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Flat variables ``(n, d)`` and the positions ``(n,)`` of their images -> images and targets."""
PRUNED = 0.5
"""The share of zeros above which a gradient counts as pruned."""


def survivors(gradients: Gradients) -> Gradients | None:
    """Return 1 for coordinates that a defense kept and 0 for those it set to 0; None when nothing was pruned."""
    zeros = sum(int((values == 0).sum()) for values in gradients.values())
    if zeros <= PRUNED * sum(values.numel() for values in gradients.values()):
        return None
    return {name: (values != 0).to(values.dtype) for name, values in gradients.items()}


class GradientMatching(ReconstructionAttack):
    """Minimises the squared distance of gradients by L-BFGS; every image has its own memory and step."""

    iterations: int = Field(
        default=1200, ge=1, le=100_000, description="Largest number of L-BFGS steps of each start, one evaluation each."
    )
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
        """Return for each image the end ``(N, d)`` with the smallest distance over the starts.

        `start`: draws a start ``(N, d)``. An image whose distance is small enough takes no part in further starts: from
        a wrong image L-BFGS leaves a large share of the gradient, and what a right one leaves is noise.
        """
        kept = survivors(gradients) if self.surviving else None
        size = sum(values.square().flatten(1).sum(dim=1) for values in gradients.values())
        enough, best, lowest = self.tolerance * size, start(), torch.full_like(size, torch.inf)
        found_by = max(self.again, self.tolerance) * size
        for number in range(self.starts):
            chosen = (lowest > found_by).nonzero()[:, 0]
            first = best if number == 0 else start()
            if not len(chosen):
                break

            def distance(flat: torch.Tensor, rows: torch.Tensor, chosen: torch.Tensor = chosen) -> torch.Tensor:
                own = chosen[rows]
                found = image_gradients(model, *dummy(flat, own))
                gap = {name: found[name] - values[own] for name, values in gradients.items()}
                if kept is not None:
                    gap = {name: values * kept[name][own] for name, values in gap.items()}
                return sum(values.square().flatten(1).sum(dim=1) for values in gap.values())

            def told(done: int, total: int, number: int = number) -> None:
                progress(number * total + done, self.starts * total)

            ends, left = minimise(distance, first[chosen], self.iterations, self.history, told, enough=enough[chosen])
            better = left < lowest[chosen]
            best[chosen[better]], lowest[chosen[better]] = ends[better], left[better]
        return best
