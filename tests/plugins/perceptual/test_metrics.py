"""Full-reference metrics against scikit-image, closed forms and the published LPIPS values."""

from pathlib import Path

import numpy as np
import pytest
import torch
from skimage.io import imread
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from harness.registry import installed

CPU = torch.device("cpu")


def metric(name: str):
    return installed().one("metric", name).build(CPU)


@pytest.fixture(scope="module")
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    from harness.api import ImageSet

    ladder: ImageSet = installed().one("dataset", "severity-ladder[size=192]").build(CPU)
    return ladder.load([1, 6, 30]), ladder.load([0, 0, 21])


def as_array(image: torch.Tensor) -> np.ndarray:
    return image.permute(1, 2, 0).numpy()


def test_ssim_equals_scikit_image(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    expected = [
        structural_similarity(as_array(a), as_array(b), channel_axis=-1, data_range=1)
        for a, b in zip(*pair, strict=True)
    ]
    np.testing.assert_allclose(metric("ssim-uniform7")(*pair).numpy(), expected, atol=1e-4)


def test_psnr_equals_scikit_image(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    expected = [peak_signal_noise_ratio(as_array(b), as_array(a), data_range=1) for a, b in zip(*pair, strict=True)]
    np.testing.assert_allclose(metric("psnr")(*pair).numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"), [("mse", 0.01), ("mae", 0.1), ("linf", 0.1), ("l2", 0.1 * (3 * 49) ** 0.5), ("psnr", 20.0)]
)
def test_a_constant_shift_has_a_closed_form(name: str, expected: float) -> None:
    reference = torch.full((2, 3, 7, 7), 0.5)
    np.testing.assert_allclose(metric(name)(reference + 0.1, reference).numpy(), [expected] * 2, rtol=1e-5)


@pytest.mark.parametrize("name", ["ssim-uniform7", "ms-ssim"])
def test_identical_images_are_fully_similar(name: str, pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    np.testing.assert_allclose(metric(name)(pair[0], pair[0]).numpy(), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["mse", "psnr", "ssim-uniform7", "ms-ssim", "linf", "l2", "mae"])
def test_a_batch_gives_what_single_images_give(name: str, pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    score = metric(name)
    alone = torch.cat([score(a[None], b[None]) for a, b in zip(*pair, strict=True)])
    np.testing.assert_allclose(score(*pair).numpy(), alone.numpy(), rtol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_lpips_gives_the_published_distances(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(shared_data))
    folder = shared_data / "weights" / "lpips-squeeze"
    names = ("ex_ref", "ex_p0", "ex_p1")
    images = [
        torch.from_numpy(imread(folder / f"{n}.png")[..., :3]).permute(2, 0, 1)[None].float() / 255 for n in names
    ]
    found = metric("lpips-squeeze")(torch.cat(images[1:]), torch.cat([images[0]] * 2))
    np.testing.assert_allclose(found.numpy(), [0.71105, 0.14790], atol=2e-5)
