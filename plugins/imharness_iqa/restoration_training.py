"""Train a network to undo what was done to clean crops of photographs."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from imharness.data import Images, Train, Trained, TrainingContext, WeightTraining, seeded_init

TRAIN = "harness/severity-ladder[per_photograph=30,severities=[],split=train]"
TEST = "harness/severity-ladder[per_photograph=4,severities=[]]"
BATCH, SIDE, LEARNING_RATE = 16, 64, 2e-3
ROLES = ("train", "test")
KEPT_EVERY = 100
"""Steps between checkpoints."""
Loss = Callable[[nn.Module, Images, torch.Generator], torch.Tensor]
Degrade = Callable[[Images, torch.Generator], Images]


class CropTraining(WeightTraining):
    """Training on clean crops of photographs, on the CPU."""

    def datasets(self) -> Mapping[str, str]:
        """Return clean crops of the ladder's two halves; they share no photograph."""
        return {"train": TRAIN, "test": TEST}


def training(make: Callable[[], nn.Module], loss: Loss, steps: int, card: Callable[..., dict[str, float]]) -> Train:
    """Return the training of a fresh network by Adam on a one-cycle schedule, on random windows of the crops.

    `card`: (trained network, test crops) -> figures for the model card.
    """

    def train(workshop: TrainingContext) -> Trained:
        with seeded_init(workshop.rng):
            network = make()
        crops, held_out = (images.load(list(range(len(images)))) for images in (workshop.data[r] for r in ROLES))
        optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps)

        def step(number: int) -> None:
            value = loss(network, _windows(crops, workshop.rng), workshop.rng)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            schedule.step()

        workshop.loop({"network": network, "optimiser": optimiser, "schedule": schedule}, steps, step, every=KEPT_EVERY)
        network.eval().requires_grad_(False)
        return Trained(network.state_dict(), {"steps": steps, **card(network, held_out)})

    return train


def restoring(make: Callable[[], nn.Module], degrade: Degrade, steps: int) -> Train:
    """Return the training that takes degraded windows back to the clean ones, by the mean absolute error."""

    def loss(network: nn.Module, clean: Images, rng: torch.Generator) -> torch.Tensor:
        return (network(degrade(clean, rng)) - clean).abs().mean()

    def card(network: nn.Module, crops: Images) -> dict[str, float]:
        degraded = degrade(crops, torch.Generator().manual_seed(0))
        shown = nn.functional.interpolate(degraded, crops.shape[2:], mode="bicubic").clamp(0, 1)
        after = _psnr(network(degraded).clamp(0, 1), crops)
        return {"test_psnr_before": _psnr(shown, crops), "test_psnr_after": after}

    return training(make, loss, steps, card)


def _psnr(images: Images, reference: Images) -> float:
    return round(-10 * math.log10(float((images - reference).square().mean())), 2)


def _windows(crops: Images, rng: torch.Generator) -> Images:
    """Return a batch of windows, mirrored at random."""
    chosen = torch.randint(len(crops), (BATCH,), generator=rng)
    top, left = (int(torch.randint(crops.shape[d] - SIDE + 1, (), generator=rng)) for d in (2, 3))
    batch = crops[chosen, :, top : top + SIDE, left : left + SIDE]
    return batch.flip(3) if torch.rand((), generator=rng) < 0.5 else batch
