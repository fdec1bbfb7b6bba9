"""The CNN-based distortions of the LPIPS paper: what small denoising autoencoders of many designs leave of an image.

Zhang et al., CVPR 2018, section 2.1 and table 2 (right): 96 networks that autoencode, denoise, colourise or enlarge,
each of random architecture, losses and learning rate, trained for a short time, so that their outputs show the
artefacts of such networks. The table names what varies and prints no range, so the ranges here are ours. A number
stands for a design: network 7 is the same everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from imharness.data import derive_seed
from imharness.errors import Unavailable
from imharness.images import ImageRng, Images
from imharness_vision.distortions.noise import spectral_noise
from imharness_vision.weights import frozen, weights_in

Corruption = Literal["null", "pink-noise", "white-noise", "color-removal", "downsampling"]
CORRUPTIONS: tuple[Corruption, ...] = ("null", "pink-noise", "white-noise", "color-removal", "downsampling")
"""What the input of a network has lost; networks take turns."""
PUBLISHED = 96
"""The number of networks in the paper."""
NOISE = 0.15
"""The standard deviation of the noise that a network has to remove."""
SMALLER = 4
"""The factor by which downsampling makes an image smaller before it is enlarged again."""
DROPPED = 0.5
"""The share of channels that dropout sets to 0."""
LAYERS, FIRST, LARGEST = (2, 3, 4), (8, 16, 24), (16, 32, 48)
PIXEL, FEATURE, ADVERSARIAL, RATE = (1.0, 10.0), (0.01, 1.0), (0.001, 0.1), (1e-3, 5e-3)
"""The ranges, log-uniform, of the weights of the losses and of the learning rate."""


@dataclass(frozen=True)
class Design:
    """What varies among the networks; the names are those of table 2."""

    corruption: Corruption
    layers: int
    """Layers that halve the size, or keep it if it is the first with stride 1; as many enlarge it again."""
    skips: int
    """Skip connections, from the deepest layer upwards."""
    dropped: int
    """Layers with dropout, from the deepest one upwards."""
    highest_skip: bool
    """Whether the input itself reaches the last layer."""
    upsampling: Literal["nearest", "bilinear", "transposed"]
    normalisation: Literal["none", "batch", "instance"]
    first_stride: int
    first_channels: int
    largest_channels: int
    judge_layers: int
    """Layers of the discriminator."""
    pixel: float
    """Weight of the mean absolute error, l1."""
    feature: float
    """Weight of the distance of features."""
    adversarial: float
    """Weight of the discriminator's loss."""
    learning_rate: float

    @property
    def channels(self) -> list[int]:
        """The channels of the layers that make the image smaller: doubled, up to the largest."""
        return [min(self.first_channels * 2**i, self.largest_channels) for i in range(self.layers)]

    @property
    def factor(self) -> int:
        """What the sides of an image must be divisible by."""
        return int(2 ** (self.layers - 1) * self.first_stride)


def design(number: int) -> Design:
    """Return what network `number` is like, at least 0; always the same for one number."""
    rng = np.random.default_rng(derive_seed("cnn-distortion", number))

    def between(ends: tuple[float, float]) -> float:
        return float(np.exp(rng.uniform(*np.log(ends))))

    def one_of(values: Sequence[int | str]) -> int | str:
        return values[int(rng.integers(len(values)))]

    layers, first = int(one_of(LAYERS)), int(one_of(FIRST))
    return Design(
        corruption=CORRUPTIONS[number % len(CORRUPTIONS)],
        layers=layers,
        skips=int(rng.integers(layers)),
        dropped=int(rng.integers(layers)),
        highest_skip=bool(rng.integers(2)),
        upsampling=one_of(("nearest", "bilinear", "transposed")),  # type: ignore[arg-type]
        normalisation=one_of(("none", "batch", "instance")),  # type: ignore[arg-type]
        first_stride=int(one_of((1, 2))),
        first_channels=first,
        largest_channels=max(first, int(one_of(LARGEST))),
        judge_layers=int(one_of((1, 2, 3))),
        pixel=between(PIXEL),
        feature=between(FEATURE),
        adversarial=between(ADVERSARIAL),
        learning_rate=between(RATE),
    )


class Autoencoder(nn.Module):
    """Corrupted images ``(N, 3, H, W)`` -> images of the same shape, in [0, 1]. Any size: borders are repeated."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.design, widths = design, design.channels
        strides = [design.first_stride, *[2] * (design.layers - 1)]
        self.down = nn.ModuleList(
            _block(outs, design, nn.Conv2d(ins, outs, 3, stride, 1))
            for ins, outs, stride in zip([3, *widths], widths, strides, strict=False)
        )
        self.up = nn.ModuleList()
        for i in reversed(range(design.layers)):
            joined = widths[i] * (2 if self._skips(i) else 1)
            outs = widths[i - 1] if i else design.first_channels
            self.up.append(_block(outs, design, _larger(joined, outs, strides[i], design)))
        self.last = nn.Conv2d(design.first_channels + 3 * design.highest_skip, 3, 3, 1, 1)

    def _skips(self, layer: int) -> bool:
        """Return whether what a layer gave on the way down is joined on the way up; the deepest is where both meet."""
        return self.design.layers - 1 - self.design.skips <= layer < self.design.layers - 1

    def _multiple(self, side: int) -> int:
        """Return the side that layers can halve and that leaves the deepest at least 2, as normalisation needs."""
        return max(2, -(-side // self.design.factor)) * self.design.factor

    def forward(self, x: Images, drop: torch.Generator | None = None) -> Images:
        """Return what the network makes of corrupted images; `drop`: the stream of its dropout, in training."""
        height, width = x.shape[2:]
        right, below = (self._multiple(side) - side for side in (width, height))
        whole = F.pad(x, (0, right, 0, below), mode="replicate")
        skipped, values = list[torch.Tensor](), 2 * whole - 1
        for i, layer in enumerate(self.down):
            values = layer(values)
            if drop is not None and i >= self.design.layers - self.design.dropped:
                mask = torch.rand(*values.shape[:2], 1, 1, generator=drop) >= DROPPED
                values = values * mask.to(values.device) / (1 - DROPPED)
            skipped.append(values)
        for i, layer in zip(reversed(range(self.design.layers)), self.up, strict=True):
            values = layer(torch.cat([values, skipped[i]], dim=1) if self._skips(i) else values)
        if self.design.highest_skip:
            values = torch.cat([values, 2 * whole - 1], dim=1)
        return torch.sigmoid(self.last(values))[:, :, :height, :width]


def _larger(ins: int, outs: int, factor: int, design: Design) -> nn.Module:
    if factor == 1:
        return nn.Conv2d(ins, outs, 3, 1, 1)
    if design.upsampling == "transposed":
        return nn.ConvTranspose2d(ins, outs, 4, 2, 1)
    return nn.Sequential(nn.Upsample(scale_factor=2, mode=design.upsampling), nn.Conv2d(ins, outs, 3, 1, 1))


def _block(channels: int, design: Design, change: nn.Module) -> nn.Module:
    norms = {"batch": nn.BatchNorm2d, "instance": nn.InstanceNorm2d, "none": lambda _: nn.Identity()}
    return nn.Sequential(change, norms[design.normalisation](channels), nn.LeakyReLU(0.2))


class Judge(nn.Module):
    """The discriminator: images ``(N, 3, H, W)`` -> logits of being clean, one for each patch."""

    def __init__(self, layers: int, channels: int) -> None:
        super().__init__()
        widths = [3, *[channels] * layers]
        convolutions = [m for i, o in pairwise(widths) for m in (nn.Conv2d(i, o, 4, 2, 1), nn.LeakyReLU(0.2))]
        self.layers = nn.Sequential(*convolutions, nn.Conv2d(widths[-1], 1, 3, 1, 1))

    def forward(self, images: Images) -> torch.Tensor:
        return self.layers(2 * images - 1)  # type: ignore[no-any-return]


def corrupted(images: Images, kind: Corruption, normal: torch.Tensor) -> Images:
    """Return the input of a network; `normal`: white noise ``(N, 3, H, W)`` of unit deviation."""
    if kind == "white-noise":
        return (images + NOISE * normal).clamp(0, 1)
    if kind == "pink-noise":
        return (images + NOISE * spectral_noise(normal, images.new_full((len(images),), -1.0))).clamp(0, 1)
    if kind == "color-removal":
        return images.mean(dim=1, keepdim=True).expand_as(images)
    if kind == "downsampling":
        small = F.interpolate(images, scale_factor=1 / SMALLER, mode="area")
        return F.interpolate(small, images.shape[2:], mode="bicubic").clamp(0, 1)
    return images


def networks_in(file: Path, count: int, device: torch.device) -> list[Autoencoder]:
    """Return the first `count` networks of a file of `harness train cnn-distortions`, frozen.

    Raises `Unavailable` for a file that does not hold them, with the command that writes one.
    """
    remedy = f"train them: harness train cnn-distortions --networks {count} --out FOLDER"
    if not file.is_file():
        raise Unavailable(f"{file} is not on this machine", remedy)
    return [_filled(number, weights_in(file), file, remedy, device) for number in range(count)]


def _filled(
    number: int, tensors: Mapping[str, torch.Tensor], file: Path, remedy: str, device: torch.device
) -> Autoencoder:
    network = Autoencoder(design(number))
    weights = {
        name.partition(".")[2]: t.float() for name, t in tensors.items() if name.partition(".")[0] == str(number)
    }
    wanted = {name: t.shape for name, t in network.state_dict().items() if not name.endswith("num_batches_tracked")}
    if {name: t.shape for name, t in weights.items()} != wanted:
        raise Unavailable(f"{file} has no weights of network {number}", remedy)
    network.load_state_dict(weights, strict=False)
    frozen(network, device)
    return network


def redrawn(images: Images, network: Autoencoder, severity: torch.Tensor, rng: ImageRng) -> Images:
    """Return images on their way to what a network makes of them: 0 is the image, 1 the output; severity ``(N,)``."""
    corrupted_images = corrupted(images, network.design.corruption, rng.normal(*images.shape[1:]))
    return torch.lerp(images, network(corrupted_images), severity.view(-1, 1, 1, 1))
