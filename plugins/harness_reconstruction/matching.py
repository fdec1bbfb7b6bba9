"""What DLG and iDLG share: L-BFGS on dummies whose gradient is to be the shared one, from several starts."""

from collections.abc import Callable

import torch

from harness.api import Gradients, Progress
from harness_reconstruction.per_image import image_gradients
from harness_vision.lbfgs import minimise

Dummy = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Flat variables ``(S * N, d)`` -> images and targets."""


def match(
    gradients: Gradients,
    model: torch.nn.Module,
    start: torch.Tensor,
    dummy: Dummy,
    starts: int,
    iterations: int,
    history: int,
    progress: Progress,
) -> torch.Tensor:
    """Return for each image the end ``(N, d)`` whose squared gradient distance is the smallest over the starts.

    `start`: ``(starts * N, d)``, all images of the first start, then those of the second. Every row has its own memory
    and step.
    """
    wanted = {name: values.repeat(starts, *[1] * (values.ndim - 1)) for name, values in gradients.items()}

    def distance(flat: torch.Tensor) -> torch.Tensor:
        found = image_gradients(model, *dummy(flat))
        return sum((found[name] - wanted[name]).square().flatten(1).sum(dim=1) for name in wanted)

    ends, left = minimise(distance, start, iterations, history, progress)
    best = left.view(starts, -1).argmin(dim=0)
    return ends.view(starts, len(best), -1)[best, torch.arange(len(best), device=ends.device)]
