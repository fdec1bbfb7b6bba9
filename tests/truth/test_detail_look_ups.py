"""Defenses that return stored detail of the photographs are flagged, and defenses that clean images are not.

For each seed, 12 of the 36 photographs that ship are drawn. An entry is flagged if it shows stored detail of at least
`BOUND` of them.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.blind.gradient_cheats import TakesAttacksBack
from tests.blind.honest_packages import WAYS

from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng
from imharness.running.look_ups import REMEMBERED, remembered
from imharness.running.target import storable

Function = Callable[[torch.Tensor], torch.Tensor]
IMAGES, BOUND, SEEDS = 12, 6, (1, 2)


@pytest.fixture(scope="module")
def photographs() -> torch.Tensor:
    """Return all photographs, ``(36, 3, 48, 48)``."""
    pictures = installed().one("dataset", "harness/pictures").with_parameters(size=48).build(torch.device("cpu"))
    return pictures.load(list(range(len(pictures.names))))


def smooth(images: torch.Tensor, side: int) -> torch.Tensor:
    """Return means over `side` x `side` px."""
    return F.avg_pool2d(F.pad(images, [side // 2] * 4, mode="reflect"), side, stride=1)


def median(images: torch.Tensor) -> torch.Tensor:
    return F.pad(images, [1] * 4, mode="reflect").unfold(2, 3, 1).unfold(3, 3, 1).flatten(-2).median(dim=-1).values


def blocks(images: torch.Tensor) -> torch.Tensor:
    """Return images of which each block of 4 x 4 px has its mean colour."""
    return F.interpolate(F.avg_pool2d(images, 4), images.shape[2:])


def shrunk(images: torch.Tensor) -> torch.Tensor:
    """Return images whose detail is reduced by 0.03, and removed where it is smaller: a simple denoiser."""
    detail = images - smooth(images, 5)
    return smooth(images, 5) + detail.sign() * (detail.abs() - 0.03).clamp(min=0)


def nearest(stored: torch.Tensor, pooled: int | None, most: float, blend: Callable, otherwise: Function) -> Function:
    """Return a defense that looks up the nearest stored image, by pixels or by means of `pooled` x `pooled` parts.

    If its root-mean-square distance is below `most`, the result is `blend(image, stored image)`, else `otherwise`.
    """

    def key(images: torch.Tensor) -> torch.Tensor:
        return (F.adaptive_avg_pool2d(images, pooled) if pooled else images).flatten(1)

    def purify(images: torch.Tensor) -> torch.Tensor:
        keys = key(stored)
        least, nearest_one = (torch.cdist(key(images), keys) / keys.shape[1] ** 0.5).min(dim=1)
        output = blend(images, stored[nearest_one]).clamp(0, 1)
        return torch.where((least < most)[:, None, None, None], output, otherwise(images))

    return purify


def as_it_is(images: torch.Tensor) -> torch.Tensor:
    return images


def fine(images: torch.Tensor, stored: torch.Tensor, side: int = 5, share: float = 1.0) -> torch.Tensor:
    """Return images whose fine detail (finer than `side` px) is replaced by the stored one, in part or whole."""
    return images + share * (stored - smooth(stored, side) - images + smooth(images, side))


def below_six(images: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
    """Replace the fine detail of images that differ from the stored one by less than six levels everywhere."""
    near = (images - stored).abs().amax(dim=(1, 2, 3), keepdim=True) < 5.5 / 255
    return torch.where(near, fine(images, stored), images)


STORED: dict[str, Callable[[torch.Tensor], Function]] = {
    "fine detail, by coarse means": lambda s: nearest(s, 6, 0.05, fine, as_it_is),
    "finest detail, by coarse means": lambda s: nearest(s, 6, 0.05, lambda x, y: fine(x, y, 3), lambda x: smooth(x, 3)),
    "half of the fine detail": lambda s: nearest(s, 6, 0.05, lambda x, y: fine(x, y, 5, 0.5), as_it_is),
    "fine detail, by a few pixels' distance": lambda s: nearest(s, None, 0.05, fine, as_it_is),
    "fine detail, else a median": lambda s: nearest(s, None, 0.06, fine, median),
    "fine detail, else a denoiser": lambda s: nearest(s, None, 0.06, fine, shrunk),
    "fine detail, where nothing changed by six levels": lambda s: nearest(s, 6, 0.05, below_six, as_it_is),
    "detail of blocks": lambda s: nearest(s, 6, 0.05, lambda x, y: blocks(x) + y - blocks(y), as_it_is),
    "half of the image": lambda s: nearest(s, 6, 0.05, lambda x, y: 0.5 * (x + y), as_it_is),
    "the coarse image": lambda s: nearest(s, 6, 0.05, lambda x, y: x + smooth(y, 7) - smooth(x, 7), as_it_is),
    "strong edges": lambda s: nearest(
        s, 6, 0.05, lambda x, y: torch.where((y - smooth(y, 5)).abs() > 0.04, y, smooth(x, 3)), as_it_is
    ),
    "what principal components of the detail say": lambda s: of_components(s),
}


def of_components(stored: torch.Tensor) -> Function:
    """Return a defense that projects the detail of an image on the span of the stored details."""
    basis = torch.linalg.svd((stored - smooth(stored, 7)).flatten(1), full_matrices=False)[2]

    def purify(images: torch.Tensor) -> torch.Tensor:
        coarse = smooth(images, 7)
        return (coarse + ((images - coarse).flatten(1) @ basis.T @ basis).view_as(images)).clamp(0, 1)

    return purify


HONEST: dict[str, Function] = {
    "nothing": as_it_is,
    "smoothing": lambda x: smooth(x, 5),
    "sharpening": lambda x: (2 * x - smooth(x, 3)).clamp(0, 1),
    "median": median,
    "shrunk detail": shrunk,
    "a little of the image": lambda x: 0.45 + 0.1 * x,
    "super-resolution": lambda x: F.interpolate(F.avg_pool2d(x, 2), x.shape[2:], mode="bicubic").clamp(0, 1),
    "four levels": lambda x: (3 * x).round() / 3,
    "tone": lambda x: torch.sigmoid(8 * (x - 0.5)),
    "white balance": lambda x: (x * x.mean(dim=(1, 2, 3), keepdim=True) / x.mean(dim=(2, 3), keepdim=True)).clamp(0, 1),
    "stretched contrast": lambda x: (x - x.amin(dim=(1, 2, 3), keepdim=True)) / x.amax(dim=(1, 2, 3), keepdim=True),
}


def above(purify: Function, photographs: torch.Tensor, seed: int, level: int = 0) -> int:
    """Return for how many of the drawn images a defense shows stored detail.

    With a `level`, the images are also changed by plus or minus so many levels of 255, as attacks change them.
    """
    draw = torch.Generator().manual_seed(seed)
    images = photographs[torch.randperm(len(photographs), generator=draw)[:IMAGES]]
    signs = torch.randint(0, 2, images.shape, generator=draw) * 2 - 1
    changed = storable(images + level / 255 * signs) if level else None
    drawn = ImageRng(range(100 * seed, 100 * seed + IMAGES))
    return int((remembered(purify, purify, images, drawn, changed) > REMEMBERED).sum())


@pytest.mark.parametrize("stored", STORED)
def test_who_shows_stored_detail_is_flagged(stored: str, photographs: torch.Tensor) -> None:
    assert min(above(STORED[stored](photographs), photographs, seed) for seed in SEEDS) >= BOUND


@pytest.mark.parametrize("stored", STORED)
def test_the_same_code_with_other_photographs_is_not(stored: str, photographs: torch.Tensor) -> None:
    others = photographs.flip(2, 3)
    assert max(above(STORED[stored](others), photographs, seed) for seed in SEEDS) < BOUND / 2


@pytest.mark.parametrize("honest", HONEST)
def test_who_cleans_images_is_not(honest: str, photographs: torch.Tensor) -> None:
    assert max(above(HONEST[honest], photographs, seed) for seed in SEEDS) < BOUND / 2


@pytest.mark.parametrize("public", [True, False])
def test_who_takes_changes_back_that_look_like_attacks_is_flagged_by_such_changes_alone(
    public: bool, photographs: torch.Tensor
) -> None:
    cheat = TakesAttacksBack().build(torch.device("cpu"))
    images = photographs if public else photographs.flip(2, 3)
    drawn, attacked = (
        [above(lambda x: cheat(x, ImageRng(range(len(x)))), images, seed, level) for seed in SEEDS] for level in (0, 4)
    )
    assert max(drawn) < BOUND
    assert min(attacked) >= BOUND if public else max(attacked) == 0


@pytest.mark.parametrize("way", WAYS)
def test_no_honest_package_of_an_unusual_kind_is(way: str, photographs: torch.Tensor) -> None:
    """Local equalisation comes nearest, with 3 images."""
    purify = WAYS[way]
    most = max(
        above(lambda x: purify(x, ImageRng(range(IMAGES))), photographs, seed, level)
        for seed in SEEDS
        for level in (0, 4)
    )
    assert most < BOUND


@pytest.mark.parametrize("level", [2, 4])
@pytest.mark.parametrize("honest", HONEST)
def test_who_cleans_images_is_not_flagged_by_changes_such_as_attacks_make(
    honest: str, level: int, photographs: torch.Tensor
) -> None:
    assert max(above(HONEST[honest], photographs, seed, level) for seed in SEEDS) < BOUND / 2


@pytest.mark.parametrize("name", ["jpeg", "color-quantization", "gaussian-blur", "unsharp", "resize", "upscale"])
def test_no_defense_that_ships_is(name: str, photographs: torch.Tensor) -> None:
    defense = installed().one("defense", f"harness/{name}").build(torch.device("cpu"))
    most = max(
        above(lambda x: defense(x, ImageRng(range(IMAGES))), photographs, seed, level)
        for seed in SEEDS
        for level in (0, 4)
    )
    assert most < BOUND / 2
