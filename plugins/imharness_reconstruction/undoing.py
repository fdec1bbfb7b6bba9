"""What an attacker who knows a defense does first: takes back what the defense did to each coordinate.

A defense that multiplies gradients layer by layer, turns their signs or adds a constant hides nothing: its map has an
inverse that everybody can compute who has the defense. Attacks that match gradients fail on such gradients all the
same. So the map is fitted on gradients of other images, ``shared = a * plain + b`` for each coordinate; where it
explains what the defense returns, the attack gets ``(shared - b) / a``. Noise, pruning and clipping are not such maps
and stay.

Some defenses multiply the gradient of each parameter by a factor that differs from image to image: it is drawn anew, or
follows from the gradient, as when each gradient is divided by its length. No fixed map undoes that. It hides one number
of each parameter, its length, and leaves its direction. A loss over all coordinates fails on such gradients all the
same, because the parameter with the largest factor decides it. An attacker who knows the defense compares directions
instead, see `Directions`. Measured on digits with a LeNet of ReLUs: InvGrad rebuilds images at 25.5 dB if it compares
directions, at 7.5 dB if it does not, and at 25.2 dB without a defense.
"""

import math
from collections.abc import Callable, Mapping

import torch

from imharness.data import double
from imharness.gradients import Gradients

PROBES = 8
"""The number of images whose gradients the map is fitted on. Two would do if the defense surely were such a map."""
EXPLAINED = 1e-3
"""The map explains a defense if its largest error in a parameter is at most this share of the root mean square of the
parameter's defended gradients."""
FLAT = 1e-6
"""A coordinate's factor is too flat to invert in float32 below this share of its parameter's largest factor; such a
coordinate stays as it was shared."""

MOVED = 2.0
"""The defense hides a parameter's length if it changes that length, compared with the median parameter, by more than
this factor or its inverse, in the median over probes."""
SURE = 5.0
"""The factor of a parameter counts if it is more than this many times its standard error."""


class Directions(dict[str, torch.Tensor]):
    """Shared gradients ``(N, *shape)`` in which the defense hid the length of each parameter but not its direction.

    The values are the gradients as they were shared. `usual` is a number for each parameter: the usual length of its
    gradient, as a share of the length of the whole gradient. Attacks that match gradients pass both sides through
    `as_read`, which gives every parameter its usual length; other attacks read the values.
    """

    def __init__(self, gradients: Gradients, usual: Mapping[str, torch.Tensor]) -> None:
        super().__init__(gradients)
        self.usual = usual


def as_read(gradients: Gradients, shared: Gradients) -> Gradients:
    """Return gradients in the form in which an attack compares them with the shared ones.

    If the shared gradients are `Directions`, every parameter is scaled to its usual length; otherwise nothing changes.
    """
    if not isinstance(shared, Directions):
        return gradients
    scaled = {}
    for name, values in gradients.items():
        factor = shared.usual[name] / _lengths(values)
        scaled[name] = values * factor.view(-1, *[1] * (values.ndim - 1))
    return scaled


def _lengths(values: torch.Tensor) -> torch.Tensor:
    """Return the Euclidean length ``(N,)`` of each row.

    A row of zeros has a tiny length instead of 0, so that the derivative is finite everywhere.
    """
    return (values.flatten(1).square().sum(dim=1) + torch.finfo(values.dtype).tiny).sqrt()


def undone(shared: Gradients, plain: Gradients, protect: Callable[[Gradients], Gradients]) -> Gradients:
    """Return the shared gradients ``(N, *shape)`` with the defense undone as far as its attacker can undo it.

    1. The defense is applied to `plain`, gradients ``(PROBES, *shape)`` of other images. If it changes nothing, the
       shared gradients are returned as they are.
    2. An affine map of each coordinate is fitted. If it explains every parameter, its inverse is applied.
    3. Otherwise the shared gradients become `Directions` if the defense hides lengths, and stay as they are if not.

    `protect`: the defense. A coordinate that is constant over `plain` gets the median factor of its parameter.
    """
    defended = protect(plain)
    if all(torch.equal(defended[name], values) for name, values in plain.items()):
        return shared
    recovered = {}
    for name, values in plain.items():
        factor, offset, error = _fitted(double(values), double(defended[name]))
        size = double(defended[name]).square().mean().sqrt()
        if not error <= EXPLAINED * size:
            return _directions(shared, plain, defended)
        invertible = factor.abs() > FLAT * factor.abs().max()
        back = (double(shared[name]) - offset) / torch.where(invertible, factor, 1)
        recovered[name] = torch.where(invertible, back, double(shared[name])).to(shared[name])
    return recovered


def _directions(shared: Gradients, plain: Gradients, defended: Gradients) -> Gradients:
    """Return `Directions` if the defense changes the ratio of parameters' lengths, else the gradients as they are.

    For each parameter and probe the defended gradient is split into the plain gradient times a factor, and a rest that
    is orthogonal to it. The factor counts if it is positive, `SURE` times its standard error, and larger than the rest.
    """
    logs = []
    for name, values in plain.items():
        before, after = double(values).flatten(1), double(defended[name]).flatten(1)
        # Both parts of the defended gradient are multiplied by the length of the plain one, which avoids a division.
        squared_length, along = before.square().sum(dim=1), (before * after).sum(dim=1)
        orthogonal = (after.square().sum(dim=1) * squared_length - along.square()).clamp(min=0).sqrt()
        standard_error = orthogonal / before.shape[1] ** 0.5
        counts = (along > 0) & (along > SURE * standard_error) & (along > orthogonal)
        logs.append((along / squared_length).log().where(counts, torch.nan))
    log_factors = torch.stack(logs)  # (parameters, PROBES)
    deviations = (log_factors - log_factors.nanmedian(dim=0).values).abs().nan_to_num(0)
    if not deviations.median(dim=1).values.amax() > math.log(MOVED):
        return shared
    lengths = {name: _lengths(values) for name, values in plain.items()}
    whole = torch.stack([*lengths.values()]).square().sum(dim=0).sqrt()
    return Directions(shared, {name: (length / whole).median() for name, length in lengths.items()})


def _fitted(plain: torch.Tensor, defended: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the factor and the offset ``(*shape)`` of each coordinate by least squares, and the largest error.

    Both arguments: ``(PROBES, *shape)``. The largest error is one number, over all probes and coordinates.
    """
    middle, defended_mean = plain.mean(dim=0), defended.mean(dim=0)
    spread = (plain - middle).square().sum(dim=0)
    moves = spread > 0
    slope = ((plain - middle) * (defended - defended_mean)).sum(dim=0) / torch.where(moves, spread, 1)
    usual = slope[moves].median() if moves.any() else slope.new_tensor(1.0)
    factor = torch.where(moves, slope, usual)
    offset = defended_mean - factor * middle
    return factor, offset, (defended - factor * plain - offset).abs().max()
