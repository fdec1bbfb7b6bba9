"""The learned purifications: loading of files in the published layouts, and algorithms beside slow ones."""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from imharness.components.registry import installed
from imharness.contracts.assets import Asset
from imharness.contracts.randomness import ImageRng
from imharness.errors import Unavailable
from imharness_iqa.attacks.cadv import clusters
from imharness_iqa.colorizer import BINS, Colorizer, to_lab, to_rgb
from imharness_iqa.defenses import diffpure, disco, fcn, mprnet, real_esrgan
from imharness_iqa.networks import restorer
from imharness_iqa.restorers import ColourFilter, LocalImplicit, SmallUpscaler
from imharness_vision.diffusion import GuidedUNet, Schedule
from imharness_vision.perceptual import Dists, normalised
from imharness_vision.weights import state_dict

CPU = torch.device("cpu")


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("name", "module", "network", "wrap"),
    [
        ("disco", disco, LocalImplicit, lambda tensors: {"model": {"name": "liif", "args": {}, "sd": tensors}}),
        ("fcn", fcn, ColourFilter, lambda tensors: {"model": tensors}),
    ],
)
def test_published_weights_are_loaded_in_their_layout(name, module, network, wrap, tmp_path, monkeypatch) -> None:
    torch.manual_seed(0)
    source = network().eval()
    path = tmp_path / module.WEIGHTS.file
    path.parent.mkdir(parents=True)
    torch.save(wrap(source.state_dict()), path)
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    purify = installed().one("defense", name).build(CPU)
    images = noise(2, 3, 20, 26)
    with torch.no_grad():
        torch.testing.assert_close(purify(images, ImageRng([1, 2])), source(images).clamp(0, 1))


def compact() -> torch.nn.Module:
    from spandrel.architectures.Compact import CompactArch  # noqa: F401
    from spandrel.architectures.Compact.__arch.SRVGG import SRVGGNetCompact

    return SRVGGNetCompact(num_in_ch=3, num_out_ch=3, num_feat=8, num_conv=4, upscale=4, act_type="prelu").eval()


def test_real_esrgan_blends_two_networks_and_shrinks_back(tmp_path, monkeypatch) -> None:
    torch.manual_seed(0)
    nets = [compact() for _ in range(2)]
    for asset, net in zip((real_esrgan.GENERAL, real_esrgan.DENOISING), nets, strict=True):
        (tmp_path / asset.file).parent.mkdir(parents=True, exist_ok=True)
        torch.save({"params": net.state_dict()}, tmp_path / asset.file)
    monkeypatch.setattr(Asset, "fits", lambda asset, digest: True)
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    blended, images = compact(), noise(1, 3, 10, 12)
    first, second = (net.state_dict() for net in nets)
    blended.load_state_dict({name: 0.2 * tensor + 0.8 * second[name] for name, tensor in first.items()})
    with torch.no_grad():
        large = blended(images).clamp(0, 1)
        expected = F.interpolate(large, (10, 12), mode="bicubic", antialias=True).clamp(0, 1)
        torch.testing.assert_close(real_esrgan.RealEsrgan().build(CPU)(images, ImageRng([0])), expected)


def test_weights_of_another_network_of_the_package_are_refused(tmp_path, monkeypatch) -> None:
    path = tmp_path / mprnet.WEIGHTS.file
    path.parent.mkdir(parents=True)
    torch.save({}, path)
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    with pytest.raises(Unavailable, match="holds no weights of MPRNet: they are Compact's"):
        restorer(compact().state_dict(), mprnet.WEIGHTS, "MPRNet")
    with pytest.raises(Unavailable, match="holds no weights of MPRNet: "):
        restorer({"other.weight": torch.zeros(3)}, mprnet.WEIGHTS, "MPRNet")


def test_the_local_implicit_function_is_the_blend_of_four_neighbours() -> None:
    """The published query: every pixel asks the four nearest features, weighted by the areas of opposite corners."""
    torch.manual_seed(0)
    network = LocalImplicit(width=4, blocks=1, hidden=8, layers=2).eval()
    images = noise(1, 3, 6, 7)
    height, width = 6, 7
    with torch.no_grad():
        features = F.unfold(network.encoder(2 * images - 1), 3, padding=1).view(1, -1, height, width)
        rows, columns = ((torch.arange(n) * 2 + 1) / n - 1 for n in (height, width))
        coordinates = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), dim=-1).view(1, -1, 2)
        grid = coordinates.view(1, height, width, 2).permute(0, 3, 1, 2)
        answers, areas = [], []
        for vx in (-1, 1):
            for vy in (-1, 1):
                shifted = coordinates + torch.tensor([vx / height, vy / width]) + 1e-6
                points = shifted.clamp(-1 + 1e-6, 1 - 1e-6).flip(-1)[:, None]
                nearest = F.grid_sample(features, points, mode="nearest", align_corners=False)[:, :, 0].transpose(1, 2)
                at = F.grid_sample(grid, points, mode="nearest", align_corners=False)[:, :, 0].transpose(1, 2)
                offset = (coordinates - at) * torch.tensor([height, width])
                task = torch.full_like(offset, 2.0)
                answers.append(network.imnet.layers(torch.cat([nearest, offset, task], dim=2)))
                areas.append(offset.prod(dim=2).abs() + 1e-9)
        blend = sum(a * w[..., None] for a, w in zip(answers, areas[::-1], strict=True)) / sum(areas)[..., None]
        expected = (blend / 2 + 0.5).transpose(1, 2).view_as(images)
        inner = network(images)[:, :, :-1, :-1]
    torch.testing.assert_close(inner, expected[:, :, :-1, :-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(6, 9), (1, 4)])
def test_the_upscaler_starts_as_repeated_pixels(size: tuple[int, int]) -> None:
    images = noise(2, 3, *size)
    assert torch.allclose(SmallUpscaler()(images), F.interpolate(images, scale_factor=2, mode="nearest"), atol=1e-6)


def test_the_reverse_step_is_the_posterior_of_the_forward_one() -> None:
    schedule = Schedule(torch.tensor([0.1, 0.2, 0.3]))
    clean, draw = torch.full((1, 1, 1, 1), 0.4), torch.full((1, 1, 1, 1), 0.7)
    noisy = schedule.noisy(clean, 2, draw)
    signal_share = 0.9 * 0.8 * 0.7
    assert float(noisy) == pytest.approx(math.sqrt(signal_share) * 0.4 + math.sqrt(1 - signal_share) * 0.7)
    back = schedule.back(lambda x, t: draw, noisy, 2, lambda: torch.zeros(1, 1, 1, 1))
    before = 0.9 * 0.8
    mean = math.sqrt(before) * 0.3 / (1 - signal_share) * 0.4 + math.sqrt(0.7) * (1 - before) / (
        1 - signal_share
    ) * float(noisy)
    assert float(back) == pytest.approx(mean, rel=1e-5)
    spread = schedule.back(
        lambda x, t: torch.cat([draw, torch.ones_like(draw)], 1), noisy, 2, lambda: torch.ones(1, 1, 1, 1)
    )
    assert float(spread) == pytest.approx(mean + math.sqrt(0.3), rel=1e-5)
    last = schedule.back(lambda x, t: draw, schedule.noisy(clean, 0, draw), 0, lambda: torch.ones(1, 1, 1, 1) * 99)
    assert float(last) == pytest.approx(0.4, rel=1e-5)


def test_a_clean_image_that_a_step_implies_ends_at_black_and_white() -> None:
    """The implied image is cut to [-1, 1], also inside the step back, whatever noise the network answers."""
    schedule, flat = Schedule(torch.tensor([0.1, 0.2, 0.3])), torch.zeros(1, 1, 1, 3)
    noise = torch.tensor([-5.0, 0.1, 5.0]).view_as(flat)
    implied = schedule.image(flat, 2, noise)
    signal_share = 0.9 * 0.8 * 0.7
    torch.testing.assert_close(implied, torch.tensor([1.0, -0.1 * math.sqrt(1 / signal_share - 1), -1.0]).view_as(flat))
    back = schedule.back(lambda x, t: noise, flat, 2, lambda: flat)
    torch.testing.assert_close(back, math.sqrt(0.9 * 0.8) * 0.3 / (1 - signal_share) * implied)


def test_memory_for_the_gradient_of_a_purification_grows_by_an_image_a_step_not_by_the_network() -> None:
    schedule, images = Schedule.linear(), noise(1, 3, 16, 16)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.SiLU(), torch.nn.Conv2d(64, 3, 1))
    network.requires_grad_(False)
    saved_bytes = 0

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal saved_bytes
        saved_bytes += tensor.nbytes
        return tensor

    def gradient(steps: int, purified) -> torch.Tensor:
        nonlocal saved_bytes
        saved_bytes, rng, leaf = 0, torch.Generator().manual_seed(3), images.clone().requires_grad_(True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            out = purified(lambda x, t: network(x), leaf, steps, lambda: torch.randn(images.shape, generator=rng))
        return torch.autograd.grad(out.square().sum(), leaf)[0]

    def plainly(denoiser, x, steps, draw):
        x = schedule.noisy(x, steps - 1, draw())
        for step in reversed(range(steps)):
            x = schedule.back(denoiser, x, step, draw)
        return x

    torch.testing.assert_close(gradient(4, schedule.purified), gradient(4, plainly))
    stored = partial(schedule.purified, recomputed=False)
    torch.testing.assert_close(gradient(4, stored), gradient(4, plainly))
    gradient(2, schedule.purified)
    few = saved_bytes
    gradient(12, schedule.purified)
    assert saved_bytes - few <= 10 * 4 * images.nbytes


def test_the_published_diffusion_model_sees_256_pixels_and_the_image_comes_back_to_size(monkeypatch) -> None:
    sizes = []

    def still(x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        sizes.append(tuple(x.shape[2:]))
        return torch.zeros_like(x)

    still.unit = 32
    monkeypatch.setattr(diffpure, "diffusion_model", lambda backbone, device: still)
    images = noise(1, 3, 48, 64)
    purified = diffpure.DiffPure(steps=1).build(CPU)(images, ImageRng([0]))
    assert sizes == [(256, 256)]
    there = F.interpolate(images, (256, 256), mode="bilinear")
    back = F.interpolate(there, (48, 64), mode="bilinear")
    assert purified.shape == images.shape
    assert (purified - back).abs().mean() < 0.02


def test_a_real_diffusion_model_takes_noise_off_real_digits(shared_data) -> None:
    import gzip

    path = shared_data / "weights" / "ddpm-mnist" / "ddpm_mnist.pth"
    weights = torch.load(path, map_location="cpu", weights_only=True)
    layers = []
    for index in (0, 1, 2):
        convolution = weights[f"eps_model.conv.{index}.0.weight"]
        layers += [
            torch.nn.Conv2d(convolution.shape[1], convolution.shape[0], 7, padding=3),
            torch.nn.BatchNorm2d(convolution.shape[0]),
            torch.nn.LeakyReLU(),
        ]
        for layer, number in ((layers[-3], 0), (layers[-2], 1)):
            prefix = f"eps_model.conv.{index}.{number}."
            layer.load_state_dict({k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)})
    last = torch.nn.Conv2d(64, 1, 3, padding=1)
    last.load_state_dict({"weight": weights["eps_model.conv.3.weight"], "bias": weights["eps_model.conv.3.bias"]})
    network = torch.nn.Sequential(*layers, last)  # its authors sample with the statistics of the batch
    schedule = Schedule(weights["sqrt_beta_t"] ** 2)
    np.testing.assert_allclose(schedule.alpha_bar, weights["alphabar_t"], rtol=1e-5)
    path = next((shared_data / "mnist").glob("*images*.gz"))
    digits = np.frombuffer(gzip.decompress(path.read_bytes())[16:], np.uint8).reshape(-1, 1, 28, 28)[:64]
    clean = torch.tensor(digits).float() / 255
    rng = torch.Generator().manual_seed(0)
    step = 10
    noisy = schedule.noisy(clean, step, torch.randn(clean.shape, generator=rng))
    with torch.no_grad():
        guess = schedule.image(noisy, step, network(noisy))
    naive = noisy / math.sqrt(float(schedule.alpha_bar[step]))
    assert (guess - clean).square().mean() < 0.7 * (naive - clean).square().mean()


def test_the_published_unet_has_its_parts() -> None:
    with torch.device("meta"):
        names = {name: tuple(t.shape) for name, t in GuidedUNet().state_dict().items()}
    assert sum(math.prod(shape) for shape in names.values()) == pytest.approx(552.8e6, rel=0.001)
    assert names["input_blocks.3.0.in_layers.2.weight"] == (256, 256, 3, 3)
    assert names["middle_block.1.qkv.weight"] == (3072, 1024, 1)
    assert names["output_blocks.2.2.in_layers.2.weight"] == (1024, 1024, 3, 3)
    assert names["out.2.weight"] == (6, 256, 3, 3)
    small = GuidedUNet(width=64, multiples=(1, 2), blocks=1, attention=(1,), learned_spread=True)
    assert small(noise(2, 3, 8, 12), torch.tensor([3, 7])).shape == (2, 6, 8, 12)


def test_more_steps_of_diffpure_change_more_and_the_model_removes_noise() -> None:
    registry = installed()
    photo = registry.one("dataset", "severity-ladder[severities=[1],size=64]").build(CPU)
    clean = photo.load([photo.names.index(name) for name in photo.names if "-clean" not in name][:1])
    changes = []
    for steps in (1, 20):
        purify = registry.one("defense", f"diffpure[backbone=embedded,steps={steps}]").build(CPU)
        with torch.no_grad():
            changes.append(float((purify(clean, ImageRng([3])) - clean).square().mean()))
    assert changes[0] < changes[1] < 0.01


def test_colours_go_to_lab_and_back_and_the_published_colouriser_has_its_parts() -> None:
    images = noise(2, 3, 16, 24)
    torch.testing.assert_close(to_rgb(*to_lab(images)), images, atol=2e-3, rtol=0)
    with torch.device("meta"):
        shapes = {name: tuple(t.shape) for name, t in Colorizer().state_dict().items()}
    assert shapes["model1.0.weight"] == (64, 4, 3, 3)
    assert shapes["model5.0.weight"] == (512, 512, 3, 3)
    assert shapes["model8.1.weight"] == (256, 256, 3, 3)
    assert shapes["model_class.0.weight"] == (BINS**2, 256, 1, 1)
    assert shapes["model_out.0.weight"] == (2, 128, 1, 1)
    logits, colours = Colorizer(4)(noise(2, 4, 16, 24))
    assert (logits.shape, colours.shape) == ((2, 529, 4, 6), (2, 2, 16, 24))


def test_clusters_are_those_that_were_made() -> None:
    centres = torch.tensor([[0.0, 0], [5, 0], [0, 5], [5, 5]])
    points = centres.repeat_interleave(30, 0)[None] + 0.1 * noise(2, 120, 2)
    cluster_rows = clusters(points, 4)
    for row in cluster_rows:
        assert [len(set(group.tolist())) for group in row.split(30)] == [1] * 4
        assert len(set(row[::30].tolist())) == 4


def test_dists_is_its_definition_layer_by_layer() -> None:
    torch.manual_seed(0)
    network = Dists().eval()
    network.alpha.data.uniform_(0, 1)
    network.beta.data.uniform_(0, 1)
    x, y = noise(1, 3, 40, 36), noise(1, 3, 40, 36, seed=1)

    def stages(image: torch.Tensor) -> list[np.ndarray]:
        features, h = [image], normalised(image)
        window = np.outer([0.25, 0.5, 0.25], [0.25, 0.5, 0.25])
        start = 0
        for stop in (4, 9, 16, 23, 30):
            for layer in network.features[start:stop]:
                if isinstance(layer, torch.nn.MaxPool2d):
                    kernel = torch.tensor(window, dtype=torch.float32).repeat(h.shape[1], 1, 1, 1)
                    h = (F.conv2d(h**2, kernel, stride=2, padding=1, groups=h.shape[1]) + 1e-12).sqrt()
                else:
                    h = torch.relu(h) if isinstance(layer, torch.nn.ReLU) else layer(h)
            features.append(h)
            start = stop
        return [f[0].double().numpy() for f in features]

    with torch.no_grad():
        total, similarity, index = float(network.alpha.sum() + network.beta.sum()), 0.0, 0
        alpha, beta = (w.flatten().double().numpy() for w in (network.alpha, network.beta))
        for a, b in zip(stages(x), stages(y), strict=True):
            for p, q in zip(a, b, strict=True):
                texture = (2 * p.mean() * q.mean() + 1e-6) / (p.mean() ** 2 + q.mean() ** 2 + 1e-6)
                covariance = (p * q).mean() - p.mean() * q.mean()
                structure = (2 * covariance + 1e-6) / (p.var() + q.var() + 1e-6)
                similarity += (alpha[index] * texture + beta[index] * structure) / total
                index += 1
        assert float(network(x, y)) == pytest.approx(1 - similarity, abs=1e-4)
        assert float(network(x, x)) == pytest.approx(0, abs=1e-5)


def test_weights_that_are_no_tensors_are_refused(tmp_path, monkeypatch) -> None:
    path = tmp_path / fcn.WEIGHTS.file
    path.parent.mkdir(parents=True)
    torch.save({"other": torch.zeros(1)}, path)
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    with pytest.raises(Unavailable, match="contains no weights"):
        state_dict(fcn.WEIGHTS, "model")
