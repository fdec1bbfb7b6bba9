"""Did an inversion converge? An attack that stopped too early says nothing of the defense that it met.

The attack has only the shared gradient to go by. It is done when its images explain that gradient about as well as the
images explain it that were in fact behind it. Those fit exactly where nothing was added, and noise limits how well they
fit. A flat grey image gives the scale, and strong noise takes most of what sets it apart: nearer to the images than to
grey is the least that is asked then.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from imharness.gradients import Gradients
from imharness_reconstruction.inversion import flat
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.per_image import averaged, image_gradients

SHARE = 0.05
"""An inversion has converged when it leaves no more of a grey image's distance than this."""
NEARER = 0.5
"""Nor more than this share of what sets a grey image apart from those that were behind the gradient."""
SAME = 1e-6
"""A gradient that sets them no further apart tells nothing of the images; rounding of float32 is below it."""
GREY = 0.5


@dataclass(frozen=True)
class Shared:
    """What was shared: gradients of T batches, and the images behind them.

    `gradients`: ``(T, *shape)`` by parameter, defended. `shown` ``(P, 3, H, W)`` and `targets` ``(P, classes)``: what
    the plain gradients are of; `origin`: the position ``(P,)`` of the private image of each; `mean` ``(T, P)``: the
    weights of the images in each batch.
    """

    gradients: Gradients
    shown: torch.Tensor
    targets: torch.Tensor
    origin: torch.Tensor
    mean: torch.Tensor


def matching(network: torch.nn.Module, shared: Shared, rebuilt: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return how well reconstructions ``(N, 3, H, W)`` explain the shared gradients, one number per private image.

    `loss`: one minus the cosine of the gradient of the reconstruction and the shared one, on the coordinates that
    pruning left, averaged over the batches of the image; `attainable`: the same of the images that were behind the
    gradient; `grey`: of a flat grey image; `converged`: `loss` is above `attainable` by at most `SHARE` of `grey`,
    and by at most `NEARER` of the difference of `grey` and `attainable` where that is above `SAME`.
    """
    kept = survivors(shared.gradients)
    mask = None if kept is None else flat(kept)
    wanted = F.normalize(flat(shared.gradients), dim=1)

    def distance(images: torch.Tensor) -> torch.Tensor:
        found = averaged(image_gradients(network, images, shared.targets), shared.mean)
        ours = flat({name: found[name] for name in shared.gradients})
        return (F.normalize(ours if mask is None else ours * mask, dim=1) - wanted).square().sum(dim=1) / 2

    takes_part = torch.zeros(len(shared.mean), len(rebuilt), device=rebuilt.device)
    takes_part.index_add_(1, shared.origin, (shared.mean > 0).to(takes_part.dtype))
    weights = (takes_part / takes_part.sum(dim=0)).T
    loss, attainable, grey = (
        weights @ distance(images)
        for images in (rebuilt[shared.origin], shared.shown, torch.full_like(shared.shown, GREY))
    )
    missed, apart = loss - attainable, grey - attainable
    converged = (missed <= SHARE * grey) & ((missed <= NEARER * apart) | (apart <= SAME))
    return {"loss": loss, "attainable": attainable, "grey": grey, "converged": converged}
