"""Purifications against independent implementations, on real photographs."""

import io
import threading
import time

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from imharness.cli.commands import context
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator
from imharness_iqa import steps
from imharness_iqa.defenses import jpeg
from imharness_iqa.defenses.color_quantization import ColorQuantization

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def photographs() -> np.ndarray:
    """uint8 ``(4, 90, 122, 3)``: neither side is a multiple of 8."""
    from skimage.data import astronaut, chelsea, coffee, rocket

    return np.stack(
        [np.ascontiguousarray(photo()[100:190, 80:202, :3]) for photo in (astronaut, chelsea, coffee, rocket)]
    )


def purified(label: str, photographs: np.ndarray) -> np.ndarray:
    """Return float ``(N, H, W, 3)`` in grey levels."""
    images = torch.tensor(photographs).permute(0, 3, 1, 2).float() / 255
    purified_images = installed().one("defense", label).build(CPU)(images, ImageRng(range(len(images))))
    return purified_images.permute(0, 2, 3, 1).mul(255).numpy()


def one_by_one(function, photographs: np.ndarray) -> np.ndarray:
    return np.stack([function(photo) for photo in photographs]).astype(np.float64)


@pytest.mark.parametrize("kernel", [3, 7])
def test_median_is_opencvs(photographs: np.ndarray, kernel: int) -> None:
    margin = kernel // 2

    def median(photo: np.ndarray) -> np.ndarray:
        mirrored = cv2.copyMakeBorder(photo, margin, margin, margin, margin, cv2.BORDER_REFLECT_101)
        return cv2.medianBlur(mirrored, kernel)[margin:-margin, margin:-margin]

    expected = one_by_one(median, photographs)
    np.testing.assert_allclose(purified(f"median-blur[kernel={kernel}]", photographs), expected, atol=1e-3)


@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_the_median_of_values_between_grey_levels_is_that_of_their_windows(kernel: int) -> None:
    images = torch.rand(2, 3, 20, 24, generator=generator(0))
    padded = torch.nn.functional.pad(images, [kernel // 2] * 4, mode="reflect")
    expected = padded.unfold(2, kernel, 1).unfold(3, kernel, 1).flatten(-2).median(dim=-1).values
    purify = installed().one("defense", f"median-blur[kernel={kernel}]").build(CPU)
    assert torch.equal(purify(images, ImageRng(range(2))), expected)


@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize(("count", "size"), [(3, (19, 23)), (2, (200, 250))])
def test_medians_are_those_of_windows_few_planes_at_a_time(kernel: int, count: int, size: tuple[int, int]) -> None:
    """With a gradient, kernels above 3 take the median of each window; without one, OpenCV filters where it can."""
    levels = torch.randint(0, 256, (count, 3, *size), generator=generator(1)) / 255
    between = levels.clone()
    between[-1, 1, -1, -1] = 0.1
    for images in (levels, between):
        leaf = images.clone().requires_grad_(True)
        purify = installed().one("defense", f"median-blur[kernel={kernel}]").build(CPU)
        rng = ImageRng(range(count))
        assert torch.equal(purify(images, rng), purify(leaf, rng).detach())


@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_the_median_of_what_is_no_number_is_none(kernel: int) -> None:
    images = torch.full((2, 3, 16, 16), 0.4)
    images[0, 0, 8, 8] = torch.nan
    filtered = installed().one("defense", f"median-blur[kernel={kernel}]").build(CPU)(images, ImageRng(range(2)))
    assert int(filtered.isnan().sum()) == kernel * kernel


@pytest.mark.parametrize("kernel", [3, 5])
def test_the_gradient_of_a_median_is_that_of_sorted_windows(kernel: int) -> None:
    images = torch.rand(2, 3, 12, 14, generator=generator(0))
    weights = torch.rand(images.shape, generator=generator(1))
    purify = installed().one("defense", f"median-blur[kernel={kernel}]").build(CPU)

    def by_sorting(leaf: torch.Tensor) -> torch.Tensor:
        padded = torch.nn.functional.pad(leaf, [kernel // 2] * 4, mode="reflect")
        windows = padded.unfold(2, kernel, 1).unfold(3, kernel, 1).flatten(-2)
        return windows.sort(dim=-1).values[..., kernel * kernel // 2]

    ways = (lambda leaf: purify(leaf, ImageRng(range(2))), by_sorting)
    leaves = [images.clone().requires_grad_(True) for _ in ways]
    gradient, expected = (
        torch.autograd.grad((way(leaf) * weights).sum(), leaf)[0] for way, leaf in zip(ways, leaves, strict=True)
    )
    torch.testing.assert_close(gradient, expected)


def test_equal_values_share_the_gradient_of_their_median() -> None:
    leaf = torch.full((1, 3, 7, 7), 0.5, requires_grad=True)
    purify = installed().one("defense", "median-blur[kernel=3]").build(CPU)
    (gradient,) = torch.autograd.grad(purify(leaf, ImageRng(range(1)))[0, 0, 3, 3], leaf)
    expected = torch.zeros_like(gradient)
    expected[0, 0, 2:5, 2:5] = 1 / 9
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("kernel", [3, 11])
def test_gaussian_blur_is_opencvs(photographs: np.ndarray, kernel: int) -> None:
    def blur(photo: np.ndarray) -> np.ndarray:
        sigma = 0.15 * kernel + 0.35
        return cv2.GaussianBlur(photo.astype(np.float64), (kernel, kernel), sigma, borderType=cv2.BORDER_REFLECT_101)

    np.testing.assert_allclose(
        purified(f"gaussian-blur[kernel={kernel}]", photographs), one_by_one(blur, photographs), atol=1e-3
    )


def test_unsharp_adds_what_the_blur_takes_away(photographs: np.ndarray) -> None:
    def sharpen(photo: np.ndarray) -> np.ndarray:
        exact = photo.astype(np.float64)
        return np.clip(2 * exact - cv2.GaussianBlur(exact, (5, 5), 1.0, borderType=cv2.BORDER_REFLECT_101), 0, 255)

    np.testing.assert_allclose(purified("unsharp[kernel=5]", photographs), one_by_one(sharpen, photographs), atol=1e-3)


@pytest.mark.parametrize("npp", [2, 16])
def test_color_quantization_leaves_npp_levels(photographs: np.ndarray, npp: int) -> None:
    expected = np.rint(photographs / 255 * (npp - 1)) / (npp - 1) * 255
    np.testing.assert_allclose(purified(f"color-quantization[npp={npp}]", photographs), expected, atol=1e-3)


@pytest.mark.parametrize("npp", [3, 16, 256])
def test_color_quantization_is_the_same_on_a_cpu_and_elsewhere(npp: int) -> None:
    halves = (torch.arange(2 * npp - 1) / (2 * npp - 2)).repeat(6)  # half of them lie between two levels
    images = torch.cat([halves, torch.rand(3 * 5000, generator=generator(0))])[: 3 * 5000].reshape(1, 100, 50, 3)
    batch = images.permute(0, 3, 1, 2).requires_grad_(True)
    quantized = ColorQuantization(npp=npp).build(torch.device("cpu"))(batch, ImageRng([0]))
    assert torch.equal(quantized, (batch.detach() * (npp - 1)).round() / (npp - 1))


def test_flip_mirrors_both_axes(photographs: np.ndarray) -> None:
    np.testing.assert_allclose(purified("flip", photographs), photographs[:, ::-1, ::-1], atol=1e-3)


def test_rotation_is_torchvisions_with_its_default_of_nearest_neighbours(photographs: np.ndarray) -> None:
    from torchvision.transforms.functional import rotate

    angles = 30 * (2 * ImageRng(range(4)).uniform() - 1)
    images = torch.tensor(photographs).permute(0, 3, 1, 2)
    turned = [rotate(photo, float(angle)) for photo, angle in zip(images, angles, strict=True)]
    expected = torch.stack(turned).permute(0, 2, 3, 1).numpy()
    assert (np.abs(purified("rotate[limit=30]", photographs) - expected) < 1e-3).mean() > 0.99


def test_resize_is_pillows_and_upscale_comes_back_to_size(photographs: np.ndarray) -> None:
    def shrink(photo: np.ndarray) -> np.ndarray:
        return np.asarray(Image.fromarray(photo).resize((61, 45), Image.Resampling.BILINEAR))

    np.testing.assert_allclose(purified("resize", photographs), one_by_one(shrink, photographs), atol=1.01)
    assert purified("resize[scale=0.01]", photographs).shape == (4, 8, 8, 3)
    back = purified("upscale", photographs)
    assert back.shape == photographs.shape
    assert 1 < np.abs(back - photographs).mean() < 20


def test_crop_is_a_window_of_its_image_and_knows_small_ones(photographs: np.ndarray) -> None:
    squares = purified("crop[size=20]", photographs)
    places = set()
    for square, photo in zip(squares, photographs, strict=True):
        score = cv2.matchTemplate(photo.astype(np.float32), square.astype(np.float32), cv2.TM_SQDIFF)
        top, left_edge = np.unravel_index(score.argmin(), score.shape)
        np.testing.assert_allclose(square, photo[top : top + 20, left_edge : left_edge + 20], atol=1e-3)
        places.add((top, left_edge))
    assert len(places) == 4
    assert purified("crop[size=100]", photographs).shape == (4, 90, 100, 3)


def through_pillow(photo: np.ndarray, quality: int) -> np.ndarray:
    code = io.BytesIO()
    Image.fromarray(photo).save(code, "JPEG", quality=quality)
    return np.asarray(Image.open(code))


def test_jpeg_is_pillows_and_diffjpeg_comes_near(photographs: np.ndarray) -> None:
    expected = one_by_one(lambda photo: through_pillow(photo, 50), photographs)
    np.testing.assert_array_equal(purified("jpeg", photographs).round(), expected)
    error = np.square(purified("diffjpeg", photographs) - expected).mean(axis=(1, 2, 3))
    assert (10 * np.log10(255**2 / error) > 30).all()


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (8, 8), (15, 17), (33, 16), (64, 90)])
def test_jpeg_is_pillows_to_the_bit_at_every_quality(photographs: np.ndarray, size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).random((1, 3, *size), dtype=np.float32)
    cut = torch.tensor(photographs[:1, : size[0], : size[1]]).permute(0, 3, 1, 2) / 255
    images = torch.cat([torch.from_numpy(noise), cut, torch.full_like(cut, 0.5)])
    levels = images.mul(255).round().byte().permute(0, 2, 3, 1).numpy()
    for quality in range(1, 101):
        compressed = installed().one("defense", f"jpeg[quality={quality}]").build(CPU)(images, ImageRng(range(3)))
        expected = np.stack([through_pillow(photo, quality) for photo in levels])
        assert torch.equal(compressed, torch.from_numpy(expected).permute(0, 3, 1, 2) / 255), quality


def test_jpeg_by_threads_beside_an_accelerator_has_the_same_pixels(photographs: np.ndarray, monkeypatch) -> None:
    used, through = set(), jpeg._through_jpeg

    def noted(image: np.ndarray, quality: int) -> np.ndarray:
        used.add(threading.get_ident())
        time.sleep(0.01)
        return through(image, quality)

    monkeypatch.setattr(jpeg, "_through_jpeg", noted)
    monkeypatch.setattr(jpeg.os, "cpu_count", lambda: 3)
    images = torch.from_numpy(photographs).permute(0, 3, 1, 2).float().div(255).repeat(3, 1, 1, 1)
    images = images * torch.linspace(0.2, 1, len(images)).view(-1, 1, 1, 1)
    results = []
    for name, count in (("cpu", 1), ("cuda", 3)):
        used.clear()
        results.append(jpeg.Jpeg().build(torch.device(name))(images, ImageRng(range(len(images)))))
        assert len(used) == count
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_diffjpeg_is_near_pillow_on_the_kodak_photographs(shared_data) -> None:
    paths = sorted((shared_data / "kodak").glob("*.png"))[:6]
    for path in paths:
        photo = np.asarray(Image.open(path).convert("RGB"))[None]
        code = io.BytesIO()
        Image.fromarray(photo[0]).save(code, "JPEG", quality=50)
        error = np.square(purified("diffjpeg", photo)[0] - np.asarray(Image.open(code), dtype=np.float64)).mean()
        assert 10 * np.log10(255**2 / error) >= 35, path.name


def test_noise_has_its_deviation_and_rotation_its_limit(photographs: np.ndarray) -> None:
    grey = np.full((4, 90, 122, 3), 128, dtype=np.uint8)
    noise = purified("random-noise[sigma=0.05]", grey) - 128
    assert noise.std() == pytest.approx(0.05 * 255, rel=0.02)
    turned = purified("rotate[limit=1e-6]", photographs)
    np.testing.assert_allclose(turned, photographs, atol=0.1)
    assert np.abs(purified("rotate[limit=30]", photographs) - photographs).mean() > 5


@pytest.mark.parametrize("label", ["gaussian-blur[kernel=4]", "median-blur[kernel=4]", "unsharp[kernel=2]"])
def test_even_kernels_are_refused(label: str) -> None:
    from imharness.errors import UsageError

    with pytest.raises(UsageError, match=r"must be odd|greater than or equal"):
        installed().one("defense", label)


def test_grey_images_given_as_rgb_stay_near_grey_under_what_works_channel_by_channel(photographs: np.ndarray) -> None:
    grey = np.repeat(photographs[..., :1], 3, axis=-1)
    for name in (
        "jpeg",
        "diffjpeg",
        "gaussian-blur",
        "median-blur",
        "unsharp",
        "resize",
        "upscale",
        "color-quantization",
    ):
        cleaned = purified(name, grey)
        assert np.isfinite(cleaned).all()
        assert np.abs(cleaned - cleaned.mean(axis=-1, keepdims=True)).max() < 3, name


def test_what_moves_pixels_is_compared_as_it_is_and_moved_back() -> None:
    """A mirrored photograph is far from the original, at 14 dB, and identical to it once it is mirrored back.

    Identical images have 160 dB, the end of the scale. A resized one is enlarged for both comparisons.
    """
    registry, scores = installed(), {}
    for label in ("flip", "rotate", "resize"):
        roles = {
            "dataset": registry.one("dataset", "severity-ladder[severities=[],size=96]"),
            "defense": registry.one("defense", label),
            "distance.psnr": registry.one("metric", "harness/psnr"),
        }
        rows = steps.purify(context(roles, device="cpu", limit=4)).rows
        scores[label] = np.asarray(rows["psnr"]), np.asarray(rows["psnr_undone"])
    raw, undone = scores["flip"]
    assert raw.mean() == pytest.approx(14, abs=2)
    np.testing.assert_allclose(undone, 160, atol=1e-3)
    raw, undone = scores["rotate"]
    assert (undone > raw + 1).all()
    np.testing.assert_array_equal(*scores["resize"])


def test_a_crop_comes_back_to_its_place(photographs: np.ndarray) -> None:
    images = torch.tensor(photographs).permute(0, 3, 1, 2).float() / 255
    crop = installed().one("defense", "crop[size=40]")
    squares = crop.build(CPU)(images, ImageRng(range(4)))
    back = crop.inverse(CPU)(squares, tuple(images.shape[1:]), ImageRng(range(4)))
    inside = back > 0
    torch.testing.assert_close(back[inside], images[inside])
    torch.testing.assert_close(back.sum((1, 2, 3)), squares.sum((1, 2, 3)))
