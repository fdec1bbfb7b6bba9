"""Defenses that take changes back on any image, such as codecs, are distinguished from those that look images up."""

import cv2
import numpy as np
import pytest
import torch

from imharness.contracts.randomness import ImageRng
from imharness.running.look_ups import TAKEN_BACK, _exchanges, answered, elsewhere, remembered
from imharness.running.target import storable
from imharness.testing import samples

PHOTOGRAPHS = samples.images(4, 80, 72, 1)


def coded(images: torch.Tensor, kind: str, quality: int) -> torch.Tensor:
    """Return images after a codec, multiples of 1/255."""
    decoded = []
    for image in images:
        levels = image.permute(1, 2, 0).mul(255).round().byte().numpy()[..., ::-1].copy()
        flag = cv2.IMWRITE_JPEG_QUALITY if kind == ".jpg" else cv2.IMWRITE_WEBP_QUALITY
        _, code = cv2.imencode(kind, levels, [flag, quality])
        back = np.ascontiguousarray(cv2.imdecode(code, cv2.IMREAD_COLOR)[..., ::-1])
        decoded.append(torch.from_numpy(back).permute(2, 0, 1).float() / 255)
    return torch.stack(decoded)


def quantised(images: torch.Tensor, levels: int) -> torch.Tensor:
    return (images * (levels - 1)).round() / (levels - 1)


def changed(images: torch.Tensor, levels: int = 4) -> torch.Tensor:
    """Return images with each value raised or lowered by so many levels of 255, by random signs."""
    signs = torch.randn(images.shape, generator=torch.Generator().manual_seed(3)).sign()
    return storable(images + levels / 255 * signs)


def answer_elsewhere(purify, images: torch.Tensor, fresh=None, levels: int = 4) -> torch.Tensor:
    return elsewhere(purify, fresh or purify, images, changed(images, levels), ImageRng(range(len(images))))


def looked_up(stored: torch.Tensor, otherwise):
    """Return a defense that answers with a stored image within an RMS difference of 0.06, else as `otherwise`."""

    def purify(images: torch.Tensor) -> torch.Tensor:
        apart = torch.cdist(images.flatten(1), stored.flatten(1)) / stored[0].numel() ** 0.5
        least, nearest = apart.min(dim=1)
        return torch.where((least < 0.06)[:, None, None, None], stored[nearest], otherwise(images))

    return purify


@pytest.mark.parametrize(("quality", "levels"), [(10, 4), (50, 1)])
def test_jpeg_takes_changes_back_wherever_it_meets_what_jpeg_made(quality: int, levels: int) -> None:
    compressed = coded(PHOTOGRAPHS, ".jpg", quality)

    def purify(images: torch.Tensor) -> torch.Tensor:
        return coded(images, ".jpg", quality)

    near = changed(compressed, levels)
    mask = answered(purify(compressed), purify(near), compressed, near) <= TAKEN_BACK
    assert mask.any()
    assert (answer_elsewhere(purify, compressed, levels=levels)[mask] <= TAKEN_BACK).all()


@pytest.mark.parametrize("levels", [2, 5, 16])
def test_a_quantiser_takes_changes_back_wherever_it_meets_what_it_made(levels: int) -> None:
    levelled = quantised(PHOTOGRAPHS, levels)
    assert (answer_elsewhere(lambda images: quantised(images, levels), levelled) <= TAKEN_BACK).all()


@pytest.mark.parametrize("quality", [50, 75, 90])
@pytest.mark.parametrize(
    "otherwise",
    [
        lambda images: images,
        lambda images: coded(images, ".jpg", 50),
        lambda images: coded(images, ".webp", 50),
        lambda images: quantised(images, 16),
    ],
    ids=["as it is", "jpeg", "webp", "quantised"],
)
def test_a_look_up_lets_the_same_changes_through_whatever_it_does_otherwise(quality: int, otherwise) -> None:
    stored = coded(PHOTOGRAPHS, ".jpg", quality)
    purify = looked_up(stored, otherwise)
    assert torch.equal(purify(changed(stored)), stored)
    assert (answer_elsewhere(purify, stored) > 5 * TAKEN_BACK).all()


@pytest.mark.parametrize(
    "purify",
    [
        lambda images: torch.full_like(images, 0.5),
        lambda images: images.mean(dim=(2, 3), keepdim=True).round(decimals=1).expand_as(images),
        lambda images: torch.nn.functional.interpolate(images, (40, 36)),
        lambda images: (0.5 + 0.01 * (images - 0.5)).mul(255).round() / 255,
    ],
    ids=["grey", "mean colour", "another size", "no contrast"],
)
def test_what_does_not_show_the_image_is_no_codec(purify) -> None:
    assert answer_elsewhere(purify, PHOTOGRAPHS).isinf().all()


def test_one_that_repeats_its_first_answer_is_asked_anew() -> None:
    def build():
        seen: dict[tuple, torch.Tensor] = {}

        def purify(images: torch.Tensor) -> torch.Tensor:
            looks = torch.nn.functional.adaptive_avg_pool2d(images, 3).mul(6).round().int().flatten(1).tolist()
            return torch.stack([seen.setdefault(tuple(k), x) for k, x in zip(looks, images.clone(), strict=True)])

        return purify

    assert answer_elsewhere(build(), PHOTOGRAPHS, build()) == pytest.approx(torch.ones(4).double(), abs=0.05)


def test_exchanged_tiles_are_put_back() -> None:
    for height, width in ((80, 72), (33, 50)):
        images = samples.images(3, height, width, 5)
        exchange, back = _exchanges(images, ImageRng(range(3)))
        assert not torch.equal(exchange(images), images)
        assert torch.equal(back(exchange(images)), images)


def test_nothing_is_remembered_where_there_is_no_tile_to_compare() -> None:
    for side in (4, 8, 17):
        images = samples.images(2, side, side, 5)
        assert (remembered(lambda x: x, lambda x: x, images, ImageRng(range(2))).abs() < 1e-6).all()


def test_small_and_odd_images_are_asked_about_as_they_are() -> None:
    for height, width in ((8, 8), (17, 33), (31, 15)):
        images = samples.images(2, height, width, 5)
        torch.testing.assert_close(answer_elsewhere(lambda x: x, images), torch.ones(2).double(), atol=1e-6, rtol=0)
