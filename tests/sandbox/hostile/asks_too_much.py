"""Queries its target ten times although it declared three queries, and suppresses the error."""

import contextlib

import torch

from imharness.errors import HarnessError
from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl


class Hostile(Attack):
    """Ask its target more often than it may, and hide that it was refused."""

    info = AttackInfo(id="evil/asks-too-much", version="1", access="black_box", norm="linf", strengths={"weak": {}})

    def budget(self) -> Budget:
        """Promise three queries."""
        return Budget(radius=0.1, queries=3)

    def build(self, device: torch.device) -> Perturb:
        """Return the attack."""

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            with contextlib.suppress(HarnessError):
                for _ in range(10):
                    target(images)
            return images

        return perturb


@hookimpl
def components() -> list[Attack]:
    """Offer the attack."""
    return [Hostile()]
