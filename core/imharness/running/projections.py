"""Compares the gradient that attacks read with what a defense does, at random projections of the defense itself.

A mean over an image, or a score, is one projection of D(x): a gradient can be right there and wrong everywhere else. So
each image x is changed by v in both directions, y = D(x + v) - D(x - v). Here v has one sign in each of many squares.
Let J be the Jacobian of D for such changes, and J' the one of which the gradient gives J'^T y. The cosine of the two
matrices, ``<J', J> / (|J'| |J|)``, follows from ``<J'^T y, v>`` for the product, ``|y|`` for J, and ``|J'^T u|`` with
random signs u for J'. It is 1 for an exact gradient, whatever D does and however the gradient is scaled.

Of a defense that passes few directions on, such as the mean of each colour, one change says little: the cosine of its
exact gradient is anything from 0.3 to 3. So a linear defense whose cosine is too small is asked again: for `DRAWS`
changes v and signs u, ``<J'^T u, v>`` and ``<u, J v>`` are equal if the gradient is exact, whatever the rank, and their
correlation has the cosine of the two matrices as its mean. Only `EXACT` and more counts, which chance does not give.

Cost: 15 passes through the defense and 6 back for each image, four and two of them for each size of squares; 36 and 12
more for each size that is asked again. A gradient is found whose cosine is below `LEAST`: a mirror with the gradient g
+ e flip(g) has a cosine of about e, and so has the identity as the gradient of (1 - e) flip(x) + e x; both are found up
to e = 0.1. Where D is linear, and the gradient is said to be its own, it is found below `LEAST_OWN`. The defenses of
this repository reach 0.6 at least, and 0.9 where they are linear; the identity in place of the gradient of JPEG reaches
0.25 at the lowest quality. Not found is a gradient that is right for these changes alone.

A score is one number, so its gradient is compared with queries directly: `follow_scores` changes images by one level of
8 bits, and the slopes that the gradient promises along these changes must be those of the scores. A distance may add a
ripple with a period of a few levels: its gradient is right, and says nothing of the steps of levels that attacks take.
So `follow_steps` asks about changes of single values by `STEPS` levels, too.

What comes back along the gradient is linear in what comes in from behind, whatever D does. So one that is right for the
directions of these trials, and another one for the gradient of a score, is found by `unequal_sums`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
import torch.nn.functional as F
from torch.linalg import vector_norm

from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import Images, Scores, double
from imharness.running.look_ups import elsewhere
from imharness.running.target import storable

CHANGE, LEVELS = 8 / 255, (6, 9)
"""The largest change of a value, as large as attacks on defenses make it; that of each square is drawn, in levels of 8
bits from the first of `LEVELS` to below the second, so that no size is that of a trial alone."""
ANSWERED = 0.1
"""The least answer, ``|y| / |2 v|``, from which anything is learned."""
SHOWN = 0.4
"""The least answer, as a share of how much of an image's contrast D(x) shows, of what does not look images up.

A picture of a defense's own with a share g of the image answers by g, and shows all contrast. The defenses of this
repository reach 0.57 for each image: lowest are `upscale` and `resize` to a tenth.
"""
LINEAR = 0.1
"""A defense counts as linear below this ``|D(x + v) + D(x - v) - 2 D(x)| / |y|``."""
LEAST, LEAST_OWN = 0.2, 0.7
"""The least cosine of a gradient that attacks can follow, and of a linear defense's own."""

DRAWS, EXACT = 12, 0.95
"""How often a linear defense is asked again, and the least correlation that shows its gradient to be exact."""

UNEQUAL = 0.1
"""How far the sum of two directions may come back from the sum of both, as a share of the sizes of the two added up:
honest ones, 1e-4."""

LEVEL, DIRECTIONS, LEAST_SCORE = 1 / 255, 12, 0.25
"""Of scores: the size of a change, the number of changes at each size of squares, and the least cosine."""
STEPS, LEAST_STEP = (2, 4), 0.5
"""The larger changes of distances, in levels, and the least cosine: a ripple of period 4 has none of its gradient left
after changes of 2 levels, one of period 8 after 4, the largest that attacks on distances make."""


@dataclass(frozen=True)
class Followed:
    """What changes of each image showed, float64 ``(N,)``, on the CPU where their device has no float64.

    Attributes:
        cosine: of the gradient with the defense, in [-1, 1] up to noise; NaN where no change was answered.
        least: the least cosine of an honest gradient: `LEAST`, `LEAST_OWN`, `LEAST_SCORE` or `LEAST_STEP`.
        answer: the largest ``|y| / |2 v|``, per value; 0 where outputs stay exactly as they are. Of scores, the
            largest change of a score.
        even: the same for a change of all values of a colour alike, which the mean of an image follows; 0 for scores.
        contrast: the contrast of D(x) as a share of that of x, that of its values that answer and that of those that do
            not, so that a border of one colour adds nothing; 1 for scores.
        repeats: whether the changes are not answered where D cannot know the image, either, bool, as by a codec that
            meets what it has made; see `imharness.running.look_ups`. False where nobody asked, and for scores.
    """

    cosine: torch.Tensor
    least: torch.Tensor
    answer: torch.Tensor
    even: torch.Tensor
    contrast: torch.Tensor
    repeats: torch.Tensor

    @property
    def looked_up(self) -> torch.Tensor:
        """Whether an output is a picture of its own: it answers no change, or less than fits what it shows."""
        flat = (self.contrast < ANSWERED) & (self.even >= ANSWERED)
        unanswered = (self.answer < ANSWERED) & ~flat | (self.answer < SHOWN * self.contrast)
        return unanswered & ~self.repeats

    @property
    def misled(self) -> torch.Tensor:
        """By how much the cosine is too small, negative where it is not; 0 where nothing was answered."""
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
    """Follow small changes of images through a defense, and back along the gradient that attacks read.

    Args:
        purify: the defense, ``(N, 3, H, W)`` -> ``(N, 3, H', W')``; it draws the same random numbers at each call.
        surrogate: the same with the gradient that attacks read.
        images: float32 ``(N, 3, H, W)`` in [0, 1], multiples of 1/255, and so is what the defense is asked about.
        drawn: draws the changes, from one stream for each image.
        own_gradient: whether the gradient is said to be the defense's own. A linear defense is then held to it at each
            size of squares at which it is linear; every other gradient must do at one size.
        fresh: the defense, built anew, which is asked whether it knows the images; without it nobody asks.
    """
    results = [_at(side, purify, surrogate, images, drawn) for side in _sides(*images.shape[2:])]
    cosines, bends, answers, answering = (torch.stack(column) for column in zip(*results, strict=True))
    heard = answers >= ANSWERED
    cosines = torch.where(heard, cosines, torch.nan)
    linear = heard & (bends < LINEAR) & own_gradient
    least = torch.full_like(answers[0], LEAST).masked_fill(linear.any(dim=0), LEAST_OWN)
    for row, side in enumerate(_sides(*images.shape[2:])):
        doubtful = linear[row] & (cosines[row] < LEAST_OWN)
        if doubtful.any():
            exact = _adjoint(side, purify, surrogate, images, drawn)
            cosines[row] = torch.where(doubtful & (exact >= EXACT), exact, cosines[row])
    strict = torch.where(linear, cosines, torch.inf).amin(dim=0)
    lenient = cosines.nan_to_num(-torch.inf).amax(dim=0)
    cosine = torch.where(linear.any(dim=0), strict, torch.where(heard.any(dim=0), lenient, torch.nan))
    with torch.no_grad():
        contrast = _contrast(purify(images), answering.any(dim=0)) / _contrast(images).clamp(min=CHANGE)
    answer, even = answers.amax(dim=0), _even(purify, images, drawn)
    plain = Followed(cosine, least, answer, even, contrast, torch.zeros_like(answer, dtype=torch.bool))
    if fresh is None or not bool(plain.looked_up.any()):
        return plain
    *_, widest = _sides(*images.shape[2:])
    changed = storable(images + _change(widest, images, drawn))
    repeats = elsewhere(purify, fresh, images, changed, drawn) < ANSWERED
    return replace(plain, repeats=repeats.to(answer.device))


def _contrast(images: Images, parted: torch.Tensor | None = None) -> torch.Tensor:
    """Return the root mean square of an image's values about the mean of each colour, float64 ``(N,)``.

    Args:
        images: ``(N, 3, H, W)``.
        parted: bool of that shape; the values inside and those outside are each taken about their own mean.
    """
    values = double(images).flatten(2)
    inside = (torch.ones_like(values, dtype=torch.bool) if parted is None else parted.flatten(2)).to(values)
    about = torch.zeros_like(values)
    for region in (inside, 1 - inside):
        mean = (values * region).sum(dim=2, keepdim=True) / region.sum(dim=2, keepdim=True).clamp(min=1)
        about += region * (values - mean).square()
    return about.flatten(1).mean(dim=1).sqrt()


def follow_scores(score: Callable[[Images], Scores], images: Images, drawn: ImageRng, *, together: int = 1) -> Followed:
    """Compare the gradient of scores with queries: 72 of them and one pass back for each image.

    The cosine is that of the slopes that the gradient promises and those found, over `DIRECTIONS` changes, at the size
    of squares at which it is least; 0 where one of the two sees nothing, NaN where neither does at any size. The
    largest hundredth of the gradient may be cut off, because a median or a maximum has its gradient in one place. The
    differentiable metrics of this repository reach 0.4 at least, all but FSIM 0.7, and a distance that lends its
    gradient to another one stays below 0.25.

    Args:
        score: ``(N, 3, H, W)`` -> scores ``(N,)``, of each image alone.
        images: float32 ``(N, 3, H, W)`` in [0, 1], multiples of 1/255, and so is what is asked about.
        drawn: draws the changes, from one stream for each image.
        together: how many queries about each image are in one call, which has all N images so many times, one after
            the other. More than 1 are faster for small images, but a score that cheats could tell queries by it.
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
    """Return the gradient of the scores at images, zeros where none flows."""
    leaf = images.clone().requires_grad_(True)
    with torch.enable_grad():
        scores, gradient = score(leaf), None
        if scores.requires_grad:
            (gradient,) = torch.autograd.grad(scores.sum(), leaf, allow_unused=True)
    return torch.zeros_like(images) if gradient is None else gradient.nan_to_num()


def _least(results: Sequence[tuple[torch.Tensor, torch.Tensor]], wanted: float) -> Followed:
    """Return the least cosine of each image over several comparisons, of which `wanted` is the least honest one."""
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
    """Return the cosine and the largest change of the score of each image for squares, and changes, of one size."""
    most = gradient.abs().flatten(1).kthvalue(max(1, int(0.99 * gradient[0].numel())), dim=1).values
    cut = gradient.clamp(-most[:, None, None, None], most[:, None, None, None])
    scores, predicted = list[Scores](), list[torch.Tensor]()

    def queries() -> Iterator[Images]:
        for _ in range(DIRECTIONS):
            change = size * _spread(_signs(_gathered(images, side), drawn), side, images)
            ahead, behind = storable(images + change), storable(images - change)
            predicted.append(
                torch.stack([double(vector * (ahead - behind)).flatten(1).sum(dim=1) for vector in (gradient, cut)])
            )
            yield from (ahead, behind)

    remaining = queries()
    with torch.no_grad():
        while some := list(islice(remaining, together)):
            scores.append(score(torch.cat(some)))
    ahead, behind = torch.cat(scores).view(DIRECTIONS, 2, len(images)).unbind(dim=1)
    slopes, promised = double(ahead - behind).T, torch.stack(predicted, dim=-1)
    sizes = vector_norm(slopes, dim=-1) * vector_norm(promised, dim=-1)
    cosine = ((slopes * promised).sum(dim=-1) / sizes.clamp(min=1e-30)).amax(dim=0)
    seen = (slopes != 0).any(dim=-1) | (promised[0] != 0).any(dim=-1)
    return cosine.where(seen, torch.nan), slopes.abs().amax(dim=-1)


def _sides(height: int, width: int) -> Iterator[int]:
    """Yield the sides of the squares, px."""
    yield from (1, 4, max(6, max(height, width) // 8))


def _at(
    side: int,
    purify: Callable[[Images], Images],
    surrogate: Callable[[Images], Images],
    images: Images,
    drawn: ImageRng,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the cosine, the bend and the answer of each image for squares of one size, and which values answer."""
    inside = _inside(images)
    change = _change(side, images, drawn)
    with torch.no_grad():
        ahead, behind = purify(storable(images + change)), purify(storable(images - change))
    y = ahead - behind
    between, back = _product(surrogate, images, lambda result: y)
    _, size = _product(surrogate, images, lambda result: _signs(result, drawn))
    bend = vector_norm(double(ahead + behind - 2 * between).flatten(1), dim=1)
    squares = _gathered(inside, side)
    dims = double(squares > 0).flatten(1).sum(dim=1)
    norm = vector_norm(double(_gathered(size * inside, side) / squares.sqrt().clamp(min=1)).flatten(1), dim=1)
    changed, answered = (vector_norm(double(values).flatten(1), dim=1) for values in (change, y))
    product = double(back * change).flatten(1).sum(dim=1) / changed * dims.sqrt()
    cosine = product / (answered * norm).clamp(min=1e-12)
    values = (images[0].numel() / y[0].numel()) ** 0.5
    return cosine, bend / answered.clamp(min=1e-12), values * answered / (2 * changed).clamp(min=1e-12), y != 0


def _adjoint(
    side: int,
    purify: Callable[[Images], Images],
    surrogate: Callable[[Images], Images],
    images: Images,
    drawn: ImageRng,
) -> torch.Tensor:
    """Return the correlation of what the gradient says of changes and what they do, float64 ``(N,)``."""
    predicted, done = [], []
    for _ in range(DRAWS):
        change, signs = _change(side, images, drawn), list[Images]()
        with torch.no_grad():
            y = double(purify(storable(images + change)) - purify(storable(images - change)))

        def along(result: Images, signs: list[Images] = signs) -> Images:
            signs.append(_signs(result, drawn))
            return signs[0]

        _, back = _product(surrogate, images, along)
        predicted.append(double(back * change).flatten(1).sum(dim=1))
        done.append((double(signs[0]) * y).flatten(1).sum(dim=1) if signs else torch.zeros_like(predicted[-1]))
    promised, measured = torch.stack(predicted), torch.stack(done)
    return F.cosine_similarity(promised, measured, dim=0, eps=1e-30)


def _even(purify: Callable[[Images], Images], images: Images, drawn: ImageRng) -> torch.Tensor:
    """Return the answer of each image where all values of a colour change by the same, float64 ``(N,)``."""
    change = _inside(images) * _sizes(images[:, :, :1, :1], drawn)
    with torch.no_grad():
        y = double(purify(storable(images + change)) - purify(storable(images - change)))
    answered, changed = (x.flatten(1).square().mean(dim=1).sqrt() for x in (y, double(change)))
    return answered / (2 * changed).clamp(min=1e-12)


def _inside(images: Images) -> Images:
    """Return 1 where a value can be changed both ways, and 0 elsewhere."""
    return ((images >= CHANGE) & (images <= 1 - CHANGE)).to(images)


def _change(side: int, images: Images, drawn: ImageRng) -> Images:
    """Draw a change: one sign and size in each square, 0 where a value cannot be changed both ways."""
    return _inside(images) * _spread(_sizes(_gathered(images, side), drawn), side, images)


def _product(
    surrogate: Callable[[Images], Images], images: Images, along: Callable[[Images], Images]
) -> tuple[Images, Images]:
    """Return a result and the product of its gradient with a direction, zeros where none flows.

    Each product has a pass of its own, because a pass in a sandbox goes back once.
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
    """Return by how much a sum of two directions comes back as something else than the sum of both, float64 ``(N,)``.

    One direction is the gradient of a score, as attacks send it, the other has random signs, as trials do. Three passes
    there and back. 0 for every gradient that follows from the image alone, NaN where nothing comes back, and 1 where
    no number does: who answers the sum with none is as far from it as who answers with 0.

    Args:
        surrogate: the defense with the gradient that attacks read; it draws the same random numbers at each call.
        images: float32 ``(N, 3, H, W)`` in [0, 1].
        behind: the gradient of a score at the defense's results, ``(N, 3, H', W')`` -> the same shape.
        drawn: draws the signs, from one stream for each image.
    """
    directions = list[Images]()

    def along(result: Images) -> Images:
        if not directions:
            directions.extend([behind(result), _signs(result, drawn)])
        return directions[0]

    def scaled(direction: Images) -> torch.Tensor:
        return direction.square().mean(dim=(1, 2, 3), keepdim=True).sqrt().clamp(min=1e-20)

    _, score = _product(surrogate, images, along)
    if not directions:
        return torch.full((len(images),), torch.nan, dtype=torch.float64)
    gradient, signs = directions
    _, random = _product(surrogate, images, lambda result: signs)
    _, both = _product(surrogate, images, lambda result: signs + gradient / scaled(gradient))
    one, other, together = (double(x).flatten(1) for x in (score / scaled(gradient), random, both))
    size = vector_norm(one, dim=1) + vector_norm(other, dim=1)
    error: torch.Tensor = vector_norm(together - one - other, dim=1) / size
    return error.nan_to_num(nan=1.0).where(size != 0, torch.nan)


def _signs(like: torch.Tensor, drawn: ImageRng) -> torch.Tensor:
    return (2 * drawn.integers(0, 2, *like.shape[1:]) - 1).to(like)


def _sizes(like: torch.Tensor, drawn: ImageRng) -> torch.Tensor:
    """Draw changes, multiples of 1/255 of either sign, in the shape of some ``(N, ...)``."""
    return _signs(like, drawn) * drawn.integers(*LEVELS, *like.shape[1:]).to(like) / 255


def _gathered(images: Images, side: int) -> torch.Tensor:
    """Return the sum over each square."""
    height, width = images.shape[2:]
    padded = F.pad(images, (0, -width % side, 0, -height % side))
    return F.avg_pool2d(padded, side) * side**2


def _spread(values: torch.Tensor, side: int, like: Images) -> Images:
    """Return images with one value in each square."""
    height, width = like.shape[2:]
    return values.repeat_interleave(side, dim=2).repeat_interleave(side, dim=3)[:, :, :height, :width]
