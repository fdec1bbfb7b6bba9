"""An attack that shuffles pixels by a fixed seed, and a defense of the same owner that restores their order."""

import torch

from imharness.images import (
    Attack,
    AttackInfo,
    DefenseInfo,
    ImageRng,
    Images,
    Perturb,
    Purification,
    Purifier,
    Target,
    hookimpl,
)

ROUGH = 0.15
"""The mean difference of neighbours above which an image counts as shuffled."""


def _order(count: int, device: torch.device) -> torch.Tensor:
    """Return the fixed permutation of `count` pixels that attack and defense share."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(7)).to(device)


class Judge(Attack):
    """Shuffles the pixels of each image."""

    info = AttackInfo(
        id="blind/shuffles-pixels",
        version="1",
        access="black_box",
        norm="unrestricted",
        strengths={"weak": {}, "medium": {}, "strong": {}},
    )

    def build(self, device: torch.device) -> Perturb:
        """Return the attack."""

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            flat = images.flatten(2)
            return flat[:, :, _order(flat.shape[2], images.device)].view_as(images)

        return perturb


class Friend(Purification):
    """Puts the pixels of rough images back."""

    info = DefenseInfo(id="blind/sorts-pixels", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        """Return the purifier."""

        def purify(images: Images, rng: ImageRng) -> Images:
            flat = images.flatten(2)
            back = flat[:, :, _order(flat.shape[2], images.device).argsort()].view_as(images)
            rough = (images[..., 1:] - images[..., :-1]).abs().flatten(1).mean(dim=1) > ROUGH
            return torch.where(rough[:, None, None, None], back, images)

        return purify


@hookimpl
def components() -> list[Attack | Purification]:
    """Offer both."""
    return [Judge(), Friend()]
