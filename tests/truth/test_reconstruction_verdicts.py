"""How often the verdict "explained" is right, for gradients of the original and for those of other images.

Each draw has its own image, a random crop of a photograph; networks have random weights.
"""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from imharness.components.registry import installed
from imharness.gradients import Gradients
from imharness_reconstruction.answering import verdict
from imharness_reconstruction.convergence import Shared, matching
from imharness_reconstruction.per_image import image_gradients

DRAWS, SIDE, CLASSES = 60, 16, 10


@pytest.fixture(scope="module")
def crops() -> torch.Tensor:
    """Return `DRAWS` crops of 16 px of photographs; several may be of one photograph."""
    photographs = installed().one("dataset", "harness/thumbnails[size=32]").build(torch.device("cpu"))
    images = photographs.load(list(range(min(len(photographs), DRAWS))))
    stream = torch.Generator().manual_seed(0)
    places = torch.randint(0, 32 - SIDE, (DRAWS, 2), generator=stream).tolist()
    rows = torch.arange(DRAWS) % len(images)
    return torch.stack([images[r, :, y : y + SIDE, x : x + SIDE] for r, (y, x) in zip(rows, places, strict=True)])


def network(kind: str) -> nn.Module:
    """Return a network of one or ("deep") two convolutions and a linear layer, with random weights."""
    bent = {"sigmoid": nn.Sigmoid, "relu": nn.ReLU}[kind.partition(" ")[0]]
    deep = kind.endswith("deep")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        layers = [nn.Conv2d(3, 8, 5, 2, 2), bent(), *([nn.Conv2d(8, 8, 3, 1, 1), bent()] if deep else [])]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 64, CLASSES)).eval().requires_grad_(False)


def verdicts(model: nn.Module, shared: Gradients, images: torch.Tensor, labels: torch.Tensor, noise: float):
    """Return for how many images the verdict is that they explain the gradients, and for how many that they do not."""
    count = len(images)
    behind = Shared(shared, images, F.one_hot(labels, CLASSES).float(), torch.arange(count), torch.eye(count))
    fit = matching(model, behind, images)
    explained, lines = verdict(fit, shared, noise)
    denied = [line for line in lines if "not explain" in line]
    matched = re.match(r"(\d+) of \d+ originals do not explain", denied[0]) if denied else None
    return int(explained.sum()), int(matched.group(1)) if matched else 0


@pytest.mark.parametrize("kind", ["sigmoid", "relu", "relu deep"])
def test_what_is_said_of_originals_holds_of_them_and_of_other_images(crops: torch.Tensor, kind: str) -> None:
    model, labels = network(kind), torch.arange(DRAWS) % CLASSES
    shared = image_gradients(model, crops, labels)
    others = image_gradients(model, crops.roll(1, 0), labels)
    batch = {name: (values + others[name]) / 2 for name, values in shared.items()}
    stream = torch.Generator().manual_seed(2)
    size = 0.1 * float(torch.cat([values.flatten(1) for values in shared.values()], dim=1).square().mean().sqrt())

    def noisy(gradients: Gradients, factor: float = 1) -> Gradients:
        return {n: v + factor * size * torch.randn(v.shape, generator=stream) for n, v in gradients.items()}

    def verdict_on(gradients: Gradients, noise: float = 0.0) -> tuple[int, int]:
        return verdicts(model, gradients, crops, labels, noise)

    rounded = {name: values.bfloat16().float() for name, values in shared.items()}
    assert verdict_on(shared) == (DRAWS, 0)
    assert verdict_on(rounded)[0] >= 0.8 * DRAWS
    assert verdict_on(rounded)[1] == 0
    explained, denied = verdict_on(noisy(shared), size)
    assert explained >= 0.5 * DRAWS  # elsewhere a flat image leaves no more than noise
    assert denied == 0
    for wrong in (others, batch):
        assert verdict_on(wrong)[0] == 0
        assert (
            verdict_on(wrong)[1] >= 0.9 * DRAWS
        )  # in a batch, an original nearly explains the mean if the other gradient is small
        assert verdict_on(noisy(wrong), size)[0] <= 0.1 * DRAWS  # noise may hide by what two images differ
    for noise in (0.0, 100 * size):
        assert verdict_on(noisy(shared, 100), noise)[0] == 0
