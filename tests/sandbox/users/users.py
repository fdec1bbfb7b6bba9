"""Defenses of the kinds that users bring, written in good faith."""

import io
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class _Jpeg(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, images: torch.Tensor) -> torch.Tensor:
        pixels = images.detach().mul(255).round().byte().permute(0, 2, 3, 1).numpy()
        return torch.from_numpy(np.stack([_coded(image) for image in pixels])).permute(0, 3, 1, 2).float() / 255

    @staticmethod
    def backward(ctx: object, upstream: torch.Tensor) -> torch.Tensor:
        return upstream


def _coded(image: np.ndarray) -> np.ndarray:
    """Return an image (height, width, 3), uint8, after JPEG compression of quality 60."""
    code = io.BytesIO()
    Image.fromarray(image).save(code, "JPEG", quality=60)
    return np.asarray(Image.open(code))


def _network(seed: int, width: int, depth: int, norm: Callable[[int], nn.Module] = lambda width: nn.Identity()):
    """Return a convolutional network from and to three channels, with random weights of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(seed)
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1)]
        for _ in range(depth):
            layers += [norm(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)]
        return nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(width, 3, 3, padding=1))


def _smoothed(images: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(F.pad(images, [1] * 4, mode="reflect"), 3, 1)


class StraightThrough(Purification):
    """Compresses by JPEG, with the identity as its gradient."""

    info = DefenseInfo(id="users/straight-through", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: _Jpeg.apply(images)


class RandomSize(Purification):
    """Shrinks each image by a random factor, and pads it at a random place."""

    info = DefenseInfo(id="users/random-size", version="1", differentiable=True, random=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            draws, resized = rng.uniform(3).tolist(), []
            for image, (share, top, left_share) in zip(images, draws, strict=True):
                h, w = round(height * (0.85 + 0.15 * share)), round(width * (0.85 + 0.15 * share))
                small = F.interpolate(image[None], (h, w), mode="bilinear", align_corners=False, antialias=True)
                y, x = int(top * (height - h)), int(left_share * (width - w))
                resized.append(F.pad(small, (x, width - w - x, y, height - h - y)))
            return torch.cat(resized).clamp(0, 1)

        return purify


class StochasticDepth(Purification):
    """A network in training mode, whose blocks are left out at random."""

    info = DefenseInfo(id="users/stochastic-depth", version="1", differentiable=True, random=True)

    def build(self, device: torch.device) -> Purifier:
        blocks = [_network(seed, 8, 1).train() for seed in range(4)]

        def purify(images: Images, rng: ImageRng) -> Images:
            active = (rng.uniform(len(blocks)) > 0.3).float()
            for i, block in enumerate(blocks):
                images = images + 0.05 * active[:, i].view(-1, 1, 1, 1) * block(images)
            return images.clamp(0, 1)

        return purify


class Diffusion(Purification):
    """Adds noise, and takes it away in many steps."""

    info = DefenseInfo(id="users/diffusion", version="1", differentiable=True, random=True)

    def build(self, device: torch.device) -> Purifier:
        network = _network(3, 8, 1, lambda width: nn.GroupNorm(4, width)).eval()

        def purify(images: Images, rng: ImageRng) -> Images:
            noisy = images + 0.1 * rng.normal(*images.shape[1:])
            for step in range(10):
                noisy = 0.9 * noisy + 0.1 * _smoothed(noisy) - 0.02 * torch.tanh(network(noisy))
                noisy = noisy + 0.002 * (10 - step) * rng.normal(*images.shape[1:])
            return noisy.clamp(0, 1)

        return purify


class Wavelets(Purification):
    """Shrinks Haar coefficients, in NumPy."""

    info = DefenseInfo(id="users/wavelets", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        signs = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2

        def purify(images: Images, rng: ImageRng) -> Images:
            n, c, h, w = images.shape
            pixels = np.pad(images.detach().numpy(), ((0, 0), (0, 0), (0, h % 2), (0, w % 2)), mode="edge")
            rows, columns = pixels.shape[2] // 2, pixels.shape[3] // 2
            tiles = pixels.reshape(n, c, rows, 2, columns, 2).transpose(0, 1, 2, 4, 3, 5).reshape(-1, 4)
            coefficients = tiles @ signs.T
            coefficients[:, 1:] = np.sign(coefficients[:, 1:]) * np.maximum(np.abs(coefficients[:, 1:]) - 0.06, 0)
            back = (
                (coefficients @ signs)
                .reshape(n, c, rows, columns, 2, 2)
                .transpose(0, 1, 2, 4, 3, 5)
                .reshape(pixels.shape)
            )
            return torch.from_numpy(back[..., :h, :w]).float().clamp(0, 1)

        return purify


class Lazy(Purification):
    """A network with instance normalisation, made by the first call; each call takes at least 20 ms."""

    info = DefenseInfo(id="users/lazy", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        networks: list[nn.Module] = []

        def purify(images: Images, rng: ImageRng) -> Images:
            networks.extend([] if networks else [_network(5, 8, 2, nn.InstanceNorm2d).eval()])
            time.sleep(0.02)
            return (images + 0.1 * torch.tanh(networks[0](images))).clamp(0, 1)

        return purify


class Rounds(Purification):
    """Rounds the cosine coefficients of 8 x 8 px blocks to multiples of 0.1."""

    info = DefenseInfo(id="users/rounds", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        k = torch.arange(8.0)
        cosines = 0.5 * torch.cos((2 * k + 1) * k[:, None] * torch.pi / 16)
        cosines[0] /= 2**0.5

        def purify(images: Images, rng: ImageRng) -> Images:
            h, w = images.shape[2:]
            padded = F.pad(images, (0, -w % 8, 0, -h % 8), mode="replicate")
            blocks = padded.unfold(2, 8, 8).unfold(3, 8, 8)
            rounded = 0.1 * (cosines @ blocks @ cosines.T / 0.1).round()
            back = (cosines.T @ rounded @ cosines).transpose(3, 4).reshape(padded.shape)
            return back[..., :h, :w].clamp(0, 1)

        return purify


class Ties(Purification):
    """The mean of the largest and the smallest pixel of each 3 x 3 neighbourhood; often several are equal."""

    info = DefenseInfo(id="users/ties", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            padded = F.pad(images, [1] * 4, mode="reflect")
            return (F.max_pool2d(padded, 3, 1) - F.max_pool2d(-padded, 3, 1)) / 2

        return purify


class Halves(Purification):
    """A network that computes with 16 bits."""

    info = DefenseInfo(id="users/halves", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        network = _network(7, 16, 4).eval().to(torch.bfloat16)
        return lambda images, rng: (images + 0.2 * network(images.bfloat16()).float()).clamp(0, 1)


class Codebook(Purification):
    """Averages an image with the nearest of 256 patches for each 4 x 4 px; the gradient is the identity."""

    info = DefenseInfo(id="users/codebook", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        book = torch.rand(256, 48, generator=torch.Generator().manual_seed(1))

        def purify(images: Images, rng: ImageRng) -> Images:
            h, w = images.shape[2:]
            padded = F.pad(images, (0, -w % 4, 0, -h % 4), mode="replicate")
            patches = F.unfold(padded, 4, stride=4).transpose(1, 2)
            nearest = book[torch.cdist(patches.detach(), book[None]).argmin(dim=-1)]
            through = patches + (nearest - patches).detach()
            return 0.5 * (F.fold(through.transpose(1, 2), padded.shape[2:], 4, stride=4)[..., :h, :w] + images)

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defenses."""
    return [
        StraightThrough(),
        RandomSize(),
        StochasticDepth(),
        Diffusion(),
        Wavelets(),
        Lazy(),
        Rounds(),
        Ties(),
        Halves(),
        Codebook(),
    ]
