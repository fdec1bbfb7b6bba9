"""The checks of the defenses of a metric: purifications and certifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from imharness.components.registry import installed
from imharness.contracts.call import checked
from imharness.contracts.certification import Certification
from imharness.contracts.purification import Inverse, Purification
from imharness.contracts.randomness import ImageRng, generator
from imharness.contracts.values import Images
from imharness.errors import ContractError
from imharness.running.projections import follow
from imharness.running.target import Purify, storable, straight_through
from imharness.testing import samples
from imharness.testing.probe import CPU, Inputs, OwnCheck, Probe, check_gradient

LOUDER, LEAST = 2.0, 0.5 / 255
"""By how much a change of images may change results. A change of less than half a level of 8 bits may change them
`LOUDER` times as much as a change of a whole level, plus `LEAST`, as root mean squares. A linear defense changes .28
times as much, and one that rounds images by at most half a level."""

COME_BACK, COPIES = 0.5, 4
"""The least share of a defended image's pixels that an inverse brings back, and how often it may copy one pixel. The
inverse of a rotation by 45 degrees (nearest pixel) brings 69 % back; that of halving both sides copies each pixel four
times."""
MORE_THAN_MOVES = "inverse does more than move pixels"


class PurificationProbe(Probe):
    """Calls a purification with random images."""

    component: Purification
    attacked = True

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "is random if and only if it says so", self._random
        yield "is differentiable if and only if it says so", self._differentiable
        yield "answers alike for images that one file of 8 bits holds", self._rounded
        if self.component.info.stand_in:
            yield "names a stand-in that has a gradient", self._stand_in
        if type(self.component).inverse is not Purification.inverse:
            yield "moves pixels back to images of the first shape", self._inverse

    def _random(self) -> None:
        built, inputs = self.built, self.inputs(2, 300, 280)
        same = torch.equal(self.tensor(built, inputs, [1, 2]), self.tensor(built, inputs, [4, 5]))
        if same == self.component.info.random:
            says = "random" if self.component.info.random else "not random"
            raise ContractError(f"info says {says}, but other seeds give {'the same' if same else 'another'} result")

    def _differentiable(self) -> str:
        built, batch = self.built, self.inputs(2)["images"]

        def mean(images: torch.Tensor) -> torch.Tensor:
            return self.tensor(built, {"images": images}, [1, 2]).mean()

        message = check_gradient(mean, batch, self.component.info.differentiable)
        return f"{message}; {self._followed(batch)}"

    def _followed(self, batch: Images) -> str:
        """Compare the gradient that attacks read with what the defense does, see `imharness.running.projections`.

        Raises `ContractError` if the gradient misleads attacks.
        """
        info, built, seeds = self.component.info, self.built, self.seeds(len(batch))
        if info.differentiable:
            read, surrogate = "its own gradient", built
        elif info.stand_in:
            read = f"the gradient of {info.stand_in}"
            surrogate = straight_through(built, self._lent().build(CPU))
        else:
            read = "the identity, which stands for its gradient,"
            surrogate = straight_through(built)

        def through(purify: Purify) -> Callable[[Images], Images]:
            return lambda images: purify(images, ImageRng(seeds))

        followed = follow(through(built), through(surrogate), batch, ImageRng(seeds), own_gradient=info.differentiable)
        cosine = float(followed.cosine.nanmean())
        if float(followed.misled.mean()) > 0:
            raise ContractError(
                f"{read} misleads attacks: small changes of images do not lead back to themselves (cosine "
                f"{cosine:.2f}); a defense that moves pixels needs its own gradient, or a stand-in that moves them, too"
            )
        return f"changes lead back with a cosine of {cosine:.2f}"

    def _lent(self) -> Purification:
        """Return the stand-in, whose gradient attacks read; fields that both have are set as in the defense."""
        stand_in = installed().one("defense", self.component.info.stand_in)
        if not isinstance(stand_in, Purification) or not stand_in.info.differentiable:
            raise ContractError(
                f"stand_in {stand_in.info.id} is not a differentiable purification: attacks read its gradient"
            )
        fields = type(stand_in).model_fields
        return stand_in.with_parameters(**{n: value for n, value in self.component.model_dump().items() if n in fields})

    def _rounded(self) -> str:
        """Change images by less than half a level of 8 bits, and by a whole level; results may change by little more.

        All other images that a defense gets here have 8 bits. A defense that recognises them by that, and does
        something else to other images, shows itself here.
        """
        batch, drawn, built = self.inputs(3)["images"], generator(self.seed + 3), self.built
        below_half = (0.98 * torch.rand(batch.shape, generator=drawn) - 0.49) / 255
        whole_level = torch.randn(batch.shape, generator=drawn).sign() / 255
        first, after_half, after_whole = (
            self.tensor(built, {"images": x}, [1, 2, 3])
            for x in (batch, (batch + below_half).clamp(0, 1), storable(batch + whole_level))
        )
        half, whole = (float((x - first).square().mean().sqrt()) for x in (after_half, after_whole))
        if half > LOUDER * whole + LEAST:
            raise ContractError(
                f"a change of less than half a level of 8 bits moves the result by {half:.3g}, one of a whole level "
                f"by {whole:.3g}: images of 8 bits get another function than others"
            )
        return f"the result moves by {half:.2g}, and by {whole:.2g} for a whole level"

    def _stand_in(self) -> str:
        return self._lent().info.id

    def _inverse(self) -> str:
        undo = checked(self.component, self.component.inverse(CPU), "inverse")
        if undo is None:
            return "nothing to undo"
        shares = [self._moves(undo, *size) for size in self.sizes]
        return f"{min(shares):.0%} of the pixels come back, each as it was"

    def _moves(self, undo: Inverse, n: int, height: int, width: int) -> float:
        """Check that an inverse only moves pixels; return the least share of pixels that come back.

        Raises `ContractError` unless each pixel of its result is a copy of one pixel, or belongs to a border that is
        the same for every image. The inverse is first called with an image of codes, in which every value is different:
        the code of a value says from which pixel and channel it was copied. Then it is called with what the defense
        returned, as it is and half as bright, and must copy the same pixels.
        """
        batch, seeds = self.inputs(n, height, width)["images"], self.seeds(n)
        defended, shape = self.tensor(self.built, {"images": batch}, seeds), tuple(batch.shape[1:])
        pixels = defended[0, 0].numel()

        # 1. The image of codes. Code k is the value (k + 1) / last; k is 3 times the number of the pixel, plus the
        # channel. Pixels are numbered at random: else the mean of two neighbours would be the code of a third one.
        number_of_pixel = torch.stack([torch.randperm(pixels, generator=generator(self.seed + i)) for i in range(n)])
        last = 3 * pixels + 1
        codes = (3 * number_of_pixel[:, None] + torch.arange(3)[:, None] + 1) / last  # (n, 3, pixels)
        coded = codes.view_as(defended).to(defended)
        back = undo(coded, shape, ImageRng(seeds)).flatten(2).double() * last - 1  # (n, 3, pixels of the first shape)

        # 2. Read the codes that come back. What is no code belongs to the border.
        channel = back.round().remainder(3)
        number = (back.round() - channel) / 3
        copied = ((back - back.round()).abs() < 0.25) & (number >= 0) & (number < pixels)
        channel_order = channel.gather(2, copied.int().argmax(dim=2, keepdim=True))  # of the first copied pixel
        same_in_all_channels = torch.equal(copied, copied[:, :1].expand_as(copied))
        is_mixed = copied & ((number != number[:, :1]) | (channel != channel_order))
        lacks_channel = copied.any(dim=1) & (channel_order.sort(dim=1).values != torch.arange(3)[:, None]).any(dim=1)
        if not same_in_all_channels or bool(is_mixed.any()) or bool(lacks_channel.any()):
            raise ContractError(f"{MORE_THAN_MOVES}: a pixel comes back in parts, or mixed with others")

        # 3. How many pixels come back, and how often each.
        pixel_of_number = number_of_pixel.argsort(dim=1)
        origin = pixel_of_number.gather(1, number[:, 0].where(copied[:, 0], 0).long())
        copies = torch.zeros(n, pixels).scatter_add_(1, origin, copied[:, 0].float())
        least = float((copies > 0).float().mean(dim=1).min())
        if least < COME_BACK or float(copies.max()) > COPIES:
            raise ContractError(
                f"{MORE_THAN_MOVES}: {least:.0%} of the pixels come back, one of them {int(copies.max())} times; at "
                f"least {COME_BACK:.0%} must, each at most {COPIES} times"
            )

        # 4. Real images: the same pixels have to be copied, and the border has to be the same.
        border = (back.float() + 1) / last
        for brightness in (1.0, 0.5):
            image = brightness * defended
            reordered = image.flatten(2).gather(1, channel_order.long().expand(-1, -1, pixels))
            expected = reordered.gather(2, origin[:, None].expand(-1, 3, -1))
            result = undo(image, shape, ImageRng(seeds)).flatten(2)
            if float((result - expected.where(copied, border)).abs().max()) > 1e-4:
                raise ContractError(f"{MORE_THAN_MOVES}: what it does to pixels depends on the image")
        return least


class CertificationProbe(Probe):
    """Smooths a metric that is the mean grey level of an image."""

    component: Certification
    sizes = ((2, 32, 32), (1, 35, 33))

    def __init__(self, component: Any, seed: int) -> None:
        super().__init__(component, seed)
        self.by_row = True

    def build(self, component: Any, device: torch.device = CPU) -> Any:
        noisy = component.noisy()
        return checked(noisy, noisy.smooth(device), "smooth"), checked(component, component.build(device))

    def inputs(self, n: int, height: int = 32, width: int = 32) -> Inputs:
        return {"images": samples.images(n, height, width, self.seed + n)}

    def picked(self, inputs: Inputs, rows: Sequence[int]) -> Inputs:
        return {"images": inputs["images"][list(rows)]}

    def with_copies(self, inputs: Inputs) -> Inputs:
        return {"images": samples.beside_near_copies(inputs["images"], self.seed)}

    def call(self, built: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> Any:
        smooth, certify = built
        return certify(smooth(_grey, inputs["images"], ImageRng(seeds, device)), (0.0, 1.0))

    def check(self, result: Any, inputs: Inputs, seeds: Sequence[int], device: torch.device = CPU) -> None:
        """Do nothing, because the built functions are already checked."""

    def flat(self, result: Any, inputs: Inputs) -> torch.Tensor:
        columns = [result.value, result.radius, result.delta, result.abstained.float()]
        return torch.stack(columns, dim=1).nan_to_num(-1.0)

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "keeps its promise within the radius", self._promise

    def _promise(self) -> str:
        """Move images by 99 % of the promised radius along random directions: the smoothed value must stay, to 1e-6."""
        built, batch = self.built, self.inputs(6)["images"]
        first = self.tensor(built, {"images": batch}, self.seeds(6))  # columns: value, radius, delta, abstained
        radius = first[:, 1].clamp(min=0)
        certified = (first[:, 3] == 0) & (radius > 0)
        if not bool(certified.any()):
            return "no radius was promised"
        direction = F.normalize(torch.randn(batch.shape, generator=generator(self.seed + 5)).flatten(1), dim=1)
        moved = batch + (0.99 * radius[:, None] * direction).view_as(batch)
        second = self.tensor(built, {"images": moved}, [s + 500 for s in self.seeds(6)])
        broken = certified & (second[:, 3] == 0) & ((second[:, 0] - first[:, 0]).abs() > 1e-6)
        if bool(broken.any()):
            raise ContractError(f"the class of {int(broken.sum())} images changed inside the certified radius")
        return f"{int(certified.sum())} promises held"


def _grey(images: torch.Tensor) -> torch.Tensor:
    return images.flatten(1).mean(dim=1)
