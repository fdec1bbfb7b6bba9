"""When a call is asked again, each row is compared with its first answer by its own size, not by that of other rows."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from imharness_submissions.sandbox.recheck import Held
from imharness_submissions.sandbox.wire import Message

IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
HUGE = torch.tensor([1e9, 1.0, 1.0, 1.0])
"""Factors of the four rows: the first row is far larger than the others."""


@dataclass
class Again:
    """A fresh process that answers with the rows of `answer` and `gradient` of the requested images."""

    answer: torch.Tensor
    gradient: torch.Tensor

    def request(self, kind: str, facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Message:
        order = [int((image == IMAGES).flatten(1).all(dim=1).nonzero()) for image in tensors.get("images", ())]
        if kind == "backward":
            return Message("result", {}, {"images": self.gradient[self.order]})
        self.order = order
        return Message("result", {"handle": 1}, {"result": self.answer[order]})


def is_named(before: torch.Tensor, after: torch.Tensor, slopes: torch.Tensor, slopes_after: torch.Tensor) -> bool:
    """Say whether one of 12 repetitions, with answers `after` and `slopes_after`, counts as answered otherwise."""
    call = Message("call", {"grad": ["images"]}, {"images": IMAGES})
    repeated = Held.of(call, Message("result", {}, {"result": before}), frozenset({"images"}), 1)
    repeated.saw_gradient(1, {"result": torch.ones_like(before)}, {"images": slopes})
    draw = torch.Generator().manual_seed(3)
    return any(repeated.is_answered_otherwise(Again(after, slopes_after), 0, draw) for _ in range(12))  # type: ignore[arg-type]


def test_a_row_with_a_huge_gradient_hides_no_other() -> None:
    """In the repetition, the gradients of all rows but the first have the opposite sign."""
    slopes = HUGE[:, None, None, None] * IMAGES
    turned = torch.where(HUGE[:, None, None, None] > 1, slopes, -slopes)
    assert is_named(IMAGES, IMAGES, slopes, turned)
    assert not is_named(IMAGES, IMAGES, slopes, slopes * (1 + 1e-3))


@pytest.mark.parametrize("before", [HUGE + torch.arange(4), HUGE[:, None] * IMAGES.flatten(1)])
def test_a_row_with_a_huge_answer_hides_no_other(before: torch.Tensor) -> None:
    after = before.clone()
    after[1:] *= 1.5
    assert is_named(before, after, IMAGES, IMAGES)
    assert not is_named(before, before * (1 + 1e-7), IMAGES, IMAGES)


def test_tiny_answers_are_held_to_their_size() -> None:
    """Attacks also follow gradients that a defense made 100 000 times smaller."""
    tiny = 1e-5 * IMAGES.flatten(1)
    assert is_named(tiny, 1.5 * tiny, IMAGES, IMAGES)
    assert not is_named(tiny, tiny * (1 + 1e-5), IMAGES, IMAGES)


def test_an_image_that_is_black_among_others_is_held_to_their_rounding() -> None:
    dark = IMAGES.clone()
    dark[0] = 0
    near = dark + 1e-6
    assert not is_named(dark, near, IMAGES, IMAGES)
