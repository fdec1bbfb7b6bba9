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

Two more kinds of maps hide little. A power of each coordinate, ``sign(g) * abs(g) ** p`` times a factor, is taken back
up to that factor, so that directions are left. Factors of rows and columns of a parameter (of the output and the input
channels of a layer) cancel when rows and columns are given equal lengths, which both sides of the comparison can be,
see `balanced`.
"""

import math
from collections.abc import Callable, Collection, Mapping

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


SAME = 0.2
"""Two gradients of a parameter count as the same if their difference is at most this share of their length, and a power
explains sizes of coordinates if their logarithms correlate by one minus this squared: a little noise beside such a map
hides no more. A power this near to 1 is none."""
EMPTY = 1e-14
"""Rows and columns whose mean square is at most this share of that of the parameter, as those of units that answer
nothing, are not scaled: their derivative would be infinite."""
SWEEPS = 12
"""How often rows and then columns of a parameter are given equal lengths. After twelve sweeps gradients of networks
that differ by factors of rows and columns alone are the same by `SAME`."""


class Directions(dict[str, torch.Tensor]):
    """Shared gradients ``(N, *shape)`` in which the defense hid the length of each parameter but not its direction.

    The values are the gradients as they were shared, or as far as they were recovered. `usual` is a number for each
    parameter: the usual length of its gradient, as a share of the length of the whole gradient; 0 where nothing of it
    can be compared. `balance` names the parameters of which the lengths of rows and columns are hidden, too. Attacks
    that match gradients pass both sides through `as_read`, which gives every parameter its usual length; other attacks
    read the values.
    """

    def __init__(
        self, gradients: Gradients, usual: Mapping[str, torch.Tensor], balance: Collection[str] = frozenset()
    ) -> None:
        super().__init__(gradients)
        self.usual = usual
        self.balance = balance


def as_read(gradients: Gradients, shared: Gradients) -> Gradients:
    """Return gradients in the form in which an attack compares them with the shared ones.

    If the shared gradients are `Directions`, parameters in `balance` are balanced, and every parameter is scaled to its
    usual length; otherwise nothing changes.
    """
    if not isinstance(shared, Directions):
        return gradients
    scaled = {}
    for name, values in gradients.items():
        values = balanced(values) if name in shared.balance else values
        factor = shared.usual[name] / _lengths(values)
        scaled[name] = values * factor.view(-1, *[1] * (values.ndim - 1))
    return scaled


def _lengths(values: torch.Tensor) -> torch.Tensor:
    """Return the Euclidean length ``(N,)`` of each row.

    A row of zeros has a tiny length instead of 0, so that the derivative is finite everywhere.
    """
    return (values.flatten(1).square().sum(dim=1) + torch.finfo(values.dtype).tiny).sqrt()


def balanced(values: torch.Tensor) -> torch.Tensor:
    """Return gradients ``(N, rows, columns, *rest)`` in which all rows and all columns of a gradient have one length.

    Factors of rows and columns change nothing of the result (Sinkhorn & Knopp, 1967, on squares). Rows and columns of
    zeros stay zeros. The rows are the output channels of a layer, the columns its input channels.
    """
    blocks = values.reshape(*values.shape[:3], -1)
    blocks = blocks / (_lengths(values) / math.prod(blocks.shape[1:]) ** 0.5).view(-1, 1, 1, 1)
    for _ in range(SWEEPS):
        for summed in ((2, 3), (1, 3)):
            mean_square = blocks.square().mean(dim=summed, keepdim=True)
            blocks = blocks / torch.where(mean_square > EMPTY, mean_square, 1).sqrt()
    return blocks.view_as(values)


def undone(shared: Gradients, plain: Gradients, protect: Callable[[Gradients], Gradients]) -> Gradients:
    """Return the shared gradients ``(N, *shape)`` with the defense undone as far as its attacker can undo it.

    1. The defense is applied to `plain`, gradients ``(PROBES, *shape)`` of other images. If it changes nothing, the
       shared gradients are returned as they are.
    2. An affine map of each coordinate is fitted. If it explains every parameter, its inverse is applied.
    3. Otherwise a power of each coordinate is fitted; if it explains every parameter, it is taken back up to a factor.
    4. Otherwise the shared gradients become `Directions` if the defense hides lengths of parameters, or of their rows
       and columns, and stay as they are if not.

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
            return (
                _roots(shared, plain, defended)
                or _balanced_directions(shared, plain, defended)
                or _directions(shared, plain, defended)
            )
        invertible = factor.abs() > FLAT * factor.abs().max()
        back = (double(shared[name]) - offset) / torch.where(invertible, factor, 1)
        recovered[name] = torch.where(invertible, back, double(shared[name])).to(shared[name])
    return recovered


def _roots(shared: Gradients, plain: Gradients, defended: Gradients) -> Directions | None:
    """Return the shared gradients with a power of each coordinate taken back, or None if the defense is no such map.

    The map is ``sign(g) * abs(g) ** power`` times a factor. The power is one for a parameter, the factor may differ
    from image to image and stays unknown.
    """
    recovered, is_power = {}, False
    for name, values in plain.items():
        power = _power(double(values).flatten(1), double(defended[name]).flatten(1))
        if power is None:
            return None
        is_power |= abs(power - 1) > SAME
        there = double(shared[name])
        largest = there.abs().flatten(1).amax(dim=1).clamp(min=torch.finfo(there.dtype).tiny)
        unit = there / largest.view(-1, *[1] * (there.ndim - 1))
        recovered[name] = (unit.sign() * unit.abs() ** (1 / power)).to(shared[name])
    return Directions(recovered, _usual_lengths(plain)) if is_power else None


def _power(plain: torch.Tensor, defended: torch.Tensor) -> float | None:
    """Return the exponent that explains defended coordinates ``(PROBES, D)`` up to a factor of each row, or None."""
    seen = (plain != 0) & (defended != 0)
    if not seen.any():
        return 1.0
    if float(((plain.sign() != defended.sign()) & seen).sum()) > SAME**2 * float(seen.sum()):
        return None
    before, after = plain.abs().log().where(seen, 0), defended.abs().log().where(seen, 0)
    counts = seen.sum(dim=1, keepdim=True).clamp(min=1)
    before = (before - before.sum(dim=1, keepdim=True) / counts).where(seen, 0)
    after = (after - after.sum(dim=1, keepdim=True) / counts).where(seen, 0)
    spread, together = float(before.square().sum()), float((before * after).sum())
    if spread == 0:
        return 1.0
    correlation = together / max((spread * float(after.square().sum())) ** 0.5, torch.finfo(torch.float64).tiny)
    return together / spread if correlation >= 1 - SAME**2 else None


def _balanced_directions(shared: Gradients, plain: Gradients, defended: Gradients) -> Directions | None:
    """Return `Directions` to be balanced if all that the defense changes are lengths of rows and columns, or None.

    A parameter that is a vector has a factor for each of its numbers then, and nothing but their signs is left: it is
    not compared.
    """
    usual, balance = _usual_lengths(plain), set[str]()
    for name, values in plain.items():
        before, after = double(values), double(defended[name])
        if _same(before, after):
            continue
        if values.ndim > 2:
            if not _same(balanced(before), balanced(after)):
                return None
            balance.add(name)
        elif torch.equal(before.sign(), after.sign()):
            usual[name] = torch.zeros_like(usual[name])
        else:
            return None
    return Directions(shared, usual, balance) if balance else None


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether all rows of two tensors ``(N, *shape)`` have the same direction."""
    one, other = one.flatten(1), other.flatten(1)
    apart = one / _lengths(one)[:, None] - other / _lengths(other)[:, None]
    return bool(torch.linalg.vector_norm(apart, dim=1).max() <= SAME)


def _usual_lengths(plain: Gradients) -> dict[str, torch.Tensor]:
    """Return the median length of each parameter's gradient, as a share of the length of the whole gradient."""
    lengths = {name: _lengths(values) for name, values in plain.items()}
    whole = torch.stack([*lengths.values()]).square().sum(dim=0).sqrt()
    return {name: (length / whole).median() for name, length in lengths.items()}


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
    return Directions(shared, _usual_lengths(plain))


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
