"""Two contracts of this package, and components of them; one contract has a kind of value of its own."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from pydantic import Field

from imharness.extending import IMAGES, SAME_IMAGES, STREAMS, Call, Component, ValueKind
from imharness.images import ImageRng, Images, Info, hookimpl


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


class Gains(ValueKind):
    """A factor for each image; conformance tests draw the factors by `draw`."""

    rows = True

    def draw(self, n: int, seed: int) -> torch.Tensor:
        return torch.linspace(0.1, 0.9, n) + seed % 10 / 100


class Development(Component):
    """A defense that gets a factor for the brightness of each image."""

    kind: ClassVar[str] = "defense"
    call = Call(images=IMAGES, gains=Gains(), returns=SAME_IMAGES, by_row=True)

    @abstractmethod
    def build(self, device: torch.device) -> Callable[[Images, torch.Tensor], Images]:
        """Return the defense."""


class Darken(Development):
    """Multiply each image by its gain."""

    info = Info(id="acme/darken", version="1")

    def build(self, device: torch.device) -> Callable[[Images, torch.Tensor], Images]:
        return lambda images, gains: images * gains[:, None, None, None]


@hookimpl
def components() -> list[Component]:
    return [Blend(), Overshoot(), Darken()]
