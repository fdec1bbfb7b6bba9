"""Optimised UAP: one perturbation for all images, trained on the score.

Shumitskaya, Antsiferova & Vatolin, "Towards adversarial robustness verification of no-reference image- and
video-quality metrics" (CVIU 2024); the varied parameter of Guardians of Image Quality, table 7.
"""

from collections.abc import Mapping

import torch
from pydantic import Field

from imharness.images import AttackInfo, Budget, FittedAttack, ImageRng, Images, Perturb, Progress, Target, hookimpl
from imharness_iqa.tiles import laid

CLIP = 0.1
"""The largest entry of a tile, in units of the pixel range."""


class Uap(FittedAttack):
    """Universal perturbation: one tile trained with Adam, laid over every image and scaled."""

    info = AttackInfo(
        id="harness/uap",
        version="2",
        access="white_box",
        norm="linf",
        strengths={
            "weak": {"amplitude": 2 / 255 / CLIP},
            "medium": {"amplitude": 4 / 255 / CLIP},
            "strong": {"amplitude": 8 / 255 / CLIP},
        },
        paper="shumitskaya2024",
    )
    fit_fields = ("tile", "epochs", "learning_rate", "batch")
    amplitude: float = Field(default=0.6, gt=0, le=10, description="Factor that the trained tile is multiplied by.")
    tile: int = Field(default=256, ge=8, le=2048, description="Side of the tile, px.")
    epochs: int = Field(default=5, ge=1, le=1000, description="Passes over the training images.")
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Adam's learning rate.")
    batch: int = Field(default=8, ge=1, le=1024, description="Images per training step.")

    def budget(self) -> Budget:
        """Return the largest entry of the scaled tile; the tile is applied without asking for scores."""
        return Budget(radius=self.amplitude * CLIP)

    def fit(self, images: Images, target: Target, rng: torch.Generator, progress: Progress) -> dict[str, torch.Tensor]:
        """Train the tile to raise the mean score."""
        tile = torch.zeros(1, 3, self.tile, self.tile, device=images.device, requires_grad=True)
        optimiser = torch.optim.Adam([tile], lr=self.learning_rate)
        total, done = self.epochs * -(-len(images) // self.batch), 0
        for _ in range(self.epochs):
            for chosen in torch.randperm(len(images), generator=rng).split(self.batch):
                batch = images[chosen.to(images.device)]
                loss = -target((batch + laid(tile, batch)).clamp(0, 1), chosen).mean() / (target.upper - target.lower)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                with torch.no_grad():
                    tile.clamp_(-CLIP, CLIP)
                done += 1
                progress(done, total)
        return {"tile": tile.detach()}

    def build(self, device: torch.device, fitted: Mapping[str, torch.Tensor]) -> Perturb:
        """Return the attack with a trained tile."""
        tile = self.amplitude * fitted["tile"].to(device)

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            return (images + laid(tile, images)).clamp(0, 1)

        return perturb


@hookimpl
def components() -> list[FittedAttack]:
    return [Uap()]
