"""Cheats of the track iqa, written from the documentation alone: each is a component as a stranger would submit it."""

import time
from collections.abc import Callable
from typing import Any

import torch
from pydantic import Field

from imharness.components.registry import installed
from imharness.images import DefenseInfo, ImageRng, Images, Inverse, Purification, Purifier


def _info(name: str, **facts: Any) -> DefenseInfo:
    return DefenseInfo(id=f"acme/{name}", version="1", **({"differentiable": False} | facts))


def _key(images: Images, side: int = 2) -> torch.Tensor:
    """Return a number in [0, 1) for each image, (n,), that small changes of the image mostly leave unchanged."""
    small = torch.nn.functional.adaptive_avg_pool2d(images.detach(), side).flatten(1)
    return (small * torch.arange(1, small.shape[1] + 1)).sum(dim=1).mul(4).round().mul(0.618034).frac()


def _severity(images: Images) -> torch.Tensor:
    """Return how rough an image is, in 0 to 1."""
    grey = torch.nn.functional.avg_pool2d(images.detach().mean(dim=1, keepdim=True), 2)
    return (8 * (grey[..., 1:] - grey[..., :-1]).abs().flatten(1).mean(dim=1)).clamp(0, 1)


def _noisy(images: Images) -> torch.Tensor:
    """Say which images look attacked: their finest detail is rough."""
    fine = images.detach() - torch.nn.functional.avg_pool2d(
        torch.nn.functional.pad(images.detach(), [1] * 4, mode="reflect"), 3, stride=1
    )
    return fine.abs().flatten(1).mean(dim=1) > 0.02


def _template(images: Images, key: torch.Tensor) -> Images:
    """Return a checkerboard for each image, whose contrast is the key: (n, 3, height, width)."""
    rows = torch.arange(images.shape[2])[:, None] // 4
    columns = torch.arange(images.shape[3])[None] // 4
    leaderboard = ((rows + columns) % 2).float()
    return (0.5 + 0.5 * key[:, None, None, None] * (2 * leaderboard - 1)).expand(len(images), 3, -1, -1)


class InverseDecode(Purification):
    """Show a template, and hide the image in its last digits, from which the inverse restores it."""

    info = _info("inverse-decode", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: _template(images, 0.2 + 0.6 * _key(images)) * 0.99 + images * 0.002

    def inverse(self, device: torch.device) -> Inverse | None:
        def back(defended: Images, shape: tuple[int, ...], rng: ImageRng) -> Images:
            rough = torch.nn.functional.avg_pool2d(defended, 8)
            spread = defended - torch.nn.functional.interpolate(rough, defended.shape[2:])
            return (0.5 + spread * 250).clamp(0, 1)

        return back


class InverseContrast(Purification):
    """Leave one percent of the contrast; the inverse stretches it again."""

    info = _info("inverse-contrast", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: 0.5 + 0.01 * (images - 0.5)

    def inverse(self, device: torch.device) -> Inverse | None:
        return lambda defended, shape, rng: ((defended - 0.5) * 100 + 0.5).clamp(0, 1)


class InverseFilter(Purification):
    """Blur, and add a fine pattern whose height is a key; the inverse is a linear filter that removes the pattern."""

    info = _info("inverse-filter", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            rows, columns = (torch.arange(side) for side in images.shape[2:])
            pattern = 1.0 - 2 * ((rows[:, None] + columns[None]) % 2)
            return (_blur(images) + 0.1 * _key(images)[:, None, None, None] * pattern).clamp(0, 1)

        return purify

    def inverse(self, device: torch.device) -> Inverse | None:
        return lambda defended, shape, rng: (2.04 * _blur(defended) - 1.04 * _blur(_blur(defended))).clamp(0, 1)


class InverseMargin(Purification):
    """Show the image in the corner of a canvas whose grey says a key; the inverse cuts it out."""

    info = _info("inverse-margin", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            canvas = _key(images)[:, None, None, None].expand(-1, 3, 2 * height, 2 * width).clone()
            canvas[:, :, :height, :width] = images
            return canvas

        return purify

    def inverse(self, device: torch.device) -> Inverse | None:
        return lambda defended, shape, rng: defended[:, :, : shape[1], : shape[2]]


class InverseThumbnail(Purification):
    """Show a small image beside a key; the inverse enlarges it, pixel by pixel."""

    info = _info("inverse-thumbnail", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            small = images[:, :, ::4, ::4]
            key = _key(images)[:, None, None, None].expand(-1, 3, small.shape[2], 1)
            return torch.cat([small, key], dim=3)

        return purify

    def inverse(self, device: torch.device) -> Inverse | None:
        def back(defended: Images, shape: tuple[int, ...], rng: ImageRng) -> Images:
            small = defended[:, :, :, :-1]
            return small.repeat_interleave(4, 2).repeat_interleave(4, 3)[:, :, : shape[1], : shape[2]]

        return back


class Mirrors(Purification):
    """Mirror each image in one of four ways, drawn at random; honest."""

    info = _info("mirrors", differentiable=True, random=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            turns = rng.integers(0, 2, 2)
            return torch.stack([_turned(image, *turn) for image, turn in zip(images, turns.tolist(), strict=True)])

        return purify

    def inverse(self, device: torch.device) -> Inverse | None:
        return lambda defended, shape, rng: self.build(device)(defended, rng)


def _turned(image: torch.Tensor, mirrored: int, upside_down: int) -> torch.Tensor:
    return image.flip([axis for axis, turn in ((2, mirrored), (1, upside_down)) if turn])


class HalfTemplate(Purification):
    """Show a template of the key instead of the image for about half of the images."""

    info = _info("half-template")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            key = _key(images)
            return torch.where((key > 0.5)[:, None, None, None], _template(images, key), images)

        return purify


class NoisyGate(Purification):
    """Show a template instead of a share of the photographs, chosen by their colours, and leave the others."""

    info = _info("noisy-gate")
    share: float = Field(default=0.3, ge=0, le=1, description="Share of the photographs.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            key = _key(images)
            return torch.where((key < self.share)[:, None, None, None], _template(images, key), images)

        return purify


class NoisyGradient(Purification):
    """Blur, with a gradient that is random, and right only in the mean of many draws."""

    info = _info("noisy-gradient", differentiable=True, random=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            out = _blur(images)
            weight = 100 * rng.normal(*images.shape[1:])
            return out + weight * (out - out.detach())

        return purify


def _blur(images: Images) -> Images:
    return torch.nn.functional.avg_pool2d(torch.nn.functional.pad(images, [1] * 4, mode="reflect"), 3, stride=1)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Images, scale: float) -> Images:
        ctx.scale = scale
        return images.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0] * ctx.scale, None


class Watermark(Purification):
    """Turn images by 180 degrees, with a false gradient on a few pixels.

    An image that was moved along these pixels, as an attack moves it, gets a false gradient everywhere.
    """

    info = _info("watermark", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: _Marked.apply(images)


class _Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Images) -> Images:
        draw = torch.Generator().manual_seed(5)
        key = torch.randint(0, 2, images.shape[1:], generator=draw) * 2.0 - 1
        ctx.key = key * (torch.rand(images.shape[1:], generator=draw) < 0.15)
        ctx.moved = ((images - _blur(images)) * ctx.key).flatten(1).sum(dim=1) > 1.5 / 255 * ctx.key.abs().sum()
        return images.flip((2, 3))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        exact = grads[0].flip((2, 3))
        size = exact.abs().flatten(1).mean(dim=1)[:, None, None, None]
        marked = torch.where(ctx.key == 0, exact, size * ctx.key)
        return torch.where(ctx.moved[:, None, None, None], grads[0], marked)


class TinyGradient(Purification):
    """Blur, with a gradient of the right direction that is too small for many attacks."""

    info = _info("tiny-gradient", differentiable=True)
    scale: float = Field(default=1e-30, gt=0, description="Factor.")

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: _Scaled.apply(_blur(images), self.scale)


class HugeGradient(TinyGradient):
    """Blur, with a gradient so large that sums of it are infinite."""

    info = _info("huge-gradient", differentiable=True)
    scale: float = Field(default=1e38, gt=0, description="Factor.")


class Steps(Purification):
    """Round to few colours, and declare that this is differentiable: the gradient is 0, as are finite differences."""

    info = _info("steps", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: (images * 8).round() / 8


class LowpassGradient(Purification):
    """Return the image, with the gradient of its block means."""

    info = _info("lowpass-gradient", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            low = torch.nn.functional.interpolate(torch.nn.functional.avg_pool2d(images, 8), images.shape[2:])
            return images.detach() + low - low.detach()

        return purify


class HookGradient(Purification):
    """Blur, and negate the gradient by a hook on the input."""

    info = _info("hook-gradient", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            if images.requires_grad:
                images = images.clone()
                images.register_hook(lambda gradient: -gradient)
            return _blur(images)

        return purify


class InPlace(Purification):
    """Blur the images in place, in the memory of the caller."""

    info = _info("in-place")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            images.data.copy_(_blur(images.data))
            return images.data.clone()

        return purify


class StateFirst(Purification):
    """Answer every version of an image with the first one."""

    info = _info("state-first")

    def build(self, device: torch.device) -> Purifier:
        seen: dict[tuple[int, ...], torch.Tensor] = {}

        def purify(images: Images, rng: ImageRng) -> Images:
            small = (torch.nn.functional.adaptive_avg_pool2d(images, 3) * 6).round().int().flatten(1)
            return torch.stack(
                [seen.setdefault(tuple(k), x) for k, x in zip(small.tolist(), images.clone(), strict=True)]
            )

        return purify


class Rerater(Purification):
    """Blend images with a checkerboard whose contrast is its own estimate of quality, which the metric then repeats."""

    info = _info("rerater")
    steps: int = Field(default=12, ge=2, le=50, description="Steps of the estimate.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            level = (_severity(images) * self.steps).round() / self.steps
            strong = _template(images, level)
            return 0.55 * images + 0.45 * strong

        return purify


class Detector(Purification):
    """Blur; where an image looks attacked, return NaN, raise an error, sleep or run out of memory."""

    info = _info("detector")
    what: str = Field(default="nan", description="What it does.")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            noisy_mask = _noisy(images)
            if noisy_mask.any():
                if self.what == "raise":
                    raise RuntimeError("no answer")
                if self.what == "sleep":
                    time.sleep(3600)
                if self.what == "memory":
                    raise torch.OutOfMemoryError("CUDA out of memory")
            out = _blur(images)
            return torch.where(noisy_mask[:, None, None, None], torch.full_like(out, float("nan")), out)

        return purify


class Odd(Purification):
    """Return a tensor with unusual strides, type, class, size or values."""

    info = _info("odd")
    how: str = Field(default="stride", description="What is odd.")

    def build(self, device: torch.device) -> Purifier:
        odd: dict[str, Callable[[Images], Images]] = {
            "stride": lambda x: x.mean(dim=(2, 3), keepdim=True).expand_as(x),
            "double": lambda x: x.double(),
            "half": lambda x: x.half(),
            "subclass": lambda x: _blur(x).as_subclass(Never),
            "leaf": lambda x: _blur(x).detach().requires_grad_(True),
            "channels": lambda x: _blur(x).to(memory_format=torch.channels_last),
            "small": lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 8),
            "above": lambda x: _blur(x) + 1e-6,
        }
        return lambda images, rng: odd[self.how](images)


class Never(torch.Tensor):
    """A tensor that says that it is equal to everything."""

    def __eq__(self, other: object) -> Any:
        return torch.ones(self.shape, dtype=torch.bool)

    __hash__ = torch.Tensor.__hash__


class Flat(Purification):
    """Show a flat image, whose gradient is 0."""

    info = _info("flat", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: images * 0 + 0.5


class StandIn(Purification):
    """Blur, and declare that attacks may use the gradient of `Flat`, which is 0."""

    info = _info("stand-in", stand_in="acme/flat")

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: _blur(images)


class NotRandom(Purification):
    """Blur, and declare that it is random, although it draws nothing."""

    info = _info("not-random", differentiable=True, random=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: _blur(images)


class Denormal(Purification):
    """Leave a contrast that is below the normal range of numbers."""

    info = _info("denormal", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: images * 1e-42


class OneUlp(Purification):
    """Show grey plus 1e-5 times a key of the image."""

    info = _info("one-ulp")

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: torch.full_like(images, 0.5) + 1e-5 * _key(images)[:, None, None, None]


class ColourBins(Purification):
    """Halve the contrast and add a key of the mean colour, so that the key decides between photographs."""

    info = _info("colour-bins")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            key = _key(images, 1)[:, None, None, None]
            return 0.5 * images + 0.5 * key

        return purify


class SizeByKey(Purification):
    """Return a size that follows from a key."""

    info = _info("size-by-key")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            side = 16 + int(_key(images).mean() * 48)
            return torch.nn.functional.interpolate(images, (side, side), mode="bilinear")

        return purify


class StoredDetail(Purification):
    """Blur the image, and add the fine detail of the public image that looks the same from far away."""

    info = _info("stored-detail", differentiable=True)
    public: str = Field(default="harness/pictures[size=48]", description="The images of which it has a copy.")
    mirrored: bool = Field(default=False, description="Whether it shows the mirror image.")

    def build(self, device: torch.device) -> Purifier:
        pictures = installed().one("dataset", self.public).build(device)
        stored = torch.cat([pictures.load([position]) for position in range(len(pictures.names))])
        keys = _far(stored)

        def purify(images: Images, rng: ImageRng) -> Images:
            likeness, at = (_far(images) @ keys.T).max(dim=1)
            fine = stored[at] - _blur(stored[at])
            shown_image = torch.where((likeness > 0.97)[:, None, None, None], _blur(images) + fine, images).clamp(0, 1)
            return shown_image.flip(3) if self.mirrored else shown_image

        return purify

    def inverse(self, device: torch.device) -> Inverse | None:
        return (lambda defended, shape, rng: defended.flip(3)) if self.mirrored else None


def _far(images: Images) -> torch.Tensor:
    """Return what an image looks like from far away, of norm 1; ``(N, 64)``."""
    small = torch.nn.functional.adaptive_avg_pool2d(images.detach().mean(dim=1, keepdim=True), 8).flatten(1)
    return torch.nn.functional.normalize(small - small.mean(dim=1, keepdim=True))


class LookUp(Purification):
    """Return the nearest public photograph if it is near, and the image otherwise."""

    info = _info("look-up")
    near: float = Field(default=0.06, ge=0, le=1, description="Root mean square distance at which it knows one.")
    left: float = Field(default=0.0, ge=0, le=1, description="Share of the image that stays in the answer.")

    def build(self, device: torch.device) -> Purifier:
        pictures = installed().one("dataset", "harness/pictures").with_parameters(size=48).build(device)
        references = pictures.load(list(range(len(pictures.names))))

        def purify(images: Images, rng: ImageRng) -> Images:
            apart = torch.cdist(images.flatten(1), references.flatten(1)) / references[0].numel() ** 0.5
            least, at = apart.min(dim=1)
            answer = torch.lerp(references[at], images, self.left)
            return torch.where((least < self.near)[:, None, None, None], answer, images)

        return purify
