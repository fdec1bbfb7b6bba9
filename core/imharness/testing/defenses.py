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
"""A change below half a level of 8 bits may move a result `LOUDER` times as far as a change by a whole one, and `LEAST`
more, as root mean squares. A linear defense moves .28 times as far, and one that rounds by at most half a level."""

COME_BACK, COPIES = 0.5, 4
"""The least share of a defended image's pixels that an inverse brings back, and how often it may copy one: the nearest
pixel of a rotation by 45 degrees brings 69 % back, and doubled sides copy each one four times."""
MORE_THAN_MOVES = "inverse does more than move pixels"


class PurificationProbe(Probe):
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
        """Follow changes of images through the defense, and back along the gradient that attacks read.

        Raises `ContractError` if they do not lead back to themselves, because then attacks are misled.
        """
        info, built, seeds = self.component.info, self.built, self.seeds(len(batch))
        read, surrogate = "its own gradient", built
        if not info.differentiable:
            lent = self._lent() if info.stand_in else None
            read = (
                f"the gradient of {info.stand_in}" if info.stand_in else "the identity, which stands for its gradient,"
            )
            surrogate = straight_through(built, None if lent is None else lent.build(CPU))

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
        """Return the stand-in, with the defense's own values of the fields that both have."""
        stand_in = installed().one("defense", self.component.info.stand_in)
        if not isinstance(stand_in, Purification) or not stand_in.info.differentiable:
            raise ContractError(
                f"stand_in {stand_in.info.id} is not a differentiable purification: attacks read its gradient"
            )
        fields = type(stand_in).model_fields
        return stand_in.with_parameters(**{n: value for n, value in self.component.model_dump().items() if n in fields})

    def _rounded(self) -> str:
        """Move images by less than half a level, and by a whole one: the former must not change more than the latter.

        All other images that a defense sees are of 8 bits, so one that knows them by that shows another function here.
        """
        batch, drawn, built = self.inputs(3)["images"], generator(self.seed + 3), self.built
        within = (0.98 * torch.rand(batch.shape, generator=drawn) - 0.49) / 255
        beside = torch.randn(batch.shape, generator=drawn).sign() / 255
        first, near, far = (
            self.tensor(built, {"images": x}, [1, 2, 3])
            for x in (batch, (batch + within).clamp(0, 1), storable(batch + beside))
        )
        half, whole = (float((x - first).square().mean().sqrt()) for x in (near, far))
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
        """Return the least share of pixels that come back; raises `ContractError` unless nothing else is done to them.

        First an image of codes is undone: no two values of it are equal, and pixels are numbered at random, because
        otherwise the mean of two neighbours would be the code of the pixel between them. A code that comes back says
        from which pixel and channel it was copied: all channels must say the same pixel, and all pixels the same order
        of channels. Then what the defense returned, as it is and half as bright, must come back from these, with the
        same border where none was copied.
        """
        batch, seeds = self.inputs(n, height, width)["images"], self.seeds(n)
        moved, shape = self.tensor(self.built, {"images": batch}, seeds), tuple(batch.shape[1:])
        pixels = moved[0, 0].numel()
        order = torch.stack([torch.randperm(pixels, generator=generator(self.seed + i)) for i in range(n)])
        last = 3 * pixels + 1  # codes are 1/last to 3 pixels/last: the order of the pixel, then the channel
        codes = (3 * order[:, None] + torch.arange(3)[:, None] + 1) / last
        back = undo(codes.view_as(moved).to(moved), shape, ImageRng(seeds)).flatten(2).double() * last - 1
        channel = back.round().remainder(3)
        origin = (back.round() - channel) / 3
        copied = ((back - back.round()).abs() < 0.25) & (origin >= 0) & (origin < pixels)
        channels = channel.gather(2, copied.int().argmax(dim=2, keepdim=True))
        strays = copied & ((origin != origin[:, :1]) | (channel != channels))
        lost = copied.any(dim=1) & (channels.sort(dim=1).values != torch.arange(3)[:, None]).any(dim=1)
        if not torch.equal(copied, copied[:, :1].expand_as(copied)) or bool(strays.any()) or bool(lost.any()):
            raise ContractError(f"{MORE_THAN_MOVES}: a pixel comes back in parts, or mixed with others")
        at = order.argsort(dim=1).gather(1, origin[:, 0].where(copied[:, 0], 0).long())
        copies = torch.zeros(n, pixels).scatter_add_(1, at, copied[:, 0].float())
        least = float((copies > 0).float().mean(dim=1).min())
        if least < COME_BACK or float(copies.max()) > COPIES:
            raise ContractError(
                f"{MORE_THAN_MOVES}: {least:.0%} of the pixels come back, one of them {int(copies.max())} times; at "
                f"least {COME_BACK:.0%} must, each at most {COPIES} times"
            )
        for share in (1.0, 0.5):
            image = share * moved
            swapped = image.flatten(2).gather(1, channels.long().expand(-1, -1, pixels))
            expected = swapped.gather(2, at[:, None].expand(-1, 3, -1))
            result = undo(image, shape, ImageRng(seeds)).flatten(2)
            border = (back.float() + 1) / last
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
        first = self.tensor(built, {"images": batch}, self.seeds(6))
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
