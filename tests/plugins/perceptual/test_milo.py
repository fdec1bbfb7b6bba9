"""MILO with weights whose mask is known."""

from pathlib import Path

import pytest
import torch

from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.testing.samples import images as sample_images
from imharness_perceptual.metrics.milo import ASSET, MiloNetwork


def score(shelf: Path, weights: dict[str, torch.Tensor], images: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Write a file of MILO with these weights of its mask and zeros elsewhere, and return distances by it."""
    state = {name: torch.zeros_like(tensor) for name, tensor in MiloNetwork().state_dict().items()}
    for name, tensor in weights.items():
        state[f"mask_finder_1.netBasic.{name}"] = tensor
    (shelf / ASSET.file).parent.mkdir(parents=True)
    torch.save(state, shelf / ASSET.file)
    distances: torch.Tensor = installed().one("metric", "milo").build(torch.device("cpu"))(images, reference)
    return distances


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("side", [16, 37, 64])
def test_a_constant_answer_of_each_scale_weighs_all_differences_alike(shelf: Path, side: int) -> None:
    images, reference = sample_images(3, side, side + 5, 1), sample_images(3, side, side + 5, 2)
    bias = torch.tensor([0.7])
    expected = 4 * torch.sigmoid(bias) * (images - reference).abs().mean(dim=(1, 2, 3))
    torch.testing.assert_close(score(shelf, {"8.bias": bias}, images, reference), expected)


def test_channels_are_those_of_the_image_the_reference_and_the_mask_below(shelf: Path) -> None:
    """Only one path through the centres of the kernels has weights, and images are flat.

    Each scale adds the sigmoid of 2 image + 3 reference + mask of the coarser scale to that mask.
    """
    weights = {f"{layer}.weight": torch.zeros(shape) for layer, shape in SHAPES.items()}
    for channel, weight in ((0, 2.0), (3, 3.0), (6, 1.0)):
        weights["0.weight"][0, channel, 1, 1] = weight
    for layer in (2, 4, 6, 8):
        weights[f"{layer}.weight"][0, 0, 1, 1] = 1
    image, reference, mask = 0.2, 0.6, 0.0
    for _ in range(4):
        mask += float(torch.sigmoid(torch.tensor(2 * image + 3 * reference + mask)))
    flat = [torch.full((1, 3, 32, 48), value) for value in (image, reference)]
    torch.testing.assert_close(score(shelf, weights, *flat), torch.tensor([mask * 0.4]), rtol=1e-5, atol=0)


SHAPES = {0: (32, 7, 3, 3), 2: (64, 32, 3, 3), 4: (32, 64, 3, 3), 6: (16, 32, 3, 3), 8: (1, 16, 3, 3)}


def test_images_without_a_pixel_below_the_coarsest_scale_are_refused(shelf: Path) -> None:
    with pytest.raises(UsageError, match="at least 16 px"):
        score(shelf, {}, torch.zeros(1, 3, 15, 20), torch.zeros(1, 3, 15, 20))
