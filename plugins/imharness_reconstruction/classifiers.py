"""Trains target classifiers, with or without a defense, and the judge that replaces people.

SemSim, appendix C: stochastic gradient descent at a learning rate of 0.1; the paper says no more. Momentum, the cosine
decay of the learning rate and the bound of the gradient's norm are additions of the harness, and each can be switched
off. A gradient defense changes the gradient of every batch; an image protection changes the batch itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from imharness.data import generator
from imharness.gradients import GradientDefense, ImagePool, ImageProtection, ImageRng, Images

MOMENTUM = 0.9
CLIP = 1.0
"""The largest norm of a batch's gradient."""
SCORED = 256
"""The number of images that are classified at a time."""
Vary = Callable[[Images, torch.Tensor, ImageRng], tuple[Images, torch.Tensor]]
"""Images, their one-hot targets and a random stream for each image -> changed images and targets."""


@dataclass(frozen=True)
class Schedule:
    """The schedule by which a classifier is trained; the paper names no momentum, decay or bound.

    Attributes:
        weight_decay: this times the parameter is added to the gradient.
        cosine: whether the learning rate falls to 0 along half a cosine.
        clip: the largest norm of a batch's gradient, before a defense changes it; 0: no bound.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float = MOMENTUM
    weight_decay: float = 0.0
    cosine: bool = True
    clip: float = CLIP


class ClassifierTraining:
    """A training that the caller runs step by step: ``step(k)`` for k in ``range(steps)``; `parts` go to a checkpoint.

    Args:
        network: trained in place.
        pool: the training images and their one-hot targets.
        rng: its first draw decides the order of the images, so that it is the same for every defense; further draws
            are those of the defense.
        defense: a `GradientDefense`, an `ImageProtection`, a function like `Vary`, or None.
        built: the function that ``defense.build`` returned, if the caller has it already.
    """

    def __init__(
        self,
        network: torch.nn.Module,
        pool: ImagePool,
        schedule: Schedule,
        rng: torch.Generator,
        defense: GradientDefense | ImageProtection | Vary | None = None,
        built: Callable[..., Any] | None = None,
    ) -> None:
        self.network, self.pool, self.schedule, self._rng = network.requires_grad_(True), pool, schedule, rng
        self._order = int(torch.randint(2**62, (1,), generator=rng))
        if built is None and isinstance(defense, GradientDefense | ImageProtection):
            built = defense.build(pool.images.device)
        self._share = built if isinstance(defense, GradientDefense) else None
        self._vary = _varied(defense, built, pool)
        self._optimiser = torch.optim.SGD(
            network.parameters(), schedule.learning_rate, schedule.momentum, weight_decay=schedule.weight_decay
        )
        self._per_epoch = -(-len(pool.images) // schedule.batch_size)
        self.steps = schedule.epochs * self._per_epoch
        self._decay: torch.optim.lr_scheduler.LRScheduler = (
            torch.optim.lr_scheduler.CosineAnnealingLR(self._optimiser, max(self.steps, 1))
            if schedule.cosine
            else torch.optim.lr_scheduler.ConstantLR(self._optimiser, 1.0)
        )
        self.parts = {"network": network, "optimiser": self._optimiser, "schedule": self._decay}
        self._batches: Iterator[torch.Tensor] = iter(())

    @property
    def per_epoch(self) -> int:
        """Steps per epoch; a checkpoint belongs at their end."""
        return self._per_epoch

    def step(self, number: int) -> None:
        """Take one step; the first step of an epoch draws its order."""
        epoch, position = divmod(number, self._per_epoch)
        if position == 0:
            order = torch.randperm(len(self.pool.images), generator=generator(self._order + epoch))
            self._batches = iter(order.split(self.schedule.batch_size))
        rows = next(self._batches).to(self.pool.images.device)
        images, targets = self.pool.images[rows], self.pool.targets[rows]
        if self._vary is not None:
            images, targets = self._vary(images, targets, self._streams(len(rows)))
        self.network.train()
        self._optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(self.network(images), targets).backward()
        if self.schedule.clip:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.schedule.clip)
        if self._share is not None:
            named = {name: p for name, p in self.network.named_parameters() if p.grad is not None}
            shared = self._share({name: p.grad[None] for name, p in named.items()}, self._streams(1))
            for name, parameter in named.items():
                parameter.grad = shared[name][0]
        self._optimiser.step()
        self._decay.step()

    def _streams(self, count: int) -> ImageRng:
        seeds = torch.randint(2**62, (count,), generator=self._rng).tolist()
        return ImageRng(seeds, self.pool.images.device)


def _varied(defense: object, built: Callable[..., Any] | None, pool: ImagePool) -> Vary | None:
    """Return the function that changes a batch, or None if the defense changes gradients or there is none."""
    if isinstance(defense, ImageProtection) and built is not None:
        return lambda images, targets, rng: built(images, targets, pool, rng)
    return defense if callable(defense) and not isinstance(defense, GradientDefense) else None


def everyday(images: Images, targets: torch.Tensor, rng: ImageRng) -> tuple[Images, torch.Tensor]:
    """Mirror, shift and degrade images at random by noise, a loss of detail and a change of contrast.

    People recognise such images; a judge that is trained on them depends less on clean pixels.
    """
    drawn = rng.uniform(6)
    images = torch.where((drawn[:, 0] < 0.5)[:, None, None, None], images.flip(3), images)
    small = F.interpolate(F.avg_pool2d(images, 2), images.shape[2:], mode="bilinear", align_corners=False)
    images = torch.where((drawn[:, 1] < 0.3)[:, None, None, None], small, images)
    contrast = (0.6 + 0.6 * drawn[:, 2])[:, None, None, None]
    images = 0.5 + contrast * (images - 0.5) + 0.2 * (drawn[:, 3, None, None, None] - 0.5)
    noise = (0.25 * drawn[:, 4].square())[:, None, None, None] * rng.normal(*images.shape[1:])
    return (images + noise).clamp(0, 1), targets


@torch.no_grad()
def top1(network: torch.nn.Module, images: Images) -> torch.Tensor:
    """Return the most likely class by a network in evaluation mode, ``(N,)``."""
    network.eval()
    return torch.cat([network(batch).argmax(dim=1) for batch in images.split(SCORED)])
