"""What an attacker who knows a defense does first: takes back what the defense did to each coordinate.

A defense that multiplies gradients layer by layer, turns their signs or adds a constant hides nothing: its map has an
inverse that everybody can compute who has the defense. Attacks that match gradients fail on such gradients all the
same. So the map is fitted on gradients of other images, ``shared = a * plain + b`` for each coordinate; where it
explains what the defense returns, the attack gets ``(shared - b) / a``. Noise, pruning and clipping are not such maps
and stay.
"""

from collections.abc import Callable

import torch

from imharness.data import double
from imharness.gradients import Gradients

PROBES = 8
"""Images that the map is fitted on; two would do if it were known to be one."""
EXPLAINED = 1e-3
"""The largest error of a map, as a share of the root mean square of what the defense returned of a parameter."""
FLAT = 1e-6
"""A factor below this share of the largest one of its parameter has no inverse in float32: the coordinate stays."""


def undone(shared: Gradients, plain: Gradients, protect: Callable[[Gradients], Gradients]) -> Gradients:
    """Return the shared gradients ``(N, *shape)`` with an affine map of each coordinate undone, or as they are.

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
            return shared
        invertible = factor.abs() > FLAT * factor.abs().max()
        back = (double(shared[name]) - offset) / torch.where(invertible, factor, 1)
        recovered[name] = torch.where(invertible, back, double(shared[name])).to(shared[name])
    return recovered


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
