"""SemSim: a distance of features, learnt from reconstructions that people recognised or did not.

Sun et al., NeurIPS 2023, section 4.3: a network f is trained with max(d(x, x+) - d(x, x-) + margin, 0), d the Euclidean
distance of features, x an original, x+ a recognised and x- an unrecognised reconstruction of it. Where no
reconstruction was recognised, x+ is the original itself; where all were, x- belongs to another original.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from imharness.data import Images, seeded_init
from imharness_vision.perceptual import normalised

Backbone = Literal["lenet", "resnet18", "resnet50"]
Loss = Literal["triplet", "contrastive"]
Decay = Literal["cosine", "none"]
LENET = (16, 32, 64)
CLIP = 1.0
"""The largest norm of a gradient; the paper names none."""


class SemSimNet(nn.Module):
    """Images ``(N, 3, H, W)`` in [0, 1] -> features ``(N, d)``."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.body = _lenet() if backbone == "lenet" else _resnet(backbone)

    def forward(self, images: Images) -> torch.Tensor:
        return self.body(normalised(images))

    def distance(self, images: Images, reference: Images) -> torch.Tensor:
        """Return the Euclidean distance of features, ``(N,)``."""
        features = self(torch.cat([images, reference])).chunk(2)
        return (features[0] - features[1]).square().sum(dim=1).clamp(min=1e-12).sqrt()


def _lenet() -> nn.Module:
    layers: list[nn.Module] = []
    for ins, outs in zip((3, *LENET[:-1]), LENET, strict=True):
        layers += [nn.Conv2d(ins, outs, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * LENET[-1], 64))


def _resnet(name: str) -> nn.Module:
    from torchvision import models

    network = getattr(models, name)(weights=None)
    network.conv1, network.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    network.fc = nn.Identity()
    return network


@dataclass(frozen=True)
class Annotations:
    """Originals ``(M, 3, H, W)`` and reconstructions ``(R, 3, H, W)``.

    `reference`: the position of the original of each reconstruction, ``(R,)``; `recognised`: bool ``(R,)``.
    """

    originals: Images
    reconstructions: Images
    reference: torch.Tensor
    recognised: torch.Tensor

    def of_originals(self, selected: torch.Tensor) -> "Annotations":
        """Return the annotations of some originals, by position."""
        new_index = torch.full((len(self.originals),), -1, dtype=torch.int64)
        new_index[selected] = torch.arange(len(selected))
        of_selected = new_index[self.reference] >= 0
        return Annotations(
            self.originals[selected],
            self.reconstructions[of_selected],
            new_index[self.reference[of_selected]],
            self.recognised[of_selected],
        )


@dataclass(frozen=True)
class SemSimPlan:
    """The settings with which SemSim is trained; the defaults are the paper's (section 5) up to `learning_rate`.

    `decay` of the learning rate and `clip`, the largest norm of a gradient (0: no bound), are additions of the harness;
    the paper names neither.
    """

    backbone: Backbone = "resnet50"
    loss: Loss = "triplet"
    margin: float = 1.0
    epochs: int = 200
    batch_size: int = 128
    learning_rate: float = 0.1
    decay: Decay = "cosine"
    clip: float = CLIP


class SemSimTraining:
    """A training that the caller runs step by step, k in ``range(steps)``: ``step(k)``; `parts` go to a checkpoint."""

    def __init__(self, data: Annotations, plan: SemSimPlan, rng: torch.Generator, device: torch.device) -> None:
        self.data, self.plan, self._rng = data, plan, rng
        with seeded_init(rng):
            self.network = SemSimNet(plan.backbone).to(device).train()
        self._optimiser = torch.optim.SGD(self.network.parameters(), lr=plan.learning_rate)
        self.per_epoch = max(1, -(-len(data.reconstructions) // plan.batch_size))
        self.steps = plan.epochs * self.per_epoch
        lowest = 0.0 if plan.decay == "cosine" else plan.learning_rate
        self._decay = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimiser, self.steps, lowest)
        self.parts = {"network": self.network, "optimiser": self._optimiser, "schedule": self._decay}
        self.loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = {
            "triplet": self._triplet,
            "contrastive": self._contrastive,
        }[plan.loss]
        """Distances ``(n,)`` of originals to recognised and to unrecognised images -> losses ``(n,)``."""
        self._draw = Triplets(data)
        self._device = device

    def step(self, number: int) -> None:
        """Take one step on triplets that are drawn anew."""
        anchor, positive, negative = (x.to(self._device) for x in self._draw(self.plan.batch_size, self._rng))
        features = self.network(torch.cat([anchor, positive, negative])).chunk(3)
        near, far = ((features[0] - x).square().sum(dim=1).clamp(min=1e-12).sqrt() for x in features[1:])
        self._optimiser.zero_grad(set_to_none=True)
        self.loss(near, far).mean().backward()
        if self.plan.clip:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.plan.clip)
        self._optimiser.step()
        self._decay.step()

    def _triplet(self, near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
        return F.relu(near - far + self.plan.margin)

    def _contrastive(self, near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
        return near.square() + F.relu(self.plan.margin - far).square()


class Triplets:
    """Draws batches of triplets: original, recognised and unrecognised image, ``(count, 3, H, W)`` each.

    An original is drawn as often as it has reconstructions. If none of them was recognised, the original itself takes
    the place; if all were, an unrecognised reconstruction of any other original does.
    """

    def __init__(self, data: Annotations) -> None:
        self._data = data
        self._groups = [_Groups(data, recognised) for recognised in (True, False)]
        self._others = torch.where(~data.recognised)[0]

    def __call__(self, count: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        drawn = torch.randint(len(self._data.reference), (count,), generator=rng)
        originals, dice = self._data.reference[drawn], torch.rand(3, count, generator=rng)
        positive, negative = (group.pick(originals, d) for group, d in zip(self._groups, dice, strict=False))
        stranger = self._others[(dice[2] * len(self._others)).long()]
        anchor = self._data.originals[originals]
        positives = self._data.reconstructions[positive.clamp(min=0)]
        near = torch.where((positive >= 0)[:, None, None, None], positives, anchor)
        return anchor, near, self._data.reconstructions[torch.where(negative >= 0, negative, stranger)]


class _Groups:
    """The reconstructions of each original that were recognised, or those that were not."""

    def __init__(self, data: Annotations, recognised: bool) -> None:
        rows = torch.where(data.recognised == recognised)[0]
        self._rows = rows[data.reference[rows].argsort(stable=True)]
        self._counts = torch.bincount(data.reference[rows], minlength=len(data.originals))
        self._starts = self._counts.cumsum(0) - self._counts

    def pick(self, originals: torch.Tensor, dice: torch.Tensor) -> torch.Tensor:
        """Return one row of each original, -1 where it has none."""
        counts = self._counts[originals]
        positions = self._starts[originals] + (dice * counts).long()
        picked = self._rows[positions.clamp(max=len(self._rows) - 1)]
        return torch.where(counts > 0, picked, -1)
