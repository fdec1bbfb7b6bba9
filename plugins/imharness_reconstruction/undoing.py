"""What an attacker who knows a defense does first: takes back what the defense did to each coordinate.

A defense that multiplies gradients layer by layer, turns their signs or adds a constant hides nothing: its map has an
inverse that everybody can compute who has the defense. Attacks that match gradients fail on such gradients all the
same. So the map is fitted on gradients of other images, ``shared = a * plain + b`` for each coordinate; where it
explains what the defense returns, the attack gets ``(shared - b) / a``. Noise, pruning and clipping are not such maps
and stay.

Nor is a factor for each parameter that is drawn anew, or follows from the gradient, as where each is divided by its
length. That hides one number of each parameter, and leaves its direction. Losses over all coordinates fail all the
same: what has the largest factor decides. Who knows the defense compares directions, see `Directions`: of digits behind
a LeNet of ReLUs InvGrad then rebuilds 25.5 dB, 7.5 without, and 25.2 where nothing is defended.
"""

import math
from collections.abc import Callable, Mapping

import torch

from imharness.data import double
from imharness.gradients import Gradients

PROBES = 8
"""Images that the map is fitted on; two would do if it were known to be one."""
EXPLAINED = 1e-3
"""The largest error of a map, as a share of the root mean square of what the defense returned of a parameter."""
FLAT = 1e-6
"""A factor below this share of the largest one of its parameter has no inverse in float32: the coordinate stays."""


MOVED, SURE = 2.0, 5.0
"""A parameter is moved against others by a factor of more, in the median over probes; a factor counts that is so many
times its error, and of which what was returned has more than of anything else."""


class Directions(dict[str, torch.Tensor]):
    """Shared gradients ``(N, *shape)`` of which the direction of each parameter tells more than its length.

    `usual`: the length that is usual for each parameter, as a share of the whole gradient's. Attacks that match
    gradients compare both sides after `as_read`; to others these are the gradients as they were shared.
    """

    def __init__(self, gradients: Gradients, usual: Mapping[str, torch.Tensor]) -> None:
        super().__init__(gradients)
        self.usual = usual


def as_read(gradients: Gradients, shared: Gradients) -> Gradients:
    """Return gradients as shared ones are read: as they are, or with usual lengths where those are `Directions`."""
    if not isinstance(shared, Directions):
        return gradients
    return {name: values * _over(values, shared.usual[name] / _lengths(values)) for name, values in gradients.items()}


def _lengths(values: torch.Tensor) -> torch.Tensor:
    """Return the length of each row ``(N,)``, of zeros a tiny one; its slope is finite everywhere."""
    return (values.flatten(1).square().sum(dim=1) + torch.finfo(values.dtype).tiny).sqrt()


def _over(values: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return factor.view(-1, *[1] * (values.ndim - 1))


def undone(shared: Gradients, plain: Gradients, protect: Callable[[Gradients], Gradients]) -> Gradients:
    """Return the shared gradients ``(N, *shape)`` with an affine map of each coordinate undone, or as they are.

    Where factors of parameters hide their lengths they become `Directions`.

    `plain`: gradients ``(PROBES, *shape)`` of other images; `protect`: the defense. A coordinate that is 0 for all of
    them gets the median factor of its parameter.
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
    """Return `Directions` if the defense changes the ratio of parameters' lengths, else the gradients as they are."""
    logs = []
    for name, values in plain.items():
        before, after = double(values).flatten(1), double(defended[name]).flatten(1)
        size, along = before.square().sum(dim=1), (before * after).sum(dim=1)
        rest = (after.square().sum(dim=1) * size - along.square()).clamp(min=0).sqrt()
        seen = (along > 0) & (along > SURE * rest / before.shape[1] ** 0.5) & (along > rest)
        logs.append((along / size).log().where(seen, torch.nan))
    factors = torch.stack(logs)
    apart = (factors - factors.nanmedian(dim=0).values).abs().nan_to_num(0)
    if not apart.median(dim=1).values.amax() > math.log(MOVED):
        return shared
    lengths = {name: _lengths(values) for name, values in plain.items()}
    whole = torch.stack([*lengths.values()]).square().sum(dim=0).sqrt()
    return Directions(shared, {name: (length / whole).median() for name, length in lengths.items()})


def _fitted(plain: torch.Tensor, defended: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return factor and offset of each coordinate by least squares, and the largest error of all."""
    middle, defended_mean = plain.mean(dim=0), defended.mean(dim=0)
    spread = (plain - middle).square().sum(dim=0)
    moves = spread > 0
    slope = ((plain - middle) * (defended - defended_mean)).sum(dim=0) / torch.where(moves, spread, 1)
    usual = slope[moves].median() if moves.any() else slope.new_tensor(1.0)
    factor = torch.where(moves, slope, usual)
    offset = defended_mean - factor * middle
    return factor, offset, (defended - factor * plain - offset).abs().max()
