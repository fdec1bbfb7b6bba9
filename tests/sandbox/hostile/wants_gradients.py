"""Declares black-box access, and asks for gradients all the same."""

import torch

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl


class Hostile(Attack):
    """Say black box and ask for gradients."""

    info = AttackInfo(id="evil/wants-gradients", version="1", access="black_box", norm="linf", strengths={"weak": {}})

    def budget(self) -> Budget:
        """Promise a radius."""
        return Budget(radius=0.1)

    def build(self, device: torch.device) -> Perturb:
        """Return the attack."""

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            target.differentiable = True
            leaf = images.clone().requires_grad_(True)
            (gradient,) = torch.autograd.grad(target(leaf).sum(), leaf)
            return (images + 0.1 * gradient.sign()).clamp(0, 1)

        return perturb


@hookimpl
def components() -> list[Attack]:
    """Offer the attack."""
    return [Hostile()]
