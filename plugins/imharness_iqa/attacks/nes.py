"""NES: gradient estimates from pairs of scores.

Ilyas, Engstrom, Athalye & Lin, "Black-box Adversarial Attacks with Limited Queries and Information" (ICML 2018),
section 2.2; the search space is a small tile repeated over the image.
"""

import torch
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl
from imharness_iqa.tiles import laid


class Nes(Attack):
    """Ascent along a gradient estimated from antithetic pairs of noise tiles, inside an L-infinity ball."""

    info = AttackInfo(
        id="harness/nes",
        version="2",
        access="black_box",
        norm="linf",
        strengths={"weak": {"eps": 2 / 255}, "medium": {"eps": 4 / 255}, "strong": {"eps": 8 / 255}},
        paper="ilyas2018",
    )
    eps: float = Field(default=0.1, gt=0, le=1, description="L-infinity distance, in units of the pixel range.")
    steps: int = Field(default=250, ge=1, le=100_000, description="Number of ascent steps.")
    pairs: int = Field(default=20, ge=1, le=1000, description="Antithetic pairs per step.")
    sigma: float = Field(
        default=1 / 255,
        gt=0,
        le=1,
        description="Size of the noise, in units of the pixel range; the paper's 0.001 is less than a level of 8 bits.",
    )
    rate: float = Field(default=0.1, gt=0, description="Euclidean length of a step on the tile.")
    tile: int = Field(default=32, ge=1, le=1024, description="Side of the tile, in px.")

    def budget(self) -> Budget:
        """Return the distance and the number of scores: two per pair and step."""
        return Budget(radius=self.eps, queries=2 * self.pairs * self.steps)

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            low, high = (images - self.eps).clamp(min=0), (images + self.eps).clamp(max=1)
            attacked = images
            for _ in range(self.steps):
                noise = rng.normal(self.pairs, 3, self.tile, self.tile)
                probes = self.sigma * torch.cat([noise, -noise], dim=1)
                around = (attacked[:, None] + laid(probes, images)).clamp(0, 1)
                scores = target(around.flatten(0, 1)).view(len(images), 2, self.pairs)
                weight = (scores[:, 0] - scores[:, 1])[:, :, None, None, None]
                gradient = (weight * noise).sum(dim=1)
                length = torch.linalg.vector_norm(gradient.flatten(1), dim=1).clamp(min=1e-20)[:, None, None, None]
                step = laid(self.rate * gradient / length, images)
                attacked = torch.clamp(attacked + step, low, high)
            return attacked

        return perturb


@hookimpl
def components() -> list[Attack]:
    return [Nes()]
