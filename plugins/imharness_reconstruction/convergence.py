"""Decides whether an inversion converged: an attack that stopped too early says nothing about the defense.

The attack only sees the shared gradient. It has converged when its images explain that gradient about as well as the
true images do. Those fit exactly if nothing was added to the gradient, and noise limits how well they fit. A flat grey
image gives the scale. Strong noise removes most of the difference between the true images and grey; the reconstruction
must then at least be nearer to the true images than to grey.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from imharness.gradients import Gradients, Round
from imharness_reconstruction.inversion import flat
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.per_image import averaged, image_gradients
from imharness_reconstruction.rounds import shared_in

SHARE = 0.05
"""The largest share of a grey image's distance that a converged inversion may leave above the attainable."""
NEARER = 0.5
"""The largest share of the distance between grey and the true images that a converged inversion may leave."""
SAME = 1e-6
"""A gradient with a smaller difference between grey and the true images says nothing; float32 rounding is below it."""
GREY = 0.5


@dataclass(frozen=True)
class Shared:
    """The shared gradients of T batches, and the images behind them.

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
    pruning left, averaged over the batches of the image; `attainable`: the same for the images behind the gradient;
    `grey`: the same for a flat grey image; `converged`: `loss` is above `attainable` by at most `SHARE` of `grey`,
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
    return _judged(loss, attainable, grey)


def matching_round(
    network: torch.nn.Module,
    own: Round,
    shared: Gradients,
    private: torch.Tensor,
    targets: torch.Tensor,
    rebuilt: torch.Tensor,
    found: torch.Tensor,
    read: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Return the numbers of `matching` for what participants shared after a round, one for each private image.

    Every image of a participant has the same numbers. The loss is the smaller one of the reconstructions in the order
    of the private images, with their labels, and of those in the attack's order, with the labels that it had: local
    steps depend on the order.

    Args:
        network: the network that was sent out.
        own: the round.
        shared: ``(B, *shape)`` by parameter, defended.
        private: float32 ``(B, P, 3, H, W)``.
        targets: the classes of the private images ``(B, P, classes)``.
        rebuilt: the reconstructions in the order of the private images.
        found: the reconstructions in the order in which the attack gave them.
        read: the classes that the attack had, in its order.
    """
    kept = survivors(shared)
    mask = None if kept is None else flat(kept)
    wanted = F.normalize(flat(shared), dim=1)

    def distance(images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        simulated, _ = shared_in(own, network, images, classes)
        ours = flat({name: simulated[name] for name in shared})
        return (F.normalize(ours if mask is None else ours * mask, dim=1) - wanted).square().sum(dim=1) / 2

    loss = torch.minimum(distance(rebuilt, targets), distance(found, read))
    attainable, grey = distance(private, targets), distance(torch.full_like(private, GREY), targets)
    told = _judged(loss, attainable, grey)
    return {name: values.repeat_interleave(private.shape[1]) for name, values in told.items()}


def _judged(loss: torch.Tensor, attainable: torch.Tensor, grey: torch.Tensor) -> dict[str, torch.Tensor]:
    missed, apart = loss - attainable, grey - attainable
    converged = (missed <= SHARE * grey) & ((missed <= NEARER * apart) | (apart <= SAME))
    return {"loss": loss, "attainable": attainable, "grey": grey, "converged": converged}
