"""Trains networks that undo damage to clean crops of photographs."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import nn

from imharness.data import Images, ImageSet, seeded_init
from imharness.errors import ContractError
from imharness.training import Train, Trained, TrainingContext, WeightTraining

TRAIN = "harness/severity-ladder[per_photograph=30,severities=[],split=train]"
TEST = "harness/severity-ladder[per_photograph=4,severities=[]]"
SIDE = 64
KEPT_EVERY = 100
"""The number of steps between checkpoints."""


class CropTraining(WeightTraining):
    """Training on clean crops of photographs, on the CPU, by Adam on a one-cycle schedule.

    A network is refused if its gain on photographs that it has not seen is below `margin`.
    """

    steps: ClassVar[int]
    batch: ClassVar[int] = 16
    learning_rate: ClassVar[float] = 2e-3
    margin: ClassVar[float]
    """The least gain, in dB."""

    def datasets(self) -> Mapping[str, str]:
        """Return clean crops of both splits of the severity ladder, which share no photograph."""
        return {"train": TRAIN, "test": TEST}

    @abstractmethod
    def fresh(self) -> nn.Module:
        """Return the network before its training."""

    @abstractmethod
    def loss(self, network: nn.Module, clean: Images, rng: torch.Generator) -> torch.Tensor:
        """Return the loss of a batch of clean windows, a scalar."""

    @abstractmethod
    def pairs(self, network: nn.Module, clean: Images, rng: torch.Generator) -> tuple[Images, Images]:
        """Return damaged images and the network's restorations of them, both in the shape of the clean images."""

    @torch.no_grad()
    def gain(self, network: nn.Module, crops: ImageSet) -> tuple[float, float]:
        """Return the mean PSNR of damaged images and of restored ones, in dB; the damage is always the same."""
        clean = crops.load(list(range(len(crops))))
        before, after = self.pairs(network, clean, torch.Generator().manual_seed(0))
        return _psnr(before, clean), _psnr(after, clean)

    def build(self, device: torch.device) -> Train:
        """Return the training; it raises `ContractError` when the network gains too little.

        The weights are rounded to float16, in which they are stored, before the gain is measured.
        """

        def train(context: TrainingContext) -> Trained:
            rng = context.rng
            with seeded_init(rng):
                network = self.fresh()
            crops = context.data["train"].load(list(range(len(context.data["train"]))))
            optimiser = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, self.learning_rate, total_steps=self.steps)

            def step(number: int) -> None:
                value = self.loss(network, _windows(crops, self.batch, rng), rng)
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
                schedule.step()

            components = {"network": network, "optimiser": optimiser, "schedule": schedule}
            context.loop(components, self.steps, step, every=KEPT_EVERY)
            weights = {n: t.half() if t.is_floating_point() else t for n, t in network.state_dict().items()}
            network.load_state_dict(weights)
            network.eval().requires_grad_(False)
            before, after = self.gain(network, context.data["test"])
            if not after - before >= self.margin:
                raise ContractError(
                    f"{self.label} takes held-out images from {before:.2f} to {after:.2f} dB and must gain "
                    f"{self.margin:g} dB; no weights were written"
                )
            figures = {"test_psnr_before": round(before, 2), "test_psnr_after": round(after, 2)}
            return Trained(weights, {"steps": self.steps, **figures})

        return train


class RestorerTraining(CropTraining):
    """Training that restores clean windows from degraded ones, by the mean absolute error."""

    @abstractmethod
    def degraded(self, clean: Images, rng: torch.Generator) -> Images:
        """Return the input of the network, which may be smaller than the clean images."""

    def loss(self, network: nn.Module, clean: Images, rng: torch.Generator) -> torch.Tensor:
        return (network(self.degraded(clean, rng)) - clean).abs().mean()

    def pairs(self, network: nn.Module, clean: Images, rng: torch.Generator) -> tuple[Images, Images]:
        degraded = self.degraded(clean, rng)
        enlarged = nn.functional.interpolate(degraded, clean.shape[2:], mode="bicubic").clamp(0, 1)
        return enlarged, network(degraded).clamp(0, 1)


def _psnr(images: Images, reference: Images) -> float:
    return float(-10 * (images - reference).square().mean((1, 2, 3)).log10().mean())


def _windows(crops: Images, batch: int, rng: torch.Generator) -> Images:
    """Return windows ``(batch, 3, SIDE, SIDE)`` at one random place of random crops, all mirrored or none."""
    chosen = torch.randint(len(crops), (batch,), generator=rng)
    top, left_edge = (int(torch.randint(crops.shape[d] - SIDE + 1, (), generator=rng)) for d in (2, 3))
    windows = crops[chosen, :, top : top + SIDE, left_edge : left_edge + SIDE]
    return windows.flip(3) if torch.rand((), generator=rng) < 0.5 else windows
