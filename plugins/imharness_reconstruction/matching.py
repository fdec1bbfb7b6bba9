"""What DLG and iDLG share: L-BFGS changes dummies, from several starts, until their gradient is the shared one."""

from collections.abc import Callable

import torch
from pydantic import Field

from imharness.gradients import Gradients, Progress, ReconstructionAttack
from imharness_reconstruction.per_image import image_gradients
from imharness_vision.lbfgs import minimise

Dummy = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Flat variables ``(S * N, d)`` -> images and targets."""
PRUNED = 0.5
"""A gradient with a larger share of zeros counts as pruned."""


def survivors(gradients: Gradients) -> Gradients | None:
    """Return 1 for coordinates that a defense kept and 0 for those it set to 0; None when nothing was pruned."""
    zeros = sum(int((values == 0).sum()) for values in gradients.values())
    if zeros <= PRUNED * sum(values.numel() for values in gradients.values()):
        return None
    return {name: (values != 0).to(values.dtype) for name, values in gradients.items()}


class GradientMatching(ReconstructionAttack):
    """Minimises the squared distance of gradients by L-BFGS; every row has its own memory and step."""

    iterations: int = Field(default=1200, ge=1, le=100_000, description="L-BFGS steps.")
    history: int = Field(default=100, ge=1, le=200, description="L-BFGS pairs kept.")
    starts: int = Field(default=2, ge=1, le=100, description="Random starts; each image keeps its best end.")
    surviving: bool = Field(default=True, description="Match only coordinates that are not 0, which pruning leaves.")

    def match(
        self, gradients: Gradients, model: torch.nn.Module, start: torch.Tensor, dummy: Dummy, progress: Progress
    ) -> torch.Tensor:
        """Return for each image the end ``(N, d)`` with the smallest distance over the starts.

        `start`: ``(starts * N, d)``, all images of the first start, then those of the second.
        """
        wanted = {name: values.repeat(self.starts, *[1] * (values.ndim - 1)) for name, values in gradients.items()}
        kept = survivors(wanted) if self.surviving else None

        def distance(flat: torch.Tensor) -> torch.Tensor:
            found = image_gradients(model, *dummy(flat))
            gap = {name: found[name] - wanted[name] for name in wanted}
            if kept is not None:
                gap = {name: values * kept[name] for name, values in gap.items()}
            return sum(values.square().flatten(1).sum(dim=1) for values in gap.values())

        ends, left = minimise(distance, start, self.iterations, self.history, progress)
        best = left.view(self.starts, -1).argmin(dim=0)
        return ends.view(self.starts, len(best), -1)[best, torch.arange(len(best), device=ends.device)]
