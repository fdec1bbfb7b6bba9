"""Cheats of the track reconstruction, written from the documentation alone."""

import torch
from pydantic import Field

from imharness.gradients import (
    GradientDefense,
    Gradients,
    ImagePool,
    ImageProtection,
    ImageRng,
    Images,
    Info,
    ProtectGradients,
    ProtectImages,
)


class PoolSwap(ImageProtection):
    """Share the gradient of another image of the same class from the participant's pool."""

    info = Info(id="acme/pool-swap", version="1")

    def build(self, device: torch.device) -> ProtectImages:
        def protect(
            images: Images, targets: torch.Tensor, pool: ImagePool, rng: ImageRng
        ) -> tuple[Images, torch.Tensor]:
            same = pool.targets.argmax(1)[None] == targets.argmax(1)[:, None]
            drawn = torch.where(same, rng.uniform(len(pool.images)), -1.0).argmax(dim=1)
            return pool.images[drawn], targets

        return protect


class ShiftImage(ImageProtection):
    """Roll every image by five pixels: people recognise it, although every pixel moves."""

    info = Info(id="acme/shift-image", version="1")

    def build(self, device: torch.device) -> ProtectImages:
        return lambda images, targets, pool, rng: (images.roll((5, 5), (2, 3)), targets)


class NegativeImage(ImageProtection):
    """Replace images by their negatives."""

    info = Info(id="acme/negative-image", version="1")

    def build(self, device: torch.device) -> ProtectImages:
        return lambda images, targets, pool, rng: (1 - images, targets)


class MirrorImage(ImageProtection):
    """Mirror every image."""

    info = Info(id="acme/mirror-image", version="1")

    def build(self, device: torch.device) -> ProtectImages:
        return lambda images, targets, pool, rng: (images.flip(3), targets)


class Delay(GradientDefense):
    """Share the gradient of the call before."""

    info = Info(id="acme/delay", version="1")

    def build(self, device: torch.device) -> ProtectGradients:
        history: list[Gradients] = []

        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            history.append({name: g.clone() for name, g in gradients.items()})
            before = history[max(0, len(history) - 2)]
            return before if all(before[n].shape == g.shape for n, g in gradients.items()) else gradients

        return protect


class BatchMix(GradientDefense):
    """Share the mean of the batch in place of each gradient."""

    info = Info(id="acme/batch-mix", version="1")

    def build(self, device: torch.device) -> ProtectGradients:
        return lambda gradients, rng: {n: g.mean(dim=0, keepdim=True).expand_as(g) for n, g in gradients.items()}


class SelectiveNoise(GradientDefense):
    """Share noise in place of large gradients, and others as they are."""

    info = Info(id="acme/selective-noise", version="1")
    above: float = Field(default=1.0, gt=0, description="Norm from which on.")

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            norm = torch.stack([g.flatten(1).square().sum(dim=1) for g in gradients.values()]).sum(dim=0).sqrt()
            return {
                n: torch.where((norm > self.above).view(-1, *[1] * (g.ndim - 1)), rng.normal(*g.shape[1:]) * 0.1, g)
                for n, g in gradients.items()
            }

        return protect


class Permuted(GradientDefense):
    """Permute the coordinates of each layer by a fixed key."""

    info = Info(id="acme/permuted", version="1")

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            def mixed(g: torch.Tensor) -> torch.Tensor:
                order = torch.randperm(g[0].numel(), generator=torch.Generator().manual_seed(1))
                return g.flatten(1)[:, order].view_as(g)

            return {n: mixed(g) for n, g in gradients.items()}

        return protect


class Sharing(GradientDefense):
    """Share noise instead of gradients of norm above 1, and leave those that are clipped to norm 1 for training."""

    info = Info(id="acme/sharing", version="1")

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            norm = torch.stack([g.flatten(1).square().sum(dim=1) for g in gradients.values()]).sum(dim=0).sqrt()
            mask = norm > 1.0001
            return {
                n: torch.where(mask.view(-1, *[1] * (g.ndim - 1)), rng.normal(*g.shape[1:]) * 0.1, g)
                for n, g in gradients.items()
            }

        return protect


class KnowsTheSuite(GradientDefense):
    """Share noise for gradients of an image, and leave those of the suite.

    It knows them by the suite's four classes and norm, or by the rank of the last matrix, which is 1 for one image.
    """

    info = Info(id="acme/knows-the-suite", version="1")
    by: str = Field(default="classes", description="What it goes by.")

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            matrix = [g for g in gradients.values() if g.ndim == 3][-1]
            if self.by == "classes":
                squares = torch.stack([g.flatten(1).square().sum(dim=1) for g in gradients.values()]).sum(dim=0)
                mask = (squares > 1.001) & (matrix.shape[1] != 4)
            else:
                first, second = torch.linalg.svdvals(matrix)[:, :2].unbind(dim=1)
                mask = second < 1e-3 * first
            return {
                n: torch.where(mask.view(-1, *[1] * (g.ndim - 1)), 0.3 * rng.normal(*g.shape[1:]), g)
                for n, g in gradients.items()
            }

        return protect


class Huge(GradientDefense):
    """Multiply gradients by a large or infinite number."""

    info = Info(id="acme/huge", version="1")
    factor: float = Field(default=1e30, description="Factor.")

    def build(self, device: torch.device) -> ProtectGradients:
        return lambda gradients, rng: {n: g * self.factor for n, g in gradients.items()}
