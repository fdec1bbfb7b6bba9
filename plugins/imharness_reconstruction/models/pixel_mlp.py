"""A fully connected classifier: its first layer takes the pixels, so closed forms see images through it."""

import torch
from pydantic import Field

from imharness.data import seeded_init
from imharness.gradients import Info, Model, NetworkFactory, hookimpl


class PixelMLP(Model):
    """Two hidden layers with ReLU on flattened pixels; the second has half the width of the first."""

    info = Info(id="harness/pixel-mlp", version="1")
    opt_in = True
    width: int = Field(default=512, ge=2, le=65_536, description="Units of the first hidden layer.")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory; weights are torch's."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> torch.nn.Module:
            with seeded_init(rng):
                return torch.nn.Sequential(
                    torch.nn.Flatten(),
                    torch.nn.Linear(shape[0] * shape[1] * shape[2], self.width),
                    torch.nn.ReLU(),
                    torch.nn.Linear(self.width, self.width // 2),
                    torch.nn.ReLU(),
                    torch.nn.Linear(self.width // 2, classes),
                ).to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [PixelMLP()]
