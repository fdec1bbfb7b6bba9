"""Decides whether an inversion converged: an attack that stopped too early says nothing about the defense.

The attack only sees the shared gradient. It has converged when its images explain that gradient about as well as the
true images do. The true images explain it exactly if nothing was added to the gradient, and less well behind noise. The
scale is given by flat images, which anybody can guess: a grey one, and one of the true image's mean colour, whichever
explains the gradient better. Strong noise removes most of the difference between the true images and flat ones; the
reconstruction must then at least be nearer to the true images than to flat ones.
"""

from dataclasses import dataclass

import torch

from imharness.data import double
from imharness.gradients import Gradients, Round
from imharness_reconstruction.inversion import flat, unit
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.per_image import averaged, image_gradients
from imharness_reconstruction.rounds import shared_in
from imharness_reconstruction.undoing import as_read

SHARE = 0.05
"""A converged inversion has a loss of at most the attainable one plus this share of a flat image's loss."""
NEARER = 0.5
"""A converged inversion has a loss of at most the attainable one plus this share of the difference between a flat
image's loss and the attainable one."""
SAME = 1e-6
"""If the losses of flat and true images differ by no more, the gradient says nothing; float32 rounding is below it."""
EXPLAINED = 0.02
"""An original explains its gradient if its loss is at most this share of a flat image's loss.

The loss grows about as the squared error of an image. In a network of one convolution, another picture of the same
digit leaves 0.04 and more, and the mean gradient of eight 0.03; rounding to 8 bits leaves up to 0.016, to bfloat16
0.0002. In a network of sigmoids that hardly sees the image, bfloat16 leaves up to 0.06.
"""
NEARLY = 0.2
"""Rounding or slight noise may explain a loss of an original up to this share of a flat image's loss, but not more."""
NOISY = 4.0
"""The largest deviation of the sum of squares that an image leaves unexplained from that of known noise, in standard
deviations."""
GREY = 0.5
"""The value of a grey image."""
LEVEL = 1 / 255
"""The step of 8 bits: an image that differs from its mean by less is flat."""


@dataclass(frozen=True)
class Shared:
    """The shared gradients of T batches, and the images behind them.

    Attributes:
        gradients: ``(T, *shape)`` by parameter, defended.
        images, targets: the images ``(P, 3, H, W)`` and targets ``(P, classes)`` whose gradients were computed; these
            may be altered copies of private images.
        origin: the position of the private image from which each of them comes, ``(P,)``.
        mean: the weights of these images in each batch, ``(T, P)``.
    """

    gradients: Gradients
    images: torch.Tensor
    targets: torch.Tensor
    origin: torch.Tensor
    mean: torch.Tensor


def matching(network: torch.nn.Module, shared: Shared, rebuilt: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return how well reconstructions ``(N, 3, H, W)`` explain the shared gradients, one number per private image.

    - `loss`: one minus the cosine of the gradient of the reconstruction and the shared one, on the coordinates that
      pruning left, averaged over the batches of the image.
    - `attainable`: the same for the images behind the gradient.
    - `grey`: the same for a flat grey image.
    - `flat`: the same for `flat_of` the images.
    - `converged`: whether `loss` - `attainable` is at most `SHARE` times the smaller one of `grey` and `flat`, and at
      most `NEARER` times the difference of that and `attainable`, if the difference is above `SAME`.
    """
    masks = survivors(shared.gradients)
    wanted = unit(flat(as_read(shared.gradients, shared.gradients)))

    def distance(images: torch.Tensor) -> torch.Tensor:
        computed = averaged(image_gradients(network, images, shared.targets), shared.mean)
        masked = {name: computed[name] if masks is None else computed[name] * masks[name] for name in shared.gradients}
        return (unit(flat(as_read(masked, shared.gradients))) - wanted).square().sum(dim=1) / 2

    takes_part = torch.zeros(len(shared.mean), len(rebuilt), device=rebuilt.device)
    takes_part.index_add_(1, shared.origin, (shared.mean > 0).to(takes_part.dtype))
    weights = (takes_part / takes_part.sum(dim=0)).T
    guesses = torch.full_like(shared.images, GREY), flat_of(shared.images)
    return judged(*(weights @ distance(images) for images in (rebuilt[shared.origin], shared.images, *guesses)))


def matching_round(
    network: torch.nn.Module,
    federated_round: Round,
    shared: Gradients,
    private: torch.Tensor,
    targets: torch.Tensor,
    rebuilt: torch.Tensor,
    unordered: torch.Tensor,
    read: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Return the numbers of `matching` for what participants shared after a round, one for each private image.

    Every image of a participant has the same numbers. The loss is the smaller one of the reconstructions in the order
    of the private images, with their labels, and of those in the attack's order, with the labels that it had: local
    steps depend on the order.

    Args:
        network: the network that was sent out.
        federated_round: the round.
        shared: ``(B, *shape)`` by parameter, defended.
        private: float32 ``(B, P, 3, H, W)``.
        targets: the classes of the private images ``(B, P, classes)``.
        rebuilt: the reconstructions in the order of the private images.
        unordered: the reconstructions in the order in which the attack gave them.
        read: the classes that the attack had, in its order.
    """
    masks = survivors(shared)
    mask = None if masks is None else flat(masks)
    wanted = unit(flat(shared))

    def distance(images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        simulated, _ = shared_in(federated_round, network, images, classes, trained=shared)
        ours = flat({name: simulated[name] for name in shared})
        return (unit(ours if mask is None else ours * mask) - wanted).square().sum(dim=1) / 2

    loss = torch.minimum(distance(rebuilt, targets), distance(unordered, read))
    guesses = torch.full_like(private, GREY), flat_of(private.flatten(0, 1)).view_as(private)
    verdict = judged(loss, *(distance(images, targets) for images in (private, *guesses)))
    return {name: values.repeat_interleave(private.shape[1]) for name, values in verdict.items()}


def flat_of(images: torch.Tensor) -> torch.Tensor:
    """Return flat images ``(N, 3, H, W)`` of the mean colour of each image; for an image that is flat, a grey one."""
    mean_colour = images.mean(dim=(2, 3), keepdim=True).expand_as(images)
    return torch.where(is_flat(images)[:, None, None, None], GREY, mean_colour)


def is_flat(images: torch.Tensor) -> torch.Tensor:
    """Return which images ``(N, 3, H, W)`` are of one colour, bool ``(N,)``."""
    return (images - images.mean(dim=(2, 3), keepdim=True)).abs().amax(dim=(1, 2, 3)) < LEVEL


def judged(
    loss: torch.Tensor, attainable: torch.Tensor, grey: torch.Tensor, flat: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return the losses ``(N,)`` by name, and whether a reconstruction `converged`; see `matching`."""
    of_flat = torch.minimum(grey, flat)
    above, difference = loss - attainable, of_flat - attainable
    converged = (above <= SHARE * of_flat) & ((above <= NEARER * difference) | (difference <= SAME))
    return {"loss": loss, "attainable": attainable, "grey": grey, "flat": flat, "converged": converged}


def explains(
    attainable: torch.Tensor, of_flat: torch.Tensor, shared: Gradients, noise: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return whether originals explain what was shared ``(n,)``, and whether flat images explain it as well ``(n,)``.

    If a flat image explains what was shared, nothing follows for the original, which then does not count as explaining
    it. Without known noise, the loss of an original must be at most `EXPLAINED` times that of a flat image. With known
    noise, the sum of squares that an image leaves unexplained must be that of the noise: its variance times a
    chi-square with as many degrees of freedom as there are numbers.

    Args:
        attainable: the loss of the originals ``(n,)``.
        of_flat: the loss of flat images ``(n,)``.
        shared: what was shared, ``(n, *shape)`` by parameter.
        noise: the standard deviation of the noise in each number of `shared`; 0: none is known.
    """
    if not noise:
        blind = of_flat <= SAME
        return (attainable <= EXPLAINED * of_flat) & ~blind, blind
    masks = survivors(shared)
    values = double(flat(shared))
    count = double(torch.ones_like(values) if masks is None else flat(masks)).sum(dim=1)

    def excess(loss: torch.Tensor) -> torch.Tensor:
        """Return by how many standard deviations the unexplained sum of squares exceeds that of the noise."""
        # the shared gradient without its component along the image's gradient has the share 1 - cos^2 of its squares
        residual = values.square().sum(dim=1) * double(loss) * (2 - double(loss))
        return (residual / noise**2 - count) / (2 * count).sqrt()

    blind = excess(of_flat).abs() <= NOISY
    return (excess(attainable).abs() <= NOISY) & ~blind, blind
