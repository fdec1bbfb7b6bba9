"""FACPA: a generator maps each image to its perturbation.

Shumitskaya, Antsiferova & Vatolin, "Fast Adversarial CNN-based Perturbation Attack on No-Reference Image Quality
Metrics" (ICLR 2023 Tiny Papers): a U-Net, trained against the metric with Adam.
"""

from collections.abc import Mapping

import torch
from pydantic import Field

from imharness.data import seeded_init
from imharness.images import AttackInfo, Budget, FittedAttack, ImageRng, Images, Perturb, Progress, Target, hookimpl
from imharness_iqa.unet import UNet

REACH = 10 / 255
"""The largest perturbation at amplitude 1, in units of the pixel range."""


class Facpa(FittedAttack):
    """A U-Net trained against the metric perturbs each image in one pass."""

    info = AttackInfo(
        id="harness/facpa",
        version="1",
        access="white_box",
        norm="linf",
        strengths={"weak": {"amplitude": 0.2}, "medium": {"amplitude": 0.4}, "strong": {"amplitude": 0.8}},
        paper="shumitskaya2023",
    )
    fit_fields = ("width", "depth", "epochs", "learning_rate", "batch")
    amplitude: float = Field(
        default=0.6, gt=0, le=10, description="Factor on the perturbation, which without it is at most 10/255."
    )
    width: int = Field(
        default=64, ge=1, le=512, description="Channels of the first layer; deeper layers have up to 8 times as many."
    )
    depth: int = Field(default=8, ge=2, le=10, description="Number of times that the U-Net halves the image.")
    epochs: int = Field(default=5, ge=1, le=1000, description="Passes over the training images.")
    learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Adam's learning rate.")
    batch: int = Field(default=8, ge=1, le=1024, description="Images per training step.")

    def budget(self) -> Budget:
        """Return the largest perturbation; it is applied without asking for scores."""
        return Budget(radius=min(1.0, self.amplitude * REACH))

    def fit(self, images: Images, target: Target, rng: torch.Generator, progress: Progress) -> dict[str, torch.Tensor]:
        """Train the generator to raise the mean score."""
        with seeded_init(rng):
            network = UNet(self.width, self.depth).to(images.device)
        optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        total, done = self.epochs * -(-len(images) // self.batch), 0
        for _ in range(self.epochs):
            for chosen in torch.randperm(len(images), generator=rng).split(self.batch):
                batch = images[chosen.to(images.device)]
                loss = -target((batch + REACH * network(batch)).clamp(0, 1), chosen).mean() / (
                    target.upper - target.lower
                )
                optimiser.zero_grad()
                loss.backward()
                for parameter in network.parameters():
                    if parameter.grad is not None:
                        parameter.grad.nan_to_num_()
                optimiser.step()
                done += 1
                progress(done, total)
        return {name: tensor.detach() for name, tensor in network.state_dict().items()}

    def build(self, device: torch.device, fitted: Mapping[str, torch.Tensor]) -> Perturb:
        """Return the attack with a trained generator."""
        network = UNet(self.width, self.depth)
        network.load_state_dict(dict(fitted), strict=True)
        network.eval().requires_grad_(False).to(device)

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            return (images + self.amplitude * REACH * network(images)).clamp(0, 1)

        return perturb


@hookimpl
def components() -> list[FittedAttack]:
    return [Facpa()]
