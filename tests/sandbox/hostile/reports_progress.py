"""Reports progress until it is stopped."""

from collections.abc import Callable, Mapping

import torch

from imharness.images import AttackInfo, Budget, FittedAttack, ImageRng, Images, Perturb, Target, hookimpl


class Hostile(FittedAttack):
    """Report progress without end."""

    info = AttackInfo(id="evil/reports-progress", version="1", access="white_box", norm="linf", strengths={"weak": {}})

    def budget(self) -> Budget:
        """Promise a radius."""
        return Budget(radius=0.1)

    def fit(
        self, images: Images, target: Target, rng: torch.Generator, progress: Callable[[int, int], None]
    ) -> dict[str, torch.Tensor]:
        """Report progress for ever, and train nothing."""
        while True:
            progress(1, 2)

    def build(self, device: torch.device, fitted: Mapping[str, torch.Tensor]) -> Perturb:
        """Return the attack."""

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            return images

        return perturb


@hookimpl
def components() -> list[FittedAttack]:
    """Offer the attack."""
    return [Hostile()]
