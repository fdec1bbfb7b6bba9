"""Trains a quality network on the severity ladder and measures its bounds."""

from collections.abc import Callable, Mapping

import cv2
import numpy as np
import torch
from torch import nn

from imharness.data import ImageSet, seeded_init
from imharness.leaderboard import correlate
from imharness.training import Train, Trained, TrainingContext

TRAIN = "harness/severity-ladder[per_photograph=8,split=train]"
TEST = "harness/severity-ladder"
EPOCHS, BATCH, LEARNING_RATE = 10, 32, 5e-3


def quality_training(make: Callable[[], nn.Module], device: torch.device) -> Train:
    """Return the training of a fresh network by smooth L1 and AdamW on a one-cycle schedule, on augmented images."""

    def train(context: TrainingContext) -> Trained:
        data, rng = context.data, context.rng
        with seeded_init(rng):
            network = make().to(device, memory_format=torch.channels_last).train()
        images, labels = _tensors(data["train"], device)
        optimiser = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=1e-3)
        per_epoch = -(-len(images) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=EPOCHS * per_epoch)
        order: list[torch.Tensor] = []

        def step(number: int) -> None:
            if number % per_epoch == 0:
                order[:] = torch.randperm(len(images), generator=rng).to(device).split(BATCH)
            chosen = order[number % per_epoch]
            loss = nn.functional.smooth_l1_loss(network(_varied(images[chosen], rng)), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()

        components = {"network": network, "optimiser": optimiser, "schedule": schedule}
        context.loop(components, EPOCHS * per_epoch, step, every=per_epoch)
        network.eval()
        lower, upper = bounds(network, data["train"], device)
        return Trained(network.state_dict(), {"lower": lower, "upper": upper, **_quality(network, data, device)})

    return train


def _varied(batch: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Mirror a batch and exchange its channels at random; neither changes how distorted an image is."""
    for side in (2, 3):
        if torch.rand((), generator=rng) < 0.5:
            batch = batch.flip(side)
    return batch[:, torch.randperm(3, generator=rng).to(batch.device)]


def bounds(network: nn.Module, data: ImageSet, device: torch.device) -> tuple[float, float]:
    """Return (lower, upper) by the rule of Guardians of Image Quality, appendix A.3.2, on the clean images.

    Upper: the highest score. Lower: the lowest of the scores at JPEG quality 10 and of uniform noise.
    """
    clean, _ = _tensors(data, device, only=np.asarray(data.columns["severity"]) == 0)
    noise = torch.rand(clean.shape, generator=torch.Generator().manual_seed(0)).to(device)
    low = torch.cat([_scores(network, _jpeg(clean, quality=10)), _scores(network, noise)]).min()
    return round(float(low), 3), round(float(_scores(network, clean).max()), 3)


def _quality(network: nn.Module, data: Mapping[str, ImageSet], device: torch.device) -> dict[str, float]:
    """Return the number of images and the SROCC on each data set, for the model card."""
    figures: dict[str, float] = {}
    for role, images in data.items():
        pixels, labels = _tensors(images, device)
        correlation = correlate(_scores(network, pixels).cpu().numpy(), labels.cpu().numpy(), "spearman")
        figures |= {f"{role}_images": len(pixels), f"{role}_srocc": round(correlation.value, 4)}
    return figures


def _tensors(
    images: ImageSet, device: torch.device, only: np.ndarray | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images of a set and their labels; `only`: a mask of the images to return."""
    positions = list(range(len(images))) if only is None else np.flatnonzero(only).tolist()
    labels = torch.from_numpy(np.asarray(images.columns["mos"], dtype=np.float32)[positions])
    return images.load(positions).to(device, memory_format=torch.channels_last), labels.to(device)


@torch.no_grad()
def _scores(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return torch.cat([network(batch) for batch in images.split(BATCH)])


def _jpeg(images: torch.Tensor, quality: int) -> torch.Tensor:
    decoded = []
    for image in images.mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy():
        _, code = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
        decoded.append(cv2.imdecode(code, cv2.IMREAD_COLOR)[..., ::-1])
    return torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2).float().div(255).to(images.device)
