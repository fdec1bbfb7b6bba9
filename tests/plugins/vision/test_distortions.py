"""The traditional distortions: nothing at severity 0, more with severity, each image from its own stream."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng
from imharness.errors import Unavailable
from imharness_vision.distortions import DISTORTIONS, FAMILIES, distorted
from imharness_vision.distortions.blur import BAND, COLOUR_SIGMA, RADIUS, SIGMA
from imharness_vision.distortions.noise import LARGEST, spectral_noise

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    data = installed().one("dataset", "severity-ladder[severities=[],size=64]").build(CPU)
    return data.load(list(range(len(data))))


@pytest.mark.parametrize("name", list(DISTORTIONS))
def test_a_distortion_grows_with_severity_and_is_drawn_image_by_image(name: str, images: torch.Tensor) -> None:
    original, count = images.clone(), len(images)

    def moved(severity: float) -> torch.Tensor:
        distorted_images = DISTORTIONS[name](images, torch.full((count,), severity), ImageRng(range(count)))
        assert distorted_images.shape == images.shape
        assert torch.isfinite(distorted_images).all()
        return distorted_images.clamp(0, 1)

    change = [float((moved(s) - images).square().mean()) for s in (0.0, 0.3, 1.0)]
    assert change[0] < 1e-5
    assert change[0] < change[1] < change[2]
    assert torch.equal(images, original)
    alone = DISTORTIONS[name](images[2:3], torch.ones(1), ImageRng([2])).clamp(0, 1)
    torch.testing.assert_close(alone, moved(1.0)[2:3], rtol=1e-4, atol=1e-4)


def test_noise_has_its_deviation_and_its_spectrum() -> None:
    grey = torch.full((1, 3, 128, 128), 0.5)
    for name in ("uniform-white", "gaussian-white", "pink", "blue", "colored"):
        noisy = DISTORTIONS[name](grey, torch.tensor([0.2]), ImageRng([0]))
        assert float((noisy - grey).std()) == pytest.approx(0.2 * LARGEST, rel=0.05), name
    for exponent in (-1.0, 0.0, 1.0):
        drawn = spectral_noise(
            torch.randn(8, 1, 256, 256, generator=torch.Generator().manual_seed(0)), torch.full((8,), exponent)
        )
        power = torch.fft.rfft(drawn[:, 0, 0]).abs().square().mean(dim=0)
        whole = torch.fft.fft2(drawn[:, 0]).abs().square().mean(dim=0)
        low, high = float(whole[0, 4:8].mean()), float(whole[0, 64:68].mean())
        assert power.isfinite().all()
        assert np.log(high / low) / np.log(66 / 6) == pytest.approx(exponent, abs=0.25)


def test_gaussian_blur_is_that_of_scikit_image(images: torch.Tensor) -> None:
    from skimage.filters import gaussian

    blurred = DISTORTIONS["gaussian-blur"](images[:1], torch.tensor([0.4]), ImageRng([0]))[0].permute(1, 2, 0).numpy()
    expected = gaussian(images[0].permute(1, 2, 0).numpy(), 0.4 * SIGMA, channel_axis=-1, mode="mirror", truncate=3.5)
    assert np.abs(blurred - expected).max() < 0.01


def test_bilateral_filtering_is_that_of_its_formula_pixel_by_pixel() -> None:
    """Pixels are compared at the corners, and where one band of rows ends and the next begins."""
    images, severity = torch.rand((2, 3, 2 * BAND + 5, 40), generator=torch.Generator().manual_seed(0)), [0.3, 0.9]
    results = DISTORTIONS["bilateral"](images, torch.tensor(severity), ImageRng([0, 1])).double().numpy()
    padded = np.pad(images.double().numpy(), [(0, 0), (0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS)], mode="reflect")
    far = np.add.outer(*[np.arange(-RADIUS, RADIUS + 1) ** 2] * 2) / (2 * RADIUS**2)
    for image, strength, filtered in zip(padded, severity, results, strict=True):
        for y in (0, BAND - 1, BAND, 2 * BAND - 1, 2 * BAND, 2 * BAND + 4):
            for x in (0, 17, 39):
                window = image[:, y : y + 2 * RADIUS + 1, x : x + 2 * RADIUS + 1]
                apart = ((window - window[:, RADIUS : RADIUS + 1, RADIUS : RADIUS + 1]) ** 2).sum(axis=0)
                weight = np.exp(-apart / (2 * (COLOUR_SIGMA * strength) ** 2) - far)
                np.testing.assert_allclose(filtered[:, y, x], (window * weight).sum((1, 2)) / weight.sum(), atol=1e-5)


def test_pairs_are_one_after_the_other(images: torch.Tensor) -> None:
    severity, count = torch.full((len(images), 2), 0.5), len(images)
    result = distorted(images, ["lightness", "jpeg"], severity, ImageRng(range(count)))
    rng = ImageRng(range(count))
    first = DISTORTIONS["lightness"](images, severity[:, 0], rng).clamp(0, 1)
    torch.testing.assert_close(result, DISTORTIONS["jpeg"](first, severity[:, 1], rng).clamp(0, 1))
    assert sum(len(family) for family in FAMILIES.values()) == len(DISTORTIONS) == 20


def test_pairs_of_known_order_come_as_judged_choices() -> None:
    data = installed().one("dataset", "distorted-pairs[size=32,per_photograph=3]").build(CPU)
    assert len(data) == 3 * 9 * 3
    groups = data.columns["group"].reshape(-1, 3)
    assert (groups[:, 0] == "").all()
    assert (groups[:, 1] == groups[:, 2]).all()
    images = data.load(list(range(len(data)))).view(-1, 3, 3, 32, 32)
    mild, strong = ((images[:, i] - images[:, 0]).square().flatten(1).mean(dim=1) for i in (1, 2))
    assert float((mild < strong).float().mean()) > 0.6
    assert "not human" in data.proxy


def test_contact_sheets_are_written(tmp_path: Path) -> None:
    words = ["perceptual", "distortions", "--out", str(tmp_path), "--images", "2"]
    result = CliRunner().invoke(cli, [*words, "--dataset", "harness/severity-ladder[severities=[],size=32]"])
    assert result.exit_code == 0, result.output
    assert {f.stem for f in tmp_path.glob("*.png")} == set(DISTORTIONS)
    with Image.open(tmp_path / "jpeg.png") as sheet:
        assert sheet.size == (2 * 36, 6 * 36)


def test_a_ladder_of_a_folder(tmp_path: Path) -> None:
    for number in range(2):
        Image.new("RGB", (90, 80), (90 * number + 30, 60, 120)).save(tmp_path / f"photo{number}.png")
    data = installed().one("dataset", f"folder-ladder[folder={tmp_path},size=32,severities=[5]]").build(CPU)
    assert len(data) == 2 * 5
    assert data.names[0] == "photo0-0"
    with pytest.raises(Unavailable, match="contains no images"):
        installed().one("dataset", f"folder-ladder[folder={tmp_path / 'nothing'}]").require()
