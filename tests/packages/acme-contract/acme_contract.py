"""Defenses that clean an image by the help of another one: a contract of this package, and components of it."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from pydantic import Field

from imharness.images import Component, ImageRng, Images, Info, hookimpl
from imharness.tracks import IMAGES, SAME_IMAGES, STREAMS, Call


class GuidedCleaning(Component):
    """A defense that is shown a second image of the same scene."""

    kind: ClassVar[str] = "defense"
    call = Call(images=IMAGES, guide=IMAGES, rng=STREAMS, returns=SAME_IMAGES, by_row=True)

    @abstractmethod
    def build(self, device: torch.device) -> Callable[[Images, Images, ImageRng], Images]:
        """Return the defense."""


class Blend(GuidedCleaning):
    """Mix the image with its guide."""

    info = Info(id="acme/blend", version="1")
    share: float = Field(default=0.5, ge=0, le=1, description="Of the guide.")

    def build(self, device: torch.device) -> Callable[[Images, Images, ImageRng], Images]:
        return lambda images, guide, rng: (1 - self.share) * images + self.share * guide


class Overshoot(Blend):
    """Leave the range of images, against the contract."""

    info = Info(id="acme/overshoot", version="1")

    def build(self, device: torch.device) -> Callable[[Images, Images, ImageRng], Images]:
        return lambda images, guide, rng: images + guide + 1


@hookimpl
def components() -> list[GuidedCleaning]:
    return [Blend(), Overshoot()]
