"""Finds gradients that mislead attacks: compares the gradient that attacks read with what a defense or metric does.

**Defenses** (`follow`). Let D be the defense and x an image. A test of one number, such as the mean of D(x), is not
enough: a gradient can be right for that number and wrong for everything else. So the whole Jacobian is compared:

- An image is changed by v in both directions, and y = D(x + v) - D(x - v) is measured. A change v has one value in each
  of many squares of the image, with a random sign.
- Let J be the true Jacobian of D for such changes, and J' the Jacobian that the gradient claims: backpropagating a
  direction u gives J'^T u.
- The cosine of the two matrices, ``<J', J> / (|J'| |J|)``, is estimated from three numbers: ``<J'^T y, v>`` for the
  product, ``|y|`` for |J|, and ``|J'^T u|`` with random signs u for |J'|. An exact gradient has the cosine 1, whatever
  D does and however the gradient is scaled.

A defense that lets few directions through, such as one that returns the mean of each colour, makes this estimate
noisy: for an exact gradient it lies anywhere between 0.3 and 3. So a linear defense whose cosine is too small is tested
again with `DRAWS` changes v and signs u: for an exact gradient, ``<J'^T u, v>`` equals ``<u, J v>`` each time, and the
correlation of the two is near the cosine of the matrices in the mean. It has to reach `EXACT`, which chance does not.

A gradient is called misleading if its cosine is below `LEAST`, or below `LEAST_OWN` where D is linear and the gradient
is said to be its own. The defenses of this repository reach at least 0.6, and 0.9 where they are linear; the identity
in place of the gradient of JPEG reaches 0.25 at the lowest quality. For comparison: let D be a mirror whose gradient g
is replaced by g + e flip(g). Its cosine is about e, and so is that of the identity as the gradient of the mixture
(1 - e) flip(x) + e x; both are called misleading up to e = 0.1. A gradient that is right for changes in squares alone
is not recognised.

The cost for each image is 15 forward and 6 backward passes through the defense: four and two for each size of squares,
and the rest once. Each size that is tested again takes 36 and 12 more.

**Scores** (`follow_scores`, `follow_steps`). A score is one number, so its gradient is compared with queries directly:
`follow_scores` changes images by one level of 8 bits, and compares the slopes that the gradient promises with those of
the scores. A distance may add a ripple with a period of a few levels: its gradient is right, but says nothing about the
steps of several levels that attacks take. So `follow_steps` changes single values by `STEPS` levels, too.

**Sums of directions** (`unequal_sums`). Backpropagation is linear in the direction that is sent back, whatever D does.
A defense that returns one gradient for the directions of these trials and another one for the gradient of a score is
not linear there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.linalg import vector_norm

from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import Images, Scores, double
from imharness.running.look_ups import elsewhere
from imharness.running.target import storable

CHANGE, LEVELS = 8 / 255, (6, 9)
"""The largest change of a value, as attacks on defenses make it; and the range from which the size of the change of
each square is drawn, in levels of 8 bits, the second excluded. Sizes vary so that no size gives a trial away."""
ANSWERED = 0.1
"""The least answer that says anything. The *answer* of a defense to a change is ``|y| / |2 v|``, per value: which share
of the change its output shows."""
SHOWN = 0.4
"""The least answer of an honest defense, as a share of the image's contrast that D(x) shows.

A look-up that mixes its own picture with a share g of the image has the answer g, and shows all contrast. The defenses
of this repository reach at least 0.57 for each image; the lowest are `upscale` and `resize` to a tenth.
"""
LINEAR = 0.1
"""A defense counts as linear if its bend, ``|D(x + v) + D(x - v) - 2 D(x)| / |y|``, is below this."""
LEAST, LEAST_OWN = 0.2, 0.7
"""The least cosine of a gradient that attacks can follow, and of a linear defense's own."""

DRAWS, EXACT = 12, 0.95
"""How many changes a linear defense is tested with again, and the least correlation of an exact gradient."""

UNEQUAL = 0.1
"""The largest error of a sum of two directions, see `unequal_sums`; honest gradients have at most 1e-4."""

LEVEL, DIRECTIONS, LEAST_SCORE = 1 / 255, 12, 0.25
"""For scores: the size of a change of a value in [0, 1], the number of changes at each size of squares, and the least
cosine of an honest gradient."""
STEPS, LEAST_STEP = (2, 4), 0.5
"""The larger changes of distances, in levels of 8 bits, and the least cosine of an honest gradient. A ripple of period
4 levels contributes nothing to changes of 2 levels, and one of period 8 nothing to changes of 4, the largest that
attacks on distances make."""


@dataclass(frozen=True)
class Followed:
    """The result for each image, float64 ``(N,)`` unless said otherwise, on the CPU where a device has no float64.

    Attributes:
        cosine: the cosine of the claimed and the true Jacobian (or of slopes, for scores), in [-1, 1] up to noise; NaN
            where the output shows none of the changes.
        least: the least cosine of an honest gradient: `LEAST`, `LEAST_OWN`, `LEAST_SCORE` or `LEAST_STEP`.
        answer: the largest answer (see `ANSWERED`) over the sizes of squares; 0 if the output stays exactly the same.
            For scores, the largest change of a score.
        even: the answer to a change by which all values of a colour change by the same amount; 0 for scores. A defense
            that returns the mean of each colour shows this change alone.
        contrast: the contrast of D(x) as a share of that of x; 1 for scores. Values of D(x) that change with x, and
            those that do not, are each taken about their own mean, so that a border of one colour adds no contrast.
        repeats: bool; whether D takes the changes back on exchanged tiles of the image, too. A codec does so with an
            image that it wrote; a look-up cannot, because it does not know these tiles. See
            `imharness.running.look_ups`. False for scores, and without `fresh`.
    """

    cosine: torch.Tensor
    least: torch.Tensor
    answer: torch.Tensor
    even: torch.Tensor
    contrast: torch.Tensor
    repeats: torch.Tensor

    @property
    def looked_up(self) -> torch.Tensor:
        """Whether the output is a stored picture, bool: it changes too little for the contrast that it shows."""
        only_means = (self.contrast < ANSWERED) & (self.even >= ANSWERED)  # D returns little but the mean of a colour
        unanswered = (self.answer < ANSWERED) & ~only_means | (self.answer < SHOWN * self.contrast)
        return unanswered & ~self.repeats

    @property
    def misled(self) -> torch.Tensor:
        """By how much the cosine is too small, negative where it is large enough; 0 where there is no cosine."""
        return (self.least - self.cosine).nan_to_num(0.0)


def follow(
    purify: Callable[[Images], Images],
    surrogate: Callable[[Images], Images],
    images: Images,
    drawn: ImageRng,
    *,
    own_gradient: bool,
    fresh: Callable[[Images], Images] | None = None,
) -> Followed:
    """Compare the gradient that attacks read with what a defense does; see the module.

    Args:
        purify: the defense, ``(N, 3, H, W)`` -> ``(N, 3, H', W')``; it draws the same random numbers at each call.
        surrogate: the same with the gradient that attacks read.
        images: float32 ``(N, 3, H, W)`` in [0, 1], multiples of 1/255, as are all images that the defense gets here.
        drawn: draws the changes, from one stream for each image.
        own_gradient: whether the gradient is said to be the defense's own. Then the least cosine counts over all sizes
            of squares at which the defense is linear. Otherwise, and for other defenses, the largest cosine counts.
        fresh: the defense, built anew, for `Followed.repeats`; None leaves that test out.
    """
    # 1. Each measure at each size of squares, (sizes, N); and which output values change.
    sides = list(_sides(*images.shape[2:]))
    at_sides = [_at(side, purify, surrogate, images, drawn) for side in sides]
    cosines, bends, answers = (
        torch.stack([getattr(at, name) for at in at_sides]) for name in ("cosine", "bend", "answer")
    )
    is_answered = answers >= ANSWERED
    cosines = torch.where(is_answered, cosines, torch.nan)
    # 2. A linear defense with a small cosine is tested again, with a test that does not depend on the rank.
    linear = is_answered & (bends < LINEAR) & own_gradient
    for row, side in enumerate(sides):
        doubtful = linear[row] & (cosines[row] < LEAST_OWN)
        if doubtful.any():
            correlation = _adjoint(side, purify, surrogate, images, drawn)
            cosines[row] = torch.where(doubtful & (correlation >= EXACT), correlation, cosines[row])
    # 3. One cosine for each image: the least over sizes where the defense is linear, else the largest.
    any_linear, any_answered = linear.any(dim=0), is_answered.any(dim=0)
    least_of_linear = torch.where(linear, cosines, torch.inf).amin(dim=0)
    largest = cosines.nan_to_num(-torch.inf).amax(dim=0)
    cosine = torch.where(any_linear, least_of_linear, torch.where(any_answered, largest, torch.nan))
    least = torch.full_like(answers[0], LEAST).masked_fill(any_linear, LEAST_OWN)
    # 4. What says whether the output is a stored picture.
    changing = torch.stack([at.changing for at in at_sides]).any(dim=0)
    with torch.no_grad():
        contrast = _contrast(purify(images), changing) / _contrast(images).clamp(min=CHANGE)
    answer, even = answers.amax(dim=0), _even(purify, images, drawn)
    followed = Followed(cosine, least, answer, even, contrast, torch.zeros_like(answer, dtype=torch.bool))
    if fresh is None or not bool(followed.looked_up.any()):
        return followed
    changed = storable(images + _change(sides[-1], images, drawn))
    repeats = elsewhere(purify, fresh, images, changed, drawn) < ANSWERED
    return replace(followed, repeats=repeats.to(answer.device))


def _contrast(images: Images, region: torch.Tensor | None = None) -> torch.Tensor:
    """Return the root mean square of an image's values about the mean of each colour, float64 ``(N,)``.

    Args:
        images: ``(N, 3, H, W)``.
        region: bool of that shape; the values inside the region, and those outside, are each taken about the mean of
            their own kind.
    """
    values = double(images).flatten(2)
    inside = (torch.ones_like(values, dtype=torch.bool) if region is None else region.flatten(2)).to(values)
    squares = torch.zeros_like(values)
    for mask in (inside, 1 - inside):
        mean = (values * mask).sum(dim=2, keepdim=True) / mask.sum(dim=2, keepdim=True).clamp(min=1)
        squares += mask * (values - mean).square()
    return squares.flatten(1).mean(dim=1).sqrt()


def follow_scores(score: Callable[[Images], Scores], images: Images, drawn: ImageRng, *, together: int = 1) -> Followed:
    """Compare the gradient of scores with queries: 72 queries and one backward pass for each image.

    For `DIRECTIONS` changes, the slopes that the gradient promises are compared with those of the scores, by their
    cosine. The least cosine over the sizes of squares is returned; it is 0 where only one of the two changes, and NaN
    where neither does at any size. A median or a maximum has its whole gradient in one pixel; so the cosine is also
    computed with the largest hundredth of the gradient's values cut off, and the larger of the two counts. The
    differentiable metrics of this repository reach at least 0.4, all but FSIM 0.7; a distance with the gradient of
    another one stays below 0.25.

    Args:
        score: ``(N, 3, H, W)`` -> scores ``(N,)``; the score of an image depends on that image alone.
        images: float32 ``(N, 3, H, W)`` in [0, 1], multiples of 1/255, as are all images that are scored here.
        drawn: draws the changes, from one stream for each image.
        together: how many queries about each image are in one call, which then has all N images so many times, one
            query after the other. More than 1 is faster for small images, but a dishonest score could recognise such
            calls.
    """
    gradient = _gradient(score, images)
    sides = _sides(*images.shape[2:])
    return _least([_slopes(side, LEVEL, score, gradient, images, drawn, together) for side in sides], LEAST_SCORE)


def follow_steps(score: Callable[[Images], Scores], images: Images, drawn: ImageRng, *, together: int = 1) -> Followed:
    """Compare the gradient of scores with queries after changes of each value by `STEPS` levels: 48 for each image.

    The arguments are those of `follow_scores`. The cosine is the least of the steps.
    """
    gradient = _gradient(score, images)
    return _least([_slopes(1, step * LEVEL, score, gradient, images, drawn, together) for step in STEPS], LEAST_STEP)


def _gradient(score: Callable[[Images], Scores], images: Images) -> Images:
    """Return the gradient of the scores with respect to the images, zeros where there is none."""
    leaf = images.clone().requires_grad_(True)
    with torch.enable_grad():
        scores, gradient = score(leaf), None
        if scores.requires_grad:
            (gradient,) = torch.autograd.grad(scores.sum(), leaf, allow_unused=True)
    return torch.zeros_like(images) if gradient is None else gradient.nan_to_num()


def _least(results: Sequence[tuple[torch.Tensor, torch.Tensor]], wanted: float) -> Followed:
    """Return the result for scores: the least cosine of each image over several comparisons.

    `results`: what `_slopes` returned for each comparison. `wanted`: the least cosine of an honest gradient.
    """
    cosines, answers = (torch.stack(column) for column in zip(*results, strict=True))
    least = cosines.nan_to_num(torch.inf).amin(dim=0)
    cosine = least.where(least.isfinite(), torch.nan)
    zero, one = torch.zeros_like(cosine), torch.ones_like(cosine)
    return Followed(cosine, torch.full_like(cosine, wanted), answers.amax(dim=0), zero, one, zero.bool())


def _slopes(
    side: int,
    size: float,
    score: Callable[[Images], Scores],
    gradient: Images,
    images: Images,
    drawn: ImageRng,
    together: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cosine of promised and measured slopes, and the largest change of the score, each float64 ``(N,)``.

    `side`: that of the squares, px. `size`: the change of a value. The other arguments are those of `follow_scores`.
    """
    most = gradient.abs().flatten(1).kthvalue(max(1, int(0.99 * gradient[0].numel())), dim=1).values
    cut = gradient.clamp(-most[:, None, None, None], most[:, None, None, None])
    scores, promises = list[Scores](), list[torch.Tensor]()

    def queries() -> Iterator[Images]:
        """Yield the two images of each change, and note the slopes that both gradients promise between them."""
        for _ in range(DIRECTIONS):
            change = size * _spread(_signs(_square_sums(images, side), drawn), side, images)
            ahead, behind = storable(images + change), storable(images - change)
            promises.append(
                torch.stack([double(vector * (ahead - behind)).flatten(1).sum(dim=1) for vector in (gradient, cut)])
            )
            yield from (ahead, behind)

    remaining = queries()
    with torch.no_grad():
        while some := list(islice(remaining, together)):
            scores.append(score(torch.cat(some)))
    ahead, behind = torch.cat(scores).view(DIRECTIONS, 2, len(images)).unbind(dim=1)
    measured = double(ahead - behind).T  # (N, DIRECTIONS)
    promised = torch.stack(promises, dim=-1)  # (2, N, DIRECTIONS): of the whole gradient, and of the cut one
    sizes = vector_norm(measured, dim=-1) * vector_norm(promised, dim=-1)
    cosine = ((measured * promised).sum(dim=-1) / sizes.clamp(min=1e-30)).amax(dim=0)
    any_change = (measured != 0).any(dim=-1) | (promised[0] != 0).any(dim=-1)
    return cosine.where(any_change, torch.nan), measured.abs().amax(dim=-1)


def _sides(height: int, width: int) -> Iterator[int]:
    """Yield the sides of the squares, px, the smallest first."""
    yield from (1, 4, max(6, max(height, width) // 8))


class _AtSide(NamedTuple):
    """What changes in squares of one size show, float64 ``(N,)``: the cosine, the bend and the answer; see the module.

    `changing`: which values of the output change, bool ``(N, 3, H', W')``.
    """

    cosine: torch.Tensor
    bend: torch.Tensor
    answer: torch.Tensor
    changing: torch.Tensor


def _at(
    side: int,
    purify: Callable[[Images], Images],
    surrogate: Callable[[Images], Images],
    images: Images,
    drawn: ImageRng,
) -> _AtSide:
    """Compare the claimed with the true Jacobian for one change in squares of one size."""
    changeable = _changeable(images)
    v = _change(side, images, drawn)
    with torch.no_grad():
        ahead, behind = purify(storable(images + v)), purify(storable(images - v))
    y = ahead - behind
    output, y_back = _product(surrogate, images, lambda result: y)  # D(x) and J'^T y
    _, u_back = _product(surrogate, images, lambda result: _signs(result, drawn))  # J'^T u
    v_size, y_size = (vector_norm(double(values).flatten(1), dim=1) for values in (v, y))
    # |J'| for changes that have one value in each square: the sum over a square, divided by the norm of such a change.
    values_in_squares = _square_sums(changeable, side)
    u_in_squares = _square_sums(u_back * changeable, side) / values_in_squares.sqrt().clamp(min=1)
    claimed_norm = vector_norm(double(u_in_squares).flatten(1), dim=1)
    dimensions = double(values_in_squares > 0).flatten(1).sum(dim=1)  # how many independent changes there are
    # Why sqrt(dimensions): the signs of the n = `dimensions` squares are independent, so in the basis of unit changes
    # of one square, v v^T has about the mean (|v|^2 / n) I. With y = 2 J v, the number <J'^T y, v> has the mean
    # 2 <J', J> |v|^2 / n, and |y|^2 has the mean 4 |J|^2 |v|^2 / n. So <J', J> / |J| is about
    # sqrt(n) <J'^T y, v> / (|v| |y|).
    product = double(y_back * v).flatten(1).sum(dim=1) / v_size * dimensions.sqrt()
    cosine = product / (y_size * claimed_norm).clamp(min=1e-12)
    bend = vector_norm(double(ahead + behind - 2 * output).flatten(1), dim=1) / y_size.clamp(min=1e-12)
    resized = (images[0].numel() / y[0].numel()) ** 0.5  # makes norms of outputs of another size comparable, per value
    return _AtSide(cosine, bend, resized * y_size / (2 * v_size).clamp(min=1e-12), y != 0)


def _adjoint(
    side: int,
    purify: Callable[[Images], Images],
    surrogate: Callable[[Images], Images],
    images: Images,
    drawn: ImageRng,
) -> torch.Tensor:
    """Return the correlation of ``<J'^T u, v>`` and ``<u, J v>`` over `DRAWS` draws of u and v, float64 ``(N,)``."""
    promises, measurements = [], []
    for _ in range(DRAWS):
        change, signs = _change(side, images, drawn), list[Images]()
        with torch.no_grad():
            y = double(purify(storable(images + change)) - purify(storable(images - change)))

        def along(result: Images, signs: list[Images] = signs) -> Images:
            signs.append(_signs(result, drawn))
            return signs[0]

        _, back = _product(surrogate, images, along)
        promise = double(back * change).flatten(1).sum(dim=1)
        promises.append(promise)
        # Without a gradient nobody asked for signs, and the two numbers do not correlate.
        measurements.append((double(signs[0]) * y).flatten(1).sum(dim=1) if signs else torch.zeros_like(promise))
    return F.cosine_similarity(torch.stack(promises), torch.stack(measurements), dim=0, eps=1e-30)


def _even(purify: Callable[[Images], Images], images: Images, drawn: ImageRng) -> torch.Tensor:
    """Return the answer to a change by which all values of a colour change by the same amount, float64 ``(N,)``."""
    change = _changeable(images) * _sizes(images[:, :, :1, :1], drawn)
    with torch.no_grad():
        y = double(purify(storable(images + change)) - purify(storable(images - change)))
    answered, changed = (x.flatten(1).square().mean(dim=1).sqrt() for x in (y, double(change)))
    return answered / (2 * changed).clamp(min=1e-12)


def _changeable(images: Images) -> Images:
    """Return 1 where a value can be changed by `CHANGE` both up and down, and 0 for all other values."""
    return ((images >= CHANGE) & (images <= 1 - CHANGE)).to(images)


def _change(side: int, images: Images, drawn: ImageRng) -> Images:
    """Draw a change v: one sign and size in each square, 0 where a value cannot be changed both ways."""
    return _changeable(images) * _spread(_sizes(_square_sums(images, side), drawn), side, images)


def _product(
    surrogate: Callable[[Images], Images], images: Images, along: Callable[[Images], Images]
) -> tuple[Images, Images]:
    """Return D(x), and what a direction gives when it is sent back through D: zeros where there is no gradient.

    `along`: D(x) -> the direction, of the same shape. Each product needs a forward pass of its own, because a pass in a
    sandbox can be sent back only once.
    """
    leaf = images.clone().requires_grad_(True)
    with torch.enable_grad():
        result = surrogate(leaf)
        gradient = None
        if result.requires_grad:
            (gradient,) = torch.autograd.grad(result, leaf, along(result.detach()), allow_unused=True)
    return result.detach(), torch.zeros_like(images) if gradient is None else gradient


def unequal_sums(
    surrogate: Callable[[Images], Images],
    images: Images,
    behind: Callable[[Images], Images],
    drawn: ImageRng,
) -> torch.Tensor:
    """Return the error of a sum of two directions, float64 ``(N,)``; three passes forward and back.

    One direction is the gradient of a score, as attacks send it back, the other has random signs, as trials send it.
    The error is ``|b(p + q) - b(p) - b(q)| / (|b(p)| + |b(q)|)``, where b sends a direction back. It is 0 for every
    gradient that depends on the image alone, NaN where both directions give zeros, and 1 where the sum gives NaN: that
    is as wrong as zeros.

    Args:
        surrogate: the defense with the gradient that attacks read; it draws the same random numbers at each call.
        images: float32 ``(N, 3, H, W)`` in [0, 1].
        behind: output of the defense, ``(N, 3, H', W')`` -> the gradient of a score at it, of the same shape.
        drawn: draws the signs, from one stream for each image.
    """
    directions = list[Images]()

    def along(result: Images) -> Images:
        if not directions:
            directions.extend([behind(result), _signs(result, drawn)])
        return directions[0]

    _, gradient_back = _product(surrogate, images, along)
    if not directions:  # there is no gradient
        return torch.full((len(images),), torch.nan, dtype=torch.float64)
    gradient, signs = directions
    scale = gradient.square().mean(dim=(1, 2, 3), keepdim=True).sqrt().clamp(min=1e-20)  # signs have the scale 1
    _, signs_back = _product(surrogate, images, lambda result: signs)
    _, sum_back = _product(surrogate, images, lambda result: signs + gradient / scale)
    first, second, together = (double(x).flatten(1) for x in (gradient_back / scale, signs_back, sum_back))
    size = vector_norm(first, dim=1) + vector_norm(second, dim=1)
    error: torch.Tensor = vector_norm(together - first - second, dim=1) / size
    return error.nan_to_num(nan=1.0).where(size != 0, torch.nan)


def _signs(like: torch.Tensor, drawn: ImageRng) -> torch.Tensor:
    """Draw 1 or -1 in the shape of `like` ``(N, ...)``."""
    return (2 * drawn.integers(0, 2, *like.shape[1:]) - 1).to(like)


def _sizes(like: torch.Tensor, drawn: ImageRng) -> torch.Tensor:
    """Draw changes of values, multiples of 1/255 of either sign (see `LEVELS`), in the shape of `like` ``(N, ...)``."""
    return _signs(like, drawn) * drawn.integers(*LEVELS, *like.shape[1:]).to(like) / 255


def _square_sums(images: Images, side: int) -> torch.Tensor:
    """Return the sum over each square of `side` px, ``(N, 3, rows, columns)``; squares at the end may be cut off."""
    height, width = images.shape[2:]
    padded = F.pad(images, (0, -width % side, 0, -height % side))
    return F.avg_pool2d(padded, side) * side**2


def _spread(values: torch.Tensor, side: int, like: Images) -> Images:
    """Return images in the shape of `like` with one value in each square; `values`: ``(N, 3, rows, columns)``."""
    height, width = like.shape[2:]
    return values.repeat_interleave(side, dim=2).repeat_interleave(side, dim=3)[:, :, :height, :width]
