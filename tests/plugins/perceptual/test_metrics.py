"""Full-reference metrics against scikit-image, closed forms and the published LPIPS values."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import correlate
from scipy.signal import fftconvolve
from skimage.io import imread
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from imharness.components.registry import installed
from imharness.errors import Unavailable, UsageError
from imharness_perceptual.metrics import fsim

CPU = torch.device("cpu")


def metric(name: str):
    return installed().one("metric", name).build(CPU)


@pytest.fixture(scope="module")
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    from imharness.data import ImageSet

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


def authors_ms_ssim(x: np.ndarray, y: np.ndarray) -> float:
    """MS-SSIM of two planes as the authors' MATLAB code has it: `filter2` valid, `imfilter` symmetric, every second."""
    weights, line = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333), np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    window, total = np.outer(line, line) / line.sum() ** 2, 1.0
    for scale, weight in enumerate(weights, start=1):
        a, b, aa, bb, ab = (fftconvolve(z, window, mode="valid") for z in (x, y, x * x, y * y, x * y))
        terms = (2 * (ab - a * b) + 0.03**2) / (aa - a * a + bb - b * b + 0.03**2)
        if scale == len(weights):
            terms *= (2 * a * b + 0.01**2) / (a * a + b * b + 0.01**2)
        total *= terms.mean() ** weight
        x, y = (correlate(z, np.full((2, 2), 0.25), mode="reflect", origin=-1)[::2, ::2] for z in (x, y))
    return float(total)


@pytest.mark.parametrize("side", [192, 161, 170])
def test_ms_ssim_is_its_authors_plane_by_plane(pair: tuple[torch.Tensor, torch.Tensor], side: int) -> None:
    images, reference = (x[:, :, :side, : side + 2] for x in pair)
    expected = [
        np.mean([authors_ms_ssim(*planes) for planes in zip(a, b, strict=True)])
        for a, b in zip(images.double().numpy(), reference.double().numpy(), strict=True)
    ]
    np.testing.assert_allclose(metric("ms-ssim")(images, reference).numpy(), expected, atol=1e-5)


def test_ms_ssim_has_the_score_and_the_gradient_of_piq(pair: tuple[torch.Tensor, torch.Tensor]) -> None:
    from piq import multi_scale_ssim

    images, reference = pair[0].clone().requires_grad_(True), pair[1]
    expected = multi_scale_ssim(images, reference, data_range=1.0, reduction="none").reshape(-1)
    score = metric("ms-ssim")(images, reference)
    torch.testing.assert_close(score, expected, rtol=0, atol=1e-5)
    slope, gradient = (torch.autograd.grad(x.sum(), images)[0] for x in (expected, score))
    torch.testing.assert_close(gradient, slope, rtol=0, atol=1e-3 * float(slope.abs().max()))


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
    distances = metric("lpips[net=squeeze]")(torch.cat(images[1:]), torch.cat([images[0]] * 2))
    np.testing.assert_allclose(distances.numpy(), [0.71105, 0.14790], atol=2e-5)


@pytest.mark.parametrize("net", ["alex", "vgg", "squeeze"])
def test_lpips_is_that_of_the_package(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import lpips

    from imharness_vision import lpips as ours

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = lpips.LPIPS(net=net, pnet_rand=True, lpips=True, verbose=False)
    state = {".".join(name.split(".")[1:]): tensor for name, tensor in theirs.net.state_dict().items()}
    prefix = ours.BACKBONES[net][1]
    monkeypatch.setattr(ours, "state_dict", lambda asset: {f"{prefix}{name}": t for name, t in state.items()})
    images, reference = torch.rand(2, 3, 64, 64), torch.rand(2, 3, 64, 64)
    reached = []
    for heads in (True, False):
        theirs.lpips = heads
        with torch.no_grad():
            expected = theirs(images, reference, normalize=True).flatten()
            distances = ours.published(net, heads=heads)(images, reference)
        torch.testing.assert_close(distances, expected, rtol=1e-4, atol=1e-6)
        reached.append(expected)
    assert (reached[1] > 2 * reached[0]).all()  # without heads, all channels weigh 1


def test_one_reference_serves_many_images_and_its_features_are_computed_once() -> None:
    from imharness_vision.lpips import untrained

    network = untrained("embedded")
    images, reference = torch.rand(4, 3, 32, 32), torch.rand(1, 3, 32, 32)
    seen = []
    network.backbone.register_forward_hook(lambda module, inputs, maps: seen.append(len(inputs[0])))
    with torch.no_grad():
        shared = network(images, reference.expand(4, -1, -1, -1))
        whole = network(images, reference.repeat(4, 1, 1, 1))
    torch.testing.assert_close(shared, whole)
    assert seen == [4, 1, 4, 4]


@pytest.mark.parametrize("size", [(48, 61), (390, 400)])
def test_fsim_and_its_gradient_are_those_of_piq(size: tuple[int, int]) -> None:
    from piq import fsim

    rng = torch.Generator().manual_seed(0)
    coarse = torch.rand(3, 3, size[0] // 6, size[1] // 6, generator=rng)
    reference = torch.nn.functional.interpolate(coarse, size, mode="bicubic").clamp(0, 1)
    images = (reference + 0.05 * torch.randn(reference.shape, generator=rng)).clamp(0, 1).requires_grad_(True)
    ours, theirs = metric("fsim")(images, reference), fsim(images, reference, reduction="none", data_range=1.0)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    slopes = [torch.autograd.grad(score.sum(), images)[0] for score in (ours, theirs)]
    assert float((slopes[0] - slopes[1]).norm() / slopes[1].norm()) < 1e-4


def test_fsim_compares_as_many_images_at_a_time_as_memory_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = torch.rand(64, 3, 64, 64), torch.empty(64, 3, 384, 512)
    assert [fsim._at_once(images) for images in (small, large, large.to("meta"))] == [32, 2, 85]
    assert fsim._at_once(torch.empty(1, 3, 30_000, 250, device="meta")) == 1
    whole = metric("fsim")(small[:5], small[5:10])
    monkeypatch.setattr(fsim, "AT_ONCE_ON_CPU", 2 * 64 * 64)
    torch.testing.assert_close(metric("fsim")(small[:5], small[5:10]), whole, rtol=1e-6, atol=0)


def test_fsim_of_a_flat_image_has_a_gradient() -> None:
    flat = torch.full((1, 3, 32, 32), 0.5).requires_grad_(True)
    (slope,) = torch.autograd.grad(metric("fsim")(flat, torch.rand(1, 3, 32, 32)).sum(), flat)
    assert torch.isfinite(slope).all()


def test_fsim_is_one_for_equal_images_and_falls_with_noise() -> None:
    score, images = metric("fsim"), torch.rand(2, 3, 64, 64)
    scores = [float(score((images + s * torch.randn(images.shape)).clamp(0, 1), images).mean()) for s in (0, 0.1, 0.4)]
    assert scores[0] == pytest.approx(1, abs=1e-5)
    assert scores[0] > scores[1] > scores[2]


def test_a_variant_that_has_no_weights_takes_none() -> None:
    with pytest.raises(UsageError, match="no weights of its own"):
        installed().one("metric", "lpips[net=squeeze,variant=random,weights=x.safetensors]")
    with pytest.raises(Unavailable, match="tune on alex"):
        installed().one("metric", "lpips[variant=tune]").require()


@pytest.mark.parametrize("size", [(512, 768), (300, 257), (257, 999), (256, 900), (40, 400)])
def test_dists_shrinks_as_its_authors_do(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their program resizes the 8-bit image; ours keeps what rounding would lose, so that gradients pass."""
    from torchvision.transforms.functional import resize

    from imharness_perceptual.metrics import dists

    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    theirs = np.asarray(resize(image, 256) if min(image.size) > 256 else image)
    seen = []
    monkeypatch.setattr(dists, "dists", lambda device: lambda x, y: seen.extend((x, y)))
    batch = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255
    dists.DistsMetric().build(torch.device("cpu"))(batch, batch.flip(3))
    for ours, wanted in zip(seen, (theirs, theirs[:, ::-1]), strict=True):
        away = ours[0].permute(1, 2, 0).numpy() * 255 - wanted
        assert np.abs(away).max() < 1.01
        assert np.abs(away).mean() < 0.5
