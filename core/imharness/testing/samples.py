"""Random inputs of the conformance suite, and small networks that stand in for those that a component meets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from imharness.contracts.randomness import generator, seeded_init
from imharness.contracts.values import (
    PROBABILITIES,
    TARGETS,
    ImageBatch,
    Images,
    NamedTensors,
    Randomness,
    Record,
    Tensors,
    ValueKind,
)
from imharness.errors import ContractError
from imharness.running.target import storable

CLASSES = 4
NOISE = 8 / 255
"""The size of the noise in near copies of images in [0, 1]."""


def beside_near_copies(batch: torch.Tensor, seed: int) -> torch.Tensor:
    """Return images in [0, 1] followed by a near copy of each, with small noise such as an attack adds."""
    noise = NOISE * torch.randn(batch.shape, generator=generator(seed)).sign()
    return torch.cat([batch, storable(batch + noise)])


def images(n: int, height: int, width: int, seed: int) -> Images:
    """Return smooth images with a little noise, float32 ``(n, 3, height, width)``, multiples of 1/255 in [0, 1]."""
    rng = generator(seed)
    smooth = torch.rand(n, 3, 6, 6, generator=rng)
    noise = 0.05 * torch.rand(n, 3, height, width, generator=rng)
    drawn = F.interpolate(smooth, (height, width), mode="bicubic", align_corners=False) + noise
    return storable(drawn)


def bare(height: int, width: int) -> dict[str, Images]:
    """Return description -> an image that shows little, as photographs at night or graphics do, ``(1, 3, H, W)``.

    Values are multiples of 1/255 in [0, 1]. Each image has a mean, a deviation, a histogram or an edge map that is 0
    somewhere, and careless code divides by it.
    """
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None]
    checkers = ((rows // 4 + columns // 4) % 2).float()
    edge = (columns >= width // 2).float().expand(height, width)
    planes = {
        "a black image": torch.zeros(3, height, width),
        "a white image": torch.ones(3, height, width),
        "a grey image": torch.full((3, height, width), 128 / 255),
        "an image of one colour": torch.tensor([1.0, 0.0, 0.2]).view(3, 1, 1).expand(3, height, width),
        "a dark image": checkers.expand(3, -1, -1) / 255,
        "an image of tiny contrast": (128 + checkers.expand(3, -1, -1)) / 255,
        "a black and white image": checkers.expand(3, -1, -1),
        "an edge from black to white": edge.expand(3, -1, -1),
        "an image of saturated colours": torch.stack([checkers, edge, 1 - checkers]),
    }
    return {name: plane.contiguous()[None] for name, plane in planes.items()}


def bare_outputs(like: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return description -> probabilities in the shape of `like` ``(n, CLASSES)``: all on one class, equal, or both.

    Such are the outputs of a network that is sure, rightly or wrongly, and of one that knows nothing.
    """
    sure = F.one_hot(torch.arange(len(like)) % CLASSES, CLASSES).to(like)
    even = torch.full_like(like, 1 / CLASSES)
    both = torch.where((torch.arange(len(like)) % 3 == 0)[:, None], even, sure)
    return {"outputs that are sure": sure, "outputs that know nothing": even, "outputs of both kinds": both}


def bare_gradients(like: Tensors) -> dict[str, Tensors]:
    """Return description -> gradients that say little, in the shapes of `like`: parameter -> ``(n, *shape)``."""
    first = next(iter(like))
    return {
        "gradients of zero": {name: torch.zeros_like(x) for name, x in like.items()},
        "a layer without a gradient": {name: x * (name != first) for name, x in like.items()},
        "gradients of one size": {name: torch.full_like(x, 0.01) for name, x in like.items()},
        "tiny gradients": {name: 1e-30 * x for name, x in like.items()},
        "large gradients": {name: 1e6 * x for name, x in like.items()},
    }


def probabilities(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs ``(n, CLASSES)`` that tend towards the labels, and these labels ``(n,)``."""
    rng = generator(seed)
    labels = torch.randint(CLASSES, (n,), generator=rng)
    logits = torch.randn(n, CLASSES, generator=rng) + 2 * F.one_hot(labels, CLASSES)
    return logits.softmax(dim=1), labels


def surer(n: int, classes: int, by: float, rng: torch.Generator) -> torch.Tensor:
    """Return random probabilities ``(n, classes)`` that prefer a drawn label, about as much for any number of classes.

    `by`: how much larger the logit of the label is than usual, as that of an overfit model is for members.
    """
    labels = torch.randint(classes, (n,), generator=rng)
    label_logit = 2 + math.log(classes / CLASSES) + by
    return (torch.randn(n, classes, generator=rng) + label_logit * F.one_hot(labels, classes)).softmax(dim=1)


def targets(n: int, seed: int) -> torch.Tensor:
    """Return one-hot labels ``(n, CLASSES)``."""
    return F.one_hot((torch.arange(n) + seed) % CLASSES, CLASSES).float()


def gradients(n: int, seed: int) -> Tensors:
    """Return random tensors with the shapes of a small classifier's gradients: parameter -> ``(n, *shape)``."""
    rng, shapes = generator(seed), {"0.weight": (16, 192), "0.bias": (16,), "2.weight": (CLASSES, 16)}
    return {name: 0.1 * torch.randn(n, *shape, generator=rng) for name, shape in shapes.items()}


_DRAW: dict[ValueKind, Callable[[int, int], torch.Tensor]] = {
    PROBABILITIES: lambda n, seed: probabilities(n, seed)[0],
    TARGETS: targets,
}


def drawable(kind: ValueKind) -> bool:
    """Return whether `drawn` can draw a value of a kind, or whether its seeds give it."""
    if isinstance(kind, Record):
        return all(map(drawable, kind.members.values()))
    if isinstance(kind, NamedTensors) and kind.like:
        return True
    return isinstance(kind, ImageBatch | Randomness) or kind in _DRAW or kind.draw is not None


def drawn(kind: ValueKind, n: int, height: int, width: int, seed: int) -> Any:
    """Return a random value with n rows for a trial; raises `ContractError` for a kind that is not `drawable`."""
    draw = kind.draw or _DRAW.get(kind)
    if draw is not None:
        return draw(n, seed)
    if isinstance(kind, ImageBatch):
        return images(n, height, width, seed)
    if isinstance(kind, NamedTensors):
        return gradients(n, seed)
    if isinstance(kind, Record):  # it always has eight rows, whatever the other arguments have
        return kind.cls(**{name: drawn(field, 8, height, width, seed) for name, field in kind.members.items()})
    raise ContractError(f"{type(kind).__name__}: a {kind.annotation} cannot be drawn; give the kind a `draw`")


STEEP = 20.0
"""How steeply the score of `Quality` rises from 0 to 1."""


class Quality(nn.Module):
    """A small smooth network to attack, which scores images in (0, 1)."""

    bounds = (0.0, 1.0)
    grey: torch.Tensor
    """The raw score of a grey image, which gets 0.5."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        with seeded_init(generator(seed)):
            self.layers = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.Softplus(), nn.Conv2d(8, 8, 3, 2), nn.Softplus())
            self.head = nn.Linear(8, 1)
        self.eval().requires_grad_(False)
        self.register_buffer("grey", self._raw(torch.full((1, 3, 32, 32), 0.5)))

    def _raw(self, x: Images) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.layers(2 * x - 1).mean(dim=(2, 3)))[:, 0]
        return scores

    def forward(self, x: Images) -> torch.Tensor:
        """Return scores ``(N,)``."""
        return torch.sigmoid(STEEP * (self._raw(x) - self.grey))


def classifier(features: int, classes: int, seed: int) -> nn.Module:
    """Return a fully connected classifier of flattened inputs."""
    with seeded_init(generator(seed)):
        layers = nn.Sequential(nn.Flatten(), nn.Linear(features, 16), nn.Sigmoid(), nn.Linear(16, classes))
    return layers
