"""Quality metrics with real parameters against slow implementations; sizes and gradients of published architectures."""

import sys
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from scipy.ndimage import convolve
from scipy.signal import convolve2d
from scipy.special import gamma

from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness_iqa.metrics import koncept512
from imharness_iqa.metrics.cnniqa import CnniqaNet, grey_patches
from imharness_iqa.metrics.fpr import FprNet, patches
from imharness_iqa.metrics.koncept512 import KonCeptNet
from imharness_iqa.metrics.linearity import LinearityNet
from imharness_iqa.metrics.meta_iqa import MetaIqaNet
from imharness_iqa.metrics.spaq import SpaqNet, windows
from imharness_iqa.natural_statistics import asymmetric_fit, whole_levels
from imharness_iqa.networks import _detail
from imharness_vision.weights import folded, state_dict

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("assets_at_hand")


def image(path) -> torch.Tensor:
    return torch.from_numpy(np.asarray(Image.open(path).convert("RGB")).copy()).permute(2, 0, 1)[None].float() / 255


@pytest.fixture(scope="module")
def kodak(shared_data) -> torch.Tensor:
    photographs = [image(path) for path in sorted((shared_data / "kodak").glob("*.png"))[:8]]
    return torch.cat([x if x.shape[2] < x.shape[3] else x.transpose(2, 3) for x in photographs])


@pytest.fixture(scope="module")
def distorted(shared_data) -> torch.Tensor:
    return image(shared_data / "weights" / "cnniqa" / "I03_01_1.bmp")


@pytest.fixture(scope="module")
def smooth(kodak) -> torch.Tensor:
    """A blurred photograph of 8 bits, in which neighbours differ by less than a level: rounding luma moves it most."""
    pixels = (kodak[:1] * 255).round().byte()[0].permute(1, 2, 0).numpy()
    return torch.from_numpy(cv2.GaussianBlur(pixels, (0, 0), 1.5)).permute(2, 0, 1)[None].float() / 255


@pytest.mark.parametrize("name", ["cnniqa", "niqe", "brisque"])
def test_a_distorted_photograph_is_worse_than_the_kodak_ones_and_batches_change_nothing(name, kodak, distorted) -> None:
    metric = installed().one("metric", name)
    score = metric.build(CPU)
    with torch.no_grad():
        together, worse = score(kodak), float(score(distorted))
        alone = torch.cat([score(photo[None]) for photo in kodak[::4]])
    torch.testing.assert_close(together[::4], alone, rtol=1e-5, atol=1e-4)
    assert metric.info.higher_means == "worse_quality"
    lower, upper = metric.bounds
    assert worse > float(together.mean()) + 0.05 * (upper - lower)
    assert worse > (float(together.max()) if name != "cnniqa" else float(together.median()))


def test_cnniqa_is_its_authors_way_patch_by_patch(distorted) -> None:
    grey = np.asarray(Image.fromarray(distorted[0].mul(255).byte().permute(1, 2, 0).numpy()).convert("L")) / 255
    network = CnniqaNet()
    from imharness_iqa.metrics.cnniqa import WEIGHTS

    network.load_state_dict(state_dict(WEIGHTS))
    kernel, patches = np.ones((3, 3)) / 9, []
    for y in range(0, grey.shape[0] - 32, 32):
        for x in range(0, grey.shape[1] - 32, 32):
            patch = grey[y : y + 32, x : x + 32]
            mean = convolve2d(patch, kernel, boundary="symm", mode="same")
            power = convolve2d(patch**2, kernel, boundary="symm", mode="same")
            patches.append((patch - mean) / (np.sqrt(np.maximum(power - mean**2, 0)) + 1))
    with torch.no_grad():
        expected = float(network(torch.tensor(np.stack(patches), dtype=torch.float32)[:, None]).mean())
        score = float(installed().one("metric", "cnniqa").build(CPU)(distorted))
    assert score == pytest.approx(expected, abs=0.15)
    assert grey_patches(torch.zeros(2, 1, 20, 70)).shape == (2, 2, 1, 32, 32)


def slow_fit(block: np.ndarray) -> tuple[float, float, float]:
    """Shape and deviations by search over the grid, as the published code does."""
    shapes = np.arange(0.2, 10.001, 0.001)
    ratios = gamma(2 / shapes) ** 2 / (gamma(1 / shapes) * gamma(3 / shapes))
    left_spread, right = (np.sqrt(np.mean(block[side] ** 2)) for side in (block < 0, block > 0))
    g = left_spread / right
    peaked = np.mean(np.abs(block)) ** 2 / np.mean(block**2) * (g**3 + 1) * (g + 1) / (g**2 + 1) ** 2
    return shapes[np.argmin((ratios - peaked) ** 2)], left_spread, right


def test_the_fit_of_a_distribution_finds_what_it_was_drawn_from() -> None:
    rng = np.random.default_rng(0)
    draws = np.stack([rng.normal(0, 0.5, 40_000), rng.laplace(0, 1, 40_000), rng.uniform(-1, 2, 40_000)])
    shape, left_spread, right = asymmetric_fit(torch.tensor(draws, dtype=torch.float32))
    assert shape[:2].tolist() == pytest.approx([2, 1], rel=0.05)
    assert left_spread[0] == pytest.approx(0.5, rel=0.02)
    assert right[2] == pytest.approx(2 / 3**0.5, rel=0.02)
    for row, *fitted in zip(draws, shape, left_spread, right, strict=True):
        assert fitted == pytest.approx(slow_fit(row), abs=2e-3)


@pytest.mark.parametrize("photograph", ["distorted", "smooth"])
def test_niqe_is_the_published_way_block_by_block(photograph, request, shared_data) -> None:
    photo = request.getfixturevalue(photograph)
    stored = np.load(shared_data / "natural-statistics" / "niqe_pris_params.npz")
    y = ((photo[0].permute(1, 2, 0).double().numpy() @ np.array([65.481, 128.553, 24.966])) + 16).round()
    y = y[: y.shape[0] // 96 * 96, : y.shape[1] // 96 * 96]
    features = []
    for scale in (1, 2):
        window = stored["gaussian_window"]
        mean = convolve(y, window, mode="nearest")
        deviation = np.sqrt(np.abs(convolve(y * y, window, mode="nearest") - mean**2))
        normal, side = (y - mean) / (deviation + 1), 96 // scale
        block_features = []
        for top in range(0, y.shape[0], side):
            for start in range(0, y.shape[1], side):
                block = normal[top : top + side, start : start + side]
                a, left_spread, right = slow_fit(block)
                numbers = [a, (left_spread + right) / 2 * np.sqrt(gamma(1 / a) / gamma(3 / a))]
                for shift in ((0, 1), (1, 0), (1, 1), (1, -1)):
                    a, left_spread, right = slow_fit(block * np.roll(block, shift, (0, 1)))
                    left_spread, right = (s * np.sqrt(gamma(1 / a) / gamma(3 / a)) for s in (left_spread, right))
                    numbers += [a, (right - left_spread) * gamma(2 / a) / gamma(1 / a), left_spread, right]
                block_features.append(numbers)
        features.append(np.array(block_features))
        height, width = y.shape
        y = np.asarray(
            Image.fromarray(y.astype(np.float32)).resize((width // 2, height // 2), Image.Resampling.BICUBIC),
            dtype=float,
        )
    all_features = np.concatenate(features, axis=1)
    difference = stored["mu_pris_param"][0] - all_features.mean(axis=0)
    inverse = np.linalg.pinv((stored["cov_pris_param"] + np.cov(all_features, rowvar=False)) / 2)
    with torch.no_grad():
        score = float(installed().one("metric", "niqe").build(CPU)(photo))
    assert score == pytest.approx(float(np.sqrt(difference @ inverse @ difference)), abs=0.02)


@pytest.mark.parametrize("photograph", ["distorted", "smooth"])
def test_brisque_is_opencvs_features_through_its_machine(photograph, request) -> None:
    from sklearn.metrics.pairwise import rbf_kernel

    from imharness_iqa.metrics.brisque import RANGE, machine, opened

    photo = request.getfixturevalue(photograph)
    grey = cv2.cvtColor((photo[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8), cv2.COLOR_RGB2GRAY)
    features, scaled = [], grey.astype(np.float32) / 255
    for scale in (1, 2):
        size = (grey.shape[1] // scale, grey.shape[0] // scale)
        x = cv2.resize(scaled, size, interpolation=cv2.INTER_CUBIC)
        mean = cv2.GaussianBlur(x, (7, 7), 7 / 6, borderType=cv2.BORDER_REPLICATE)
        power = cv2.GaussianBlur(x * x, (7, 7), 7 / 6, borderType=cv2.BORDER_REPLICATE)
        normal = (x - mean) / (np.sqrt(np.maximum(power - mean**2, 0)) + 1 / 255)
        a, left_spread, right = slow_fit(normal)
        features += [a, (left_spread**2 + right**2) / 2]
        padded = np.pad(normal, 1)
        for down, across in ((0, 1), (1, 0), (1, 1), (-1, 1)):
            other = padded[1 + down : 1 + down + normal.shape[0], 1 + across : 1 + across + normal.shape[1]]
            a, left_spread, right = slow_fit(normal * other)
            mean_ = (right - left_spread) * gamma(2 / a) / gamma(1 / a) * np.sqrt(gamma(1 / a) / gamma(3 / a))
            features += [a, mean_, left_spread**2, right**2]
    storage = opened(RANGE)
    low, high = storage.getNode("range").mat()
    point = 2 * (np.array(features) - low) / (high - low) - 1
    vectors, weights, offset, width = machine()
    expected = float(weights @ rbf_kernel(vectors, point[None], gamma=width)[:, 0] - offset)
    with torch.no_grad():
        assert float(installed().one("metric", "brisque").build(CPU)(photo)) == pytest.approx(expected, abs=0.2)


def test_levels_are_rounded_and_their_gradient_is_that_of_the_identity() -> None:
    levels = torch.tensor([0.2, 17.49, 254.6], requires_grad=True)
    rounded = whole_levels(levels)
    assert rounded.tolist() == [0, 17, 255]
    (gradient,) = torch.autograd.grad(rounded.square().sum(), levels)
    assert gradient.tolist() == [0, 34, 510]


@pytest.mark.parametrize(
    ("network", "view", "millions"),
    [
        (MetaIqaNet, lambda x: x, 13.2),
        (SpaqNet, lambda x: windows(x)[:, 0], 23.5),
        (LinearityNet, lambda x: x, 90.5),
        (KonCeptNet, lambda x: x, 59.82),
        (FprNet, patches, None),
    ],
)
def test_a_published_architecture_has_its_size_a_gradient_and_a_round_trip(
    network, view, millions, monkeypatch
) -> None:
    monkeypatch.setattr(koncept512, "SIZE", (299, 299))  # the smallest that its last pooling takes
    torch.manual_seed(0)
    first = network().eval()
    with torch.device("meta"):  # its initial weights are replaced below
        second = network().eval()
    if millions:
        assert sum(p.numel() for p in first.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)
    stored = first.state_dict()
    assert all(type(tensor) is torch.Tensor for tensor in stored.values())  # a file of weights can hold nothing else
    second.load_state_dict(stored, strict=True, assign=True)
    images = torch.rand(2, 3, 64, 128, generator=torch.Generator().manual_seed(1)).requires_grad_(True)
    score = first(view(images))
    assert score.shape == (2,)
    with torch.no_grad():
        torch.testing.assert_close(second(view(images[:1])), score[:1], rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(score.sum(), images)
    assert (gradient.flatten(1).abs().amax(dim=1) > 0).all()


def test_windows_and_patches_cover_what_they_should() -> None:
    ramp = torch.arange(500.0).view(1, 1, 1, 500).expand(1, 3, 230, 500)
    views = windows(ramp)
    assert views.shape == (1, 8, 3, 224, 224)
    assert views[0, :4, 0, 0, 0].tolist() == [0, 112, 224, 276]
    cut = patches(ramp)
    assert cut.shape == (1, 21, 3, 64, 64)
    assert cut[0, :7, 0, 0, 0].tolist() == [0, 64, 128, 192, 256, 320, 384]


def test_folding_batch_norms_changes_no_score_and_leaves_none() -> None:
    from torchvision.models import resnet18

    torch.manual_seed(0)
    network = resnet18(num_classes=1)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = network.eval()(images)
        small = folded(network)
        torch.testing.assert_close(small(images), expected, rtol=1e-3, atol=1e-4)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in small.modules())


def test_bounds_are_those_of_the_papers_table_of_metrics() -> None:
    published = {
        "meta-iqa": (0, 1), "maniqa": (0, 1), "koncept512": (26.40, 66.87), "spaq": (21.75, 77.75),
        "paq2piq": (58.38, 84.17), "linearity": (25.78, 83.23), "fpr": (47.22, 77.05), "clip-iqa-plus": (0, 1),
        "topiq": (0.22, 0.82),
    }  # fmt: skip
    for name, bounds in published.items():
        assert installed().one("metric", name).bounds == pytest.approx(bounds, abs=0.01), name


def uniform_crop(images: torch.Tensor, crop_size: int) -> torch.Tensor:
    """Crop as a network of pyiqa does, but to NaN: the metric must replace this function of the network's module."""
    return images[:, :, :crop_size, :crop_size] * torch.nan


def test_maniqa_sees_the_whole_image_at_224_pixels_as_published(monkeypatch) -> None:
    seen = []

    class Network(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            images = uniform_crop(images, crop_size=224)
            seen.append(tuple(images.shape))
            return images.mean(dim=(1, 2, 3))[:, None]

    def create_metric(name: str, device: torch.device, as_loss: bool) -> torch.nn.Module:
        metric = torch.nn.Module()
        metric.net = Network()
        return metric

    monkeypatch.setitem(sys.modules, "pyiqa", SimpleNamespace(create_metric=create_metric))
    images = torch.rand(2, 3, 96, 128, generator=generator(0))
    scores = installed().one("metric", "maniqa").build(CPU)(images)
    assert seen == [(2, 3, 224, 224)]
    torch.testing.assert_close(scores, images.mean(dim=(1, 2, 3)), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("size", [(3, 3), (7, 12)])
def test_detail_is_what_a_mirrored_box_filter_removes_and_so_is_its_gradient(size: tuple[int, int]) -> None:
    images = torch.rand(2, 3, *size, generator=generator(0), dtype=torch.float64, requires_grad=True)
    plain = 8 * (images - F.avg_pool2d(F.pad(images, [2] * 4, mode="reflect"), 5, 1))
    torch.testing.assert_close(_detail(images), plain)
    upstream = torch.rand(images.shape, generator=generator(1), dtype=torch.float64)
    expected = torch.autograd.grad(plain, images, upstream)
    torch.testing.assert_close(torch.autograd.grad(_detail(images), images, upstream), expected)
