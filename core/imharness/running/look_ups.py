"""Tells who looks images up from who takes changes back whatever the image is, such as a codec or a quantiser.

JPEG of quality 50 takes a change of 4/255 back, bit by bit, on a photograph that was stored at quality 50, and so does
who answers with a stored copy. The one does so on any image that is made like it, the other on those that it has. So
the same change is asked about on an image that nobody has stored: the tiles of this one in a drawn order, each mirrored
or not. Tiles are whole blocks of codecs (16 px where chroma is halved), so that what codecs and quantisers left of the
image stays what they leave. The two questions go to two builds, because one that remembers its first answer would
repeat it.

A defense of which nothing of the image is seen takes every change back, too. So the answer counts only where it shows
the image that it was given.

Who keeps the coarse image as it came, and takes its fine detail from a stored copy, lets most of a change through. So
`remembered` compares two shares in each band of detail: how much of the image's own detail the answer shows, and how
much of the detail of a change. What is shown and not let through comes from somewhere else: from a copy, or from a
denoiser that takes changes for noise. A denoiser does so on exchanged tiles, too, and what a copy adds there is not
what they show.
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
"""Tiles have sides of a multiple of BLOCK px, and there are at least TILES of them along a side that has room."""
TAKEN_BACK = 0.02
"""The largest answer that takes a change back: what is rounded at the edge of a tile is no more."""
REMEMBERED = 0.25
"""The least share of detail from elsewhere that counts as a copy's; `tests/truth/test_detail_look_ups.py` says who
reaches it."""
SHOWN = 0.4
"""The least correlation with the image, and the least share of its contrast, of an answer that shows it."""
LEVELS = {(1, 3): 0.4, (3, 10): 1.0}
"""The sizes of changes of detail, root mean squares in levels of 8 bits: one is drawn from each, below the second. A
copy may show itself for small changes alone; these count for less, because codecs pass them on or not by chance."""
EDGE = 3
"""How far from the edges of tiles outputs are compared, px: most filters see no further."""
FAINT = 4 / 255
"""The root mean square of detail below which what is shown of it counts for less."""
UNCHANGED = 0.5 / 255
"""The root mean square of a change in a band below which it counts for less."""
TRIES = 3
"""How many orders of the tiles are tried: an edge between two tiles may be what a codec did not leave as it is."""


def elsewhere(
    purify: Callable[[Images], Images],
    fresh: Callable[[Images], Images],
    images: Images,
    changed: Images,
    drawn: ImageRng,
) -> torch.Tensor:
    """Return how much of a change a defense lets through where it cannot know the image, float64 ``(N,)``.

    0 where it takes the change back, about 1 where it leaves the image, infinite where it does not show the image: the
    least ``|D(s(x')) - D(s(x))| / |x' - x|`` over `TRIES` orders s of the tiles of x.

    Args:
        purify: the defense, ``(N, 3, H, W)`` -> ``(N, 3, H, W)``; of results of another size the answer is infinite.
        fresh: the same defense, built anew; both draw the same random numbers at each call.
        images: x, float32 ``(N, 3, H, W)`` in [0, 1].
        changed: x', of that shape, different from x.
        drawn: draws the orders, from one stream for each image.
    """
    answers = []
    with torch.no_grad():
        for _ in range(TRIES):
            exchange, _ = _exchanges(images, drawn)
            moved, plain = exchange(changed), exchange(images)
            first, second = purify(moved), fresh(plain)
            if first.shape != moved.shape or second.shape != plain.shape:
                return torch.full((len(images),), torch.inf, dtype=torch.float64)
            answer = answered(second, first, plain, moved)
            answers.append(answer.masked_fill(_likeness(first, moved) < SHOWN, torch.inf))
    return torch.stack(answers).amin(dim=0)


def remembered(
    purify: Callable[[Images], Images],
    fresh: Callable[[Images], Images],
    images: Images,
    drawn: ImageRng,
    changed: Images | None = None,
) -> torch.Tensor:
    """Return how much of the detail that a defense shows it has from elsewhere, float64 ``(N,)``.

    The largest over bands, and over a small and a large change, of (shown - let through) at an image less the same at
    its exchanged tiles, if that is positive: 0 or less for what knows no image, about 1 for a band that is a copy's.

    Args:
        purify: the defense, ``(N, 3, H, W)`` -> ``(N, 3, H', W')``; what moves pixels moves them back.
        fresh: the same defense, built anew; both draw the same random numbers at each call.
        images: float32 ``(N, 3, H, W)`` in [0, 1].
        drawn: draws the changes and the orders of tiles, from one stream for each image.
        changed: another version of each image, such as an attack's; the change is then the one between the two. Who
            knows the changes that are drawn can be honest about them alone.
    """
    draws, inside = [], _inside(images)
    for versions, weight in _versions(images, changed, drawn):
        exchange, back = _exchanges(images, drawn)
        with torch.no_grad():
            here = [as_large(f(x), x) for f, x in zip((purify, fresh), versions, strict=True)]
            there = [back(as_large(f(exchange(x)), x)) for f, x in zip((purify, fresh), versions, strict=True)]
        more, more_there = (_not_let_through(outputs, versions, inside) for outputs in (here, there))
        draws.append(weight * (more - more_there.clamp(min=0)))
    return torch.stack(draws).amax(dim=(0, 1)).cpu()


def _versions(images: Images, changed: Images | None, drawn: ImageRng) -> Iterator[tuple[tuple[Images, Images], float]]:
    """Yield two versions of each image, and for how much their difference counts."""
    if changed is not None:
        yield (changed, images), 1.0
        return
    for levels, weight in LEVELS.items():
        change = _turned_detail(images, levels, drawn)
        yield (storable(images + change), storable(images - change)), weight


def _not_let_through(outputs: Sequence[Images], versions: Sequence[Images], inside: torch.Tensor) -> torch.Tensor:
    """Return by how much more of its detail than of a change the outputs of two versions show, float64 ``(bands, N)``.

    `inside` is 1 where they are compared, and 0 elsewhere. A band that hardly changes tells little.
    """
    (first, second), (ahead, behind) = outputs, versions
    least = max(3 * float(inside.sum()), 1.0)
    differences = []
    for output, whole, moved, change in zip(
        *map(_bands, (first + second, ahead + behind, first - second, ahead - behind)), strict=True
    ):
        visible = _sum(output, whole, inside) / _sum(whole, whole, inside).clamp(min=(2 * FAINT) ** 2 * least)
        size = _sum(change, change, inside)
        through = _sum(moved, change, inside) / size.clamp(min=1e-12 * least)
        differences.append((visible - through) * (size / (UNCHANGED**2 * least)).clamp(max=1))
    return torch.stack(differences)


def _sum(one: Images, other: Images, inside: torch.Tensor) -> torch.Tensor:
    """Return the sum of the products of two images' values, float64 ``(N,)``."""
    return (double(one) * double(other) * inside).flatten(1).sum(dim=1)


def _inside(like: Images) -> torch.Tensor:
    """Return 1 inside of tiles, and 0 where filters meet their edges or nothing was exchanged; ``(H, W)``."""
    lines = []
    for side in like.shape[2:]:
        count, length = _grid(side)
        places = torch.arange(side, device=like.device)
        away = torch.minimum(places % length, length - 1 - places % length)
        lines.append((away >= EDGE) & (places < count * length))
    return double(lines[0][:, None] & lines[1])


def _turned_detail(images: Images, levels: tuple[int, int], drawn: ImageRng) -> Images:
    """Draw a change: the image's own detail, turned and moved, as large as attacks change images, in all bands."""
    size = drawn.integers(*levels).to(images).view(-1, 1, 1, 1) / 255
    by = [(drawn.uniform(1)[:, 0] * side).long() for side in images.shape[2:]]
    moved = torch.stack(
        [image.roll((int(down), int(right)), (1, 2)) for image, down, right in zip(images.flip(2, 3), *by, strict=True)]
    )
    mixed = torch.stack([_level(band) for band in _bands(moved)]).sum(dim=0)
    room = torch.minimum(images, 1 - images)
    return (size * _level(mixed)).clamp(-3 * size, 3 * size).clamp(-room, room)


def _level(values: Images) -> Images:
    """Return values of root mean square 1 for each image; 0 where all are 0."""
    return values / values.square().mean(dim=(1, 2, 3), keepdim=True).sqrt().clamp(min=1e-6)


def _bands(images: Images) -> list[Images]:
    """Return what box filters of 3, 9 and 27 px take away, one after the other, as far as they fit, and what they leave
    but the mean of each colour."""
    bands, width = list[Images](), 3
    while width <= 27 and 2 * width < min(images.shape[2:]):
        padded = F.pad(images, [width // 2] * 4, mode="replicate")
        smooth = F.avg_pool2d(padded, width, stride=1)
        bands.append(images - smooth)
        images, width = smooth, 3 * width
    return [*bands, images - images.mean(dim=(2, 3), keepdim=True)]


def answered(before: Images, after: Images, images: Images, changed: Images) -> torch.Tensor:
    """Return ``|after - before| / |changed - images|`` of each image, root mean squares, float64 ``(N,)``."""
    moved, change = (vector_norm(double(b - a).flatten(1), dim=1) for a, b in ((before, after), (images, changed)))
    share: torch.Tensor = (moved / change.clamp(min=1e-12)).cpu()
    return share


def _likeness(answer: Images, images: Images) -> torch.Tensor:
    """Return the lesser of the correlation with the images and the share of their contrast, float64 ``(N,)``."""
    a, b = (double(x - x.mean(dim=(2, 3), keepdim=True)).flatten(1) for x in (answer, images))
    share = (a * b).sum(dim=1) / b.square().sum(dim=1).clamp(min=1e-12)
    return torch.minimum(F.cosine_similarity(a, b, dim=1), share).cpu()


def _exchanges(like: Images, drawn: ImageRng) -> tuple[Callable[[Images], Images], Callable[[Images], Images]]:
    """Return what puts the tiles of each image into a new order, and what puts them back.

    What fills no tile stays in its place.
    """
    (down, high), (across, wide) = (_grid(side) for side in like.shape[2:])
    order = drawn.uniform(down * across).argsort(dim=1).to(like.device)
    mirrored = drawn.integers(0, 2, 2, down * across).bool().to(like.device)

    def tiled(images: Images) -> Images:
        inner = images[:, :, : down * high, : across * wide]
        return inner.reshape(-1, 3, down, high, across, wide).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)

    def whole(tiles: Images, images: Images) -> Images:
        result = images.clone()
        back = tiles.reshape(-1, down, across, 3, high, wide).permute(0, 3, 1, 4, 2, 5)
        result[:, :, : down * high, : across * wide] = back.reshape(len(images), 3, down * high, across * wide)
        return result

    def turned(tiles: Images) -> Images:
        for axis, turn in zip((-2, -1), mirrored.unbind(dim=1), strict=True):
            tiles = torch.where(turn[..., None, None, None], tiles.flip(axis), tiles)
        return tiles

    rows = torch.arange(len(like), device=like.device)[:, None]
    return (
        lambda images: whole(turned(tiled(images)[rows, order]), images),
        lambda images: whole(turned(tiled(images))[rows, order.argsort(dim=1)], images),
    )


def _grid(side: int) -> tuple[int, int]:
    """Return how many tiles there are along a side, and how long they are, px."""
    length = max(BLOCK, side // TILES // BLOCK * BLOCK)
    return (side // length, length) if side >= length else (1, side)
