"""Fully connected classifiers.

Song & Mittal (USENIX Security 2021): tanh in section 3.3.2, ReLU in 3.3.3; sigmoid, other depths and widths in 4.2.1.
"""

import itertools
import math
from typing import Literal

import torch
from pydantic import Field

from imharness.data import seeded_init
from imharness.membership import Info, Model, NetworkFactory, hookimpl

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}


class Mlp(Model):
    """A multilayer perceptron with Glorot's initialisation; the default is the paper's 1024-512-256-128."""

    info = Info(id="harness/mlp", version="2")
    hidden: tuple[int, ...] = Field(default=(1024, 512, 256, 128), description="Units per hidden layer.")
    activation: Literal["relu", "tanh", "sigmoid"] = Field(default="relu", description="Activation between layers.")

    def build(self, device: torch.device) -> NetworkFactory:
        """Return a factory of networks that give logits."""

        def network(shape: tuple[int, ...], classes: int, rng: torch.Generator) -> torch.nn.Module:
            sizes = [math.prod(shape), *self.hidden]
            with seeded_init(rng):
                layers: list[torch.nn.Module] = [torch.nn.Flatten()]
                for width, following in itertools.pairwise(sizes):
                    layers += [torch.nn.Linear(width, following), ACTIVATIONS[self.activation]()]
                layers.append(torch.nn.Linear(sizes[-1], classes))
                for layer in layers:
                    if isinstance(layer, torch.nn.Linear):
                        torch.nn.init.xavier_uniform_(layer.weight)
                        torch.nn.init.zeros_(layer.bias)
            return torch.nn.Sequential(*layers).to(device)

        return network


@hookimpl
def components() -> list[Model]:
    return [Mlp()]
