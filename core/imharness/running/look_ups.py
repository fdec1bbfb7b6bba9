"""Separates defenses that look images up from those that remove changes by honest means, such as a codec or quantiser.

A *look-up* is a defense that recognises an image and answers with a stored copy. An attack's change of the image then
has no effect, and the defense looks strong. But an honest defense may remove a small change as well: JPEG of quality 50
removes a change of 4/255 completely from a photograph that was stored at quality 50.

The two differ on images that nobody can have stored. Such an image is made here by *exchanging tiles*: the image is cut
into tiles, which are put into a random order, each mirrored or not. A tile is made of whole blocks of codecs (16 px
where chroma is halved), so that an honest codec or quantiser does the same to it as before. A look-up does not
recognise the exchanged image, and lets the change through. Two tests use this:

- `elsewhere` returns how much of a change comes through on exchanged tiles. A look-up lets it through there. The
  original and the changed image are given to two separate builds of the defense, because a build that remembers its
  first answer would repeat it. A defense that shows nothing of the image removes every change, too; so an answer counts
  only if it looks like the image that was given.
- `remembered` finds a look-up that keeps the coarse image and takes only its fine detail from a stored copy, so that
  most of a change comes through. In each band of detail it compares which share of the image's own detail the answer
  shows, and which share of a change's detail comes through. If more is shown than comes through, the difference comes
  from somewhere else: from a stored copy, or from a denoiser that takes changes for noise. A denoiser has the same
  difference on exchanged tiles, so that difference is subtracted.

In this file a change *comes through* if the output changes with the image, and is *taken back* if it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch.linalg import vector_norm

from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import Images, double
from imharness.running.target import as_large, storable

BLOCK, TILES = 16, 4
"""The side of a tile is a multiple of BLOCK px; along a side of the image that is long enough are at least TILES."""
TAKEN_BACK = 0.02
"""The largest share of a change that may come through where it counts as taken back: rounding at the edge of a tile
gives no more."""
REMEMBERED = 0.25
"""The result of `remembered` from which on a defense counts as a look-up; `tests/truth/test_detail_look_ups.py` says
which defenses reach it."""
SHOWN = 0.4
"""The least correlation with the image, and the least share of its contrast, of an answer that shows the image."""
LEVELS = {(1, 3): 0.4, (3, 10): 1.0}
"""Sizes of the changes that `remembered` draws -> how much each counts. A size is the root mean square in levels of 8
bits, a whole number from the first to below the second. A copy may show itself for small changes alone; these count for
less, because whether a codec lets them through is chance."""
EDGE = 3
"""Outputs are compared at least this far from the edges of tiles, px: most filters see no further."""
FAINT = 4 / 255
"""Detail with a smaller root mean square than this counts for less, on images in [0, 1]."""
UNCHANGED = 0.5 / 255
"""A band in which the change has a smaller root mean square than this counts for less, on images in [0, 1]."""
TRIES = 3
"""How many orders of the tiles are tried: a new edge between two tiles may be something that a codec changes."""


def elsewhere(
    purify: Callable[[Images], Images],
    fresh: Callable[[Images], Images],
    images: Images,
    changed: Images,
    drawn: ImageRng,
) -> torch.Tensor:
    """Return which share of a change comes through on exchanged tiles, float64 ``(N,)``.

    It is the least ``|D(s(x')) - D(s(x))| / |x' - x|`` over `TRIES` orders s of the tiles: 0 where the defense D takes
    the change back, about 1 where it leaves images as they are, infinite where its output does not show the image.

    Args:
        purify: the defense, ``(N, 3, H, W)`` -> ``(N, 3, H, W)``; if outputs have another size, the result is infinite.
        fresh: the same defense, built anew; both draw the same random numbers at each call.
        images: x, float32 ``(N, 3, H, W)`` in [0, 1].
        changed: x', of that shape, different from x.
        drawn: draws the orders of tiles, from one stream for each image.
    """
    shares = []
    with torch.no_grad():
        for _ in range(TRIES):
            exchange, _ = _exchanges(images, drawn)
            exchanged, exchanged_changed = exchange(images), exchange(changed)
            output_changed, output = purify(exchanged_changed), fresh(exchanged)
            if output_changed.shape != exchanged_changed.shape or output.shape != exchanged.shape:
                return torch.full((len(images),), torch.inf, dtype=torch.float64)
            share = answered(output, output_changed, exchanged, exchanged_changed)
            hides_image = _likeness(output_changed, exchanged_changed) < SHOWN
            shares.append(share.masked_fill(hides_image, torch.inf))
    return torch.stack(shares).amin(dim=0)


def remembered(
    purify: Callable[[Images], Images],
    fresh: Callable[[Images], Images],
    images: Images,
    drawn: ImageRng,
    changed: Images | None = None,
) -> torch.Tensor:
    """Return which share of the detail that a defense shows does not come from the image, float64 ``(N,)``.

    For each band of detail and each change, it is the share of the image's detail that outputs show, less the share of
    the change that comes through, less the same difference on exchanged tiles if that is positive. The largest of these
    is returned: 0 or less for a defense that looks nothing up, about 1 if a band is that of a stored copy.

    Args:
        purify: the defense, ``(N, 3, H, W)`` -> ``(N, 3, H', W')``. A defense that moves pixels has to be followed by
            its inverse.
        fresh: the same defense, built anew; both draw the same random numbers at each call.
        images: float32 ``(N, 3, H, W)`` in [0, 1].
        drawn: draws the changes and the orders of tiles, from one stream for each image.
        changed: another version of each image, such as an attacked one; the change is then the difference of the two.
            Without it changes are drawn; a defense that knows how they are drawn can be honest about these alone.
    """
    results, inside = [], _inside(images)
    for versions, weight in _versions(images, changed, drawn):
        exchange, back = _exchanges(images, drawn)
        with torch.no_grad():
            outputs = [as_large(f(x), x) for f, x in zip((purify, fresh), versions, strict=True)]
            exchanged = [back(as_large(f(exchange(x)), x)) for f, x in zip((purify, fresh), versions, strict=True)]
        surplus = _shown_beyond_through(outputs, versions, inside)
        honest_surplus = _shown_beyond_through(exchanged, versions, inside).clamp(min=0)
        results.append(weight * (surplus - honest_surplus))
    return torch.stack(results).amax(dim=(0, 1)).cpu()


def _versions(images: Images, changed: Images | None, drawn: ImageRng) -> Iterator[tuple[tuple[Images, Images], float]]:
    """Yield two versions of each image, whose difference is a change, and the weight of the change."""
    if changed is not None:
        yield (changed, images), 1.0
        return
    for levels, weight in LEVELS.items():
        change = _moved_detail(images, levels, drawn)
        yield (storable(images + change), storable(images - change)), weight


def _shown_beyond_through(outputs: Sequence[Images], versions: Sequence[Images], inside: torch.Tensor) -> torch.Tensor:
    """Return the share of detail that is shown less the share of a change that comes through, float64 ``(bands, N)``.

    A band in which the change is smaller than `UNCHANGED` counts for less.

    Args:
        outputs: what the defense returned for the two versions, two of ``(N, 3, H, W)``.
        versions: the two versions, whose difference is the change.
        inside: 1 where outputs are compared, 0 elsewhere, ``(H, W)``.
    """
    (first_output, second_output), (first, second) = outputs, versions
    count = max(3 * float(inside.sum()), 1.0)  # how many values of an image are compared
    shown_bands, image_bands = _bands(first_output + second_output), _bands(first + second)
    through_bands, change_bands = _bands(first_output - second_output), _bands(first - second)
    results = []
    for shown_band, image, through, change in zip(shown_bands, image_bands, through_bands, change_bands, strict=True):
        detail_size = _sum(image, image, inside).clamp(min=(2 * FAINT) ** 2 * count)
        change_size = _sum(change, change, inside)
        shown_share = _sum(shown_band, image, inside) / detail_size
        through_share = _sum(through, change, inside) / change_size.clamp(min=1e-12 * count)
        weight = (change_size / (UNCHANGED**2 * count)).clamp(max=1)
        results.append((shown_share - through_share) * weight)
    return torch.stack(results)


def _sum(one: Images, other: Images, inside: torch.Tensor) -> torch.Tensor:
    """Return the sum of the products of two images' values where `inside` is 1, float64 ``(N,)``."""
    return (double(one) * double(other) * inside).flatten(1).sum(dim=1)


def _inside(like: Images) -> torch.Tensor:
    """Return 1 in the inner part of tiles, and 0 within `EDGE` of their edges and where no tile is; ``(H, W)``."""
    lines = []
    for side in like.shape[2:]:
        count, length = _grid(side)
        positions = torch.arange(side, device=like.device)
        from_edge = torch.minimum(positions % length, length - 1 - positions % length)
        lines.append((from_edge >= EDGE) & (positions < count * length))
    return double(lines[0][:, None] & lines[1])


def _moved_detail(images: Images, levels: tuple[int, int], drawn: ImageRng) -> Images:
    """Draw a change: the image's own detail, turned by 180 degrees and shifted, in all bands, ``(N, 3, H, W)``.

    `levels`: the range of its root mean square, see `LEVELS`.
    """
    size = drawn.integers(*levels).to(images).view(-1, 1, 1, 1) / 255
    down, right = ((drawn.uniform(1)[:, 0] * side).long() for side in images.shape[2:])
    turned = images.flip(2, 3)
    shifts = zip(down.tolist(), right.tolist(), strict=True)
    moved = torch.stack([image.roll(shift, (1, 2)) for image, shift in zip(turned, shifts, strict=True)])
    mixed = torch.stack([_normalised(band) for band in _bands(moved)]).sum(dim=0)
    room = torch.minimum(images, 1 - images)
    return (size * _normalised(mixed)).clamp(-3 * size, 3 * size).clamp(-room, room)


def _normalised(values: Images) -> Images:
    """Return values of root mean square 1 for each image; 0 where all are 0."""
    return values / values.square().mean(dim=(1, 2, 3), keepdim=True).sqrt().clamp(min=1e-6)


def _bands(images: Images) -> list[Images]:
    """Return images as bands of detail, from fine to coarse, without the mean of each colour: each ``(N, 3, H, W)``.

    Box filters of 3, 9 and 27 px follow each other, as far as they fit into the image. A band is what a filter removes;
    the last band is what all filters leave.
    """
    bands, width = list[Images](), 3
    while width <= 27 and 2 * width < min(images.shape[2:]):
        padded = F.pad(images, [width // 2] * 4, mode="replicate")
        smooth = F.avg_pool2d(padded, width, stride=1)
        bands.append(images - smooth)
        images, width = smooth, 3 * width
    return [*bands, images - images.mean(dim=(2, 3), keepdim=True)]


def answered(before: Images, after: Images, images: Images, changed: Images) -> torch.Tensor:
    """Return which share of a change comes through: ``|after - before| / |changed - images|``, float64 ``(N,)``.

    `before` and `after` are the outputs for `images` and `changed`; all have the same shape.
    """
    output_change = vector_norm(double(after - before).flatten(1), dim=1)
    change = vector_norm(double(changed - images).flatten(1), dim=1)
    share: torch.Tensor = (output_change / change.clamp(min=1e-12)).cpu()
    return share


def _likeness(answer: Images, images: Images) -> torch.Tensor:
    """Return how much an answer shows the images, float64 ``(N,)``, 1 for the images themselves.

    It is the lesser of two numbers: the correlation with the image, and the share of its contrast.
    """
    a, b = (double(x - x.mean(dim=(2, 3), keepdim=True)).flatten(1) for x in (answer, images))
    share = (a * b).sum(dim=1) / b.square().sum(dim=1).clamp(min=1e-12)
    return torch.minimum(F.cosine_similarity(a, b, dim=1), share).cpu()


def _exchanges(like: Images, drawn: ImageRng) -> tuple[Callable[[Images], Images], Callable[[Images], Images]]:
    """Return two functions: one puts the tiles of each image into a drawn order, the other puts them back.

    Both map ``(N, 3, H, W)`` to the same shape. Pixels at the sides that fill no tile stay where they are.
    """
    (rows, height), (columns, width) = (_grid(side) for side in like.shape[2:])  # of tiles, and of one tile in px
    order = drawn.uniform(rows * columns).argsort(dim=1).to(like.device)  # (N, tiles)
    is_mirrored = drawn.integers(0, 2, 2, rows * columns).bool().to(like.device)  # (N, 2, tiles), for both axes

    def tiles_of(images: Images) -> Images:  # (N, tiles, 3, height, width)
        inner = images[:, :, : rows * height, : columns * width]
        return inner.reshape(-1, 3, rows, height, columns, width).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)

    def with_tiles(images: Images, tiles: Images) -> Images:
        result = images.clone()
        inner = tiles.reshape(-1, rows, columns, 3, height, width).permute(0, 3, 1, 4, 2, 5)
        result[:, :, : rows * height, : columns * width] = inner.reshape(len(images), 3, rows * height, columns * width)
        return result

    def mirrored(tiles: Images) -> Images:
        for axis, mask in zip((-2, -1), is_mirrored.unbind(dim=1), strict=True):
            tiles = torch.where(mask[..., None, None, None], tiles.flip(axis), tiles)
        return tiles

    every = torch.arange(len(like), device=like.device)[:, None]

    def exchange(images: Images) -> Images:
        return with_tiles(images, mirrored(tiles_of(images)[every, order]))

    def back(images: Images) -> Images:
        return with_tiles(images, mirrored(tiles_of(images))[every, order.argsort(dim=1)])

    return exchange, back


def _grid(side: int) -> tuple[int, int]:
    """Return how many tiles are along a side of the image, and the side of a tile, px."""
    length = max(BLOCK, side // TILES // BLOCK * BLOCK)
    return (side // length, length) if side >= length else (1, side)
