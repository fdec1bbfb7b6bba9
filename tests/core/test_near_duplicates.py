"""Which images were made from one photograph: known answers, and what is not compared."""

import numpy as np
import pytest
import torch

from imharness.contracts import near_duplicates
from imharness.data import COPY, by_looks, said_of_pairs, thumbnails


def scenes(count: int) -> list[torch.Tensor]:
    """Return smooth random images ``(1, 3, 48, 48)``."""
    rng = torch.Generator().manual_seed(0)
    small = torch.rand(count, 3, 6, 6, generator=rng)
    return list(torch.nn.functional.interpolate(small, (48, 48), mode="bicubic").clamp(0, 1).split(1))


def test_versions_are_found_and_flat_images_are_alike_to_none() -> None:
    one, other = scenes(2)
    noisy = (one + 0.05 * torch.randn(one.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1)
    flat = torch.full_like(one, 0.5)
    images = [one, other, one * 0.5 + 0.3, noisy, flat, flat]
    looks = by_looks("abcdef", lambda: thumbnails(images))
    assert looks.photographs == ["a", "b", "a", "a", "e", "f"]
    assert looks.sentence == "6 images look like 4 photographs, and count as so many, such as c like a"
    assert by_looks("ab", lambda: thumbnails([one, other])).sentence == ""


def test_copies_are_told_from_what_is_only_alike() -> None:
    one, _ = scenes(2)
    alike_only = (one + 0.15 * torch.randn(one.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1)
    images = thumbnails([one, alike_only, one.mul(255).round() / 255])
    assert by_looks("abc", lambda: images).photographs == ["a", "a", "a"]
    assert by_looks("abc", lambda: images, COPY).photographs == ["a", "b", "a"]


def test_too_many_images_are_not_compared_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_duplicates, "MOST", 2)

    def never() -> np.ndarray:
        raise AssertionError("thumbnails were computed")

    looks = by_looks("abc", never)
    assert looks.photographs == ["a", "b", "c"]
    assert looks.sentence == "3 images are too many to be compared, and count as so many photographs"


def test_images_that_look_like_another_reference_are_named() -> None:
    """If references are numbered differently by one, each image is compared with the reference of another."""
    references = thumbnails(scenes(4))
    noise = torch.Generator().manual_seed(1)
    images = thumbnails((x + 0.03 * torch.randn(x.shape, generator=noise)).clamp(0, 1) for x in scenes(4))
    pairs = [(f"x{i}", f"r{i}") for i in range(4)]
    assert said_of_pairs(pairs, images, references) == ""
    shifted = np.roll(images, 1, axis=0)
    assert said_of_pairs(pairs, shifted, references).startswith(
        "4 of 4 images look like another reference than their own, such as x0 like r3, and not like r0; are they"
    )
    strangers = thumbnails(scenes(8)[4:])
    assert said_of_pairs(pairs, strangers, references) == "", "references of other photographs on purpose"
