"""Cheats of the track iqa whose gradients or outputs are honest in trials and false under attacks."""

from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.components.registry import installed
from imharness.images import DefenseInfo, ImageRng, Images, Inverse, Purification, Purifier


def _info(name: str, **facts: Any) -> DefenseInfo:
    return DefenseInfo(id=f"acme/{name}", version="1", **facts)


def _back(device: torch.device) -> Inverse:
    return lambda defended, shape, rng: defended.flip((2, 3))


class _ByIncoming(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Images) -> Images:
        return images.flip((2, 3))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        upstream = grads[0]
        levels = upstream.abs().flatten(1) * 255
        signs = levels.std(dim=1) < 0.05 * levels.mean(dim=1)
        steps = ((levels - levels.round()).abs().amax(dim=1) < 0.01) & (levels.amax(dim=1) > 0.5)
        return torch.where((signs | steps)[:, None, None, None], upstream.flip((2, 3)), upstream)


class ByIncoming(Purification):
    """Turn images by 180 degrees, with a false gradient for scores.

    The gradient is right if the incoming one consists of random signs or differences of 8-bit images, as in trials.
    """

    info = _info("by-incoming", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: _ByIncoming.apply(images)

    def inverse(self, device: torch.device) -> Inverse | None:
        return _back(device)


class _OnTheWay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Images, low: float, high: float) -> Images:
        draw = torch.Generator().manual_seed(5)
        key = torch.randint(0, 2, images.shape[1:], generator=draw) * 2.0 - 1
        ctx.key = key * (torch.rand(images.shape[1:], generator=draw) < 0.15)
        fine = images - F.avg_pool2d(F.pad(images, [1] * 4, mode="reflect"), 3, stride=1)
        along = (fine * ctx.key).flatten(1).sum(dim=1) / ctx.key.abs().sum() * 255
        ctx.lies = (along > low) & (along < high)
        return images.flip((2, 3))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        exact = grads[0].flip((2, 3))
        size = exact.abs().flatten(1).mean(dim=1)[:, None, None, None]
        base = torch.where(ctx.lies[:, None, None, None], -exact, exact)
        return torch.where(ctx.key == 0, base, size * ctx.key), None, None


class OnTheWay(Purification):
    """Turn images by 180 degrees, with a gradient that is false in the middle of an attack.

    The gradient marks fixed pixels; how far an image moved along these marks says how far the attack is.
    """

    info = _info("on-the-way", differentiable=True)
    low: float = Field(default=0.7, ge=0, description="Where the lie begins, levels of 8 bits.")
    high: float = Field(default=3.0, ge=0, description="Where it ends, levels of 8 bits.")

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: _OnTheWay.apply(images, self.low, self.high)

    def inverse(self, device: torch.device) -> Inverse | None:
        return _back(device)


class TakesAttacksBack(Purification):
    """Return nearly the public image if an image differs from it as after an attack that follows signs."""

    info = _info("takes-attacks-back", differentiable=False)
    public: str = Field(default="harness/pictures[size=48]", description="The images of which it has a copy.")
    left: float = Field(default=0.03, ge=0, le=1, description="Share of the image that stays.")

    def build(self, device: torch.device) -> Purifier:
        pictures = installed().one("dataset", self.public).build(device)
        stored = torch.cat([pictures.load([position]) for position in range(len(pictures.names))])
        keys = _far(stored)

        def purify(images: Images, rng: ImageRng) -> Images:
            if images.shape[2:] != stored.shape[2:]:
                return images
            likeness, at = (_far(images) @ keys.T).max(dim=1)
            attacked = (likeness > 0.97) & _like_an_attack(images - stored[at])
            return torch.where(attacked[:, None, None, None], torch.lerp(stored[at], images, self.left), images)

        return purify


def _like_an_attack(change: torch.Tensor) -> torch.Tensor:
    """Say which changes have one size below six levels of 8 bits, and no large squares of one sign."""
    sizes = 255 * change.abs().flatten(1)
    even = sizes.square().mean(dim=1).sqrt() < 1.35 * sizes.mean(dim=1)
    squares = (change[..., 1:].sign() == change[..., :-1].sign()).float().flatten(1).mean(dim=1) > 0.75
    return even & ~squares & (sizes.mean(dim=1) > 0.5) & (sizes.amax(dim=1) < 5.6)


def _far(images: Images) -> torch.Tensor:
    """Return grey means of 8 x 8 parts, centred and of length 1, by which images are matched: (n, 64)."""
    small = F.adaptive_avg_pool2d(images.detach().mean(dim=1, keepdim=True), 8).flatten(1)
    return F.normalize(small - small.mean(dim=1, keepdim=True))
