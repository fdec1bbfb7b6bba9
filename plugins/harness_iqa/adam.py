"""Adam on the pixels of a batch of images: element by element, so that no image depends on another."""

from collections.abc import Callable

import torch

from harness.api import Images


def minimise(
    loss: Callable[[Images], torch.Tensor],
    images: Images,
    learning_rate: float,
    iterations: int,
    mask: torch.Tensor | None = None,
) -> Images:
    """Return images in [0, 1] after `iterations` steps from `images`.

    `loss`: ``(N, 3, H, W)`` -> ``(N,)``. The gradient is multiplied by `mask` before Adam sees it; NaN counts as zero.
    """
    x = images.detach().clone().requires_grad_(True)
    optimiser = torch.optim.Adam([x], lr=learning_rate)
    for _ in range(iterations):
        (gradient,) = torch.autograd.grad(loss(x).sum(), x)
        x.grad = gradient.nan_to_num() if mask is None else gradient.nan_to_num() * mask
        optimiser.step()
        with torch.no_grad():
            x.clamp_(0, 1)
    return x.detach()
