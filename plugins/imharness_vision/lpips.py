"""LPIPS: distances of deep features, weighted channel by channel.

Zhang, Isola, Efros, Shechtman & Wang, "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric" (CVPR
2018), equation 1: feature maps of unit length along the channels, their squared difference weighted by w >= 0, averaged
over positions, summed over layers. Backbones and published weights are those of the package lpips. Features and their
comparison are separate, so that the features of a reference are computed only once.
"""

import warnings
from collections.abc import Sequence
from importlib.resources import files
from typing import Literal

import torch
from torch import nn

from imharness.data import generator, seeded_init
from imharness.images import Asset, Images, Scores
from imharness_vision.perceptual import ALEXNET, CLASSIFIER, SQUEEZENET, VGG16
from imharness_vision.weights import Undrawn, fill, frozen, state_dict

Net = Literal["alex", "vgg", "squeeze", "embedded"]
Variant = Literal["lin", "baseline", "random", "tune", "scratch", "kmeans"]
BACKBONES: dict[str, tuple[Asset, str]] = {
    "alex": (ALEXNET, "features."),
    "vgg": (VGG16, "features."),
    "squeeze": (SQUEEZENET, ""),
}
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
"""ImageNet's mean and deviation for images in [-1, 1], as the package has them."""
SECOND = ("lins.", "scaling_layer.")
"""What the names of weights begin with that are not read from a file of the package's network.

They are a second copy of its heads, and its two constants.
"""
EPS = 1e-10
EMBEDDED = (16, 32, 64)


class EmbeddedBackbone(nn.Module):
    """Three stages of a small network; three feature maps."""

    channels = EMBEDDED

    def __init__(self) -> None:
        super().__init__()
        widths = (3, *EMBEDDED)
        self.stages = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(ins, outs, 5 if ins == 3 else 3, 1 if ins == 3 else 2, 2 if ins == 3 else 1),
                nn.ReLU(),
                nn.Conv2d(outs, outs, 3, 1, 1),
                nn.ReLU(),
            )
            for ins, outs in zip(widths, EMBEDDED, strict=False)
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class _Published(nn.Module):
    """A backbone of the package lpips; its feature maps as a list."""

    def __init__(self, net: str) -> None:
        super().__init__()
        from lpips import pretrained_networks as published

        make = {"alex": published.alexnet, "vgg": published.vgg16, "squeeze": published.squeezenet}[net]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # lpips calls torchvision by its old names
            self.net = make(pretrained=False, requires_grad=True)
        self.channels = {
            "alex": (64, 192, 384, 256, 256),
            "vgg": (64, 128, 256, 512, 512),
            "squeeze": (64, 128, 256, 384, 384, 512, 512),
        }[net]

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return list(self.net(x))

    def load(self, asset: Asset, prefix: str) -> None:
        """Take the weights of torchvision's network, whose layers the package groups into slices."""
        slices = {name.split(".", 1)[1]: name for name in self.net.state_dict()}
        weights = {name.removeprefix(prefix): tensor for name, tensor in state_dict(asset).items()}
        fill(self.net, asset, {slices.get(name, name): tensor for name, tensor in weights.items()}, CLASSIFIER)


class FeatureDistance(nn.Module):
    """Images and references ``(N, 3, H, W)`` in [0, 1] -> distances ``(N,)``, at least 0."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(n)) for n in backbone.channels)
        self.register_buffer("shift", torch.tensor(SHIFT).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(SCALE).view(1, 3, 1, 1), persistent=False)

    def features(self, images: Images) -> list[torch.Tensor]:
        """Return one map per layer, of unit length along the channels."""
        maps = self.backbone((2 * images - 1 - self.shift) / self.scale)
        return [x / (x.square().sum(dim=1, keepdim=True) + EPS**2).sqrt() for x in maps]

    def compare(
        self,
        features: Sequence[torch.Tensor],
        reference: Sequence[torch.Tensor],
        drop: tuple[float, torch.Generator] | None = None,
    ) -> Scores:
        """Return the distance of features; those of a single reference serve all images.

        `drop`: the share of squared differences that is set to 0 at random, where the others grow by 1 / (1 - share).
        """
        distances = [
            torch.einsum("nchw,c->n", dropped((x - y).square(), drop), w) / (x.shape[2] * x.shape[3])
            for x, y, w in zip(features, reference, self.weights, strict=True)
        ]
        return torch.stack(distances).sum(dim=0)

    def forward(self, images: Images, reference: Images) -> Scores:
        return self.compare(self.features(images), self.features(not_repeated(reference)))


def dropped(values: torch.Tensor, drop: tuple[float, torch.Generator] | None) -> torch.Tensor:
    """Return values of which a share is set to 0 at random, with the same mean; `drop`: the share and a CPU stream."""
    if drop is None:
        return values
    share, rng = drop
    mask = torch.rand(values.shape, generator=rng) >= share
    return values * mask.to(values.device) / (1 - share)


def not_repeated(reference: Images) -> Images:
    """Return the reference once if it is one image that was expanded to many rows; other references as they are."""
    return reference[:1] if len(reference) > 1 and reference.stride(0) == 0 else reference


def untrained(net: Net, seed: int = 0) -> FeatureDistance:
    """Return a distance on a randomly initialised backbone, all weights 1."""
    with seeded_init(generator(seed)):
        return FeatureDistance(EmbeddedBackbone() if net == "embedded" else _Published(net))


def published(net: Literal["alex", "vgg", "squeeze"], *, heads: bool) -> FeatureDistance:
    """Return a distance on an ImageNet backbone: with the published linear heads, or with all weights 1."""
    with Undrawn():
        distance = untrained(net)
    asset, prefix = BACKBONES[net]
    distance.backbone.load(asset, prefix)
    if heads:
        for weight, head in zip(distance.weights, published_heads(net), strict=True):
            weight.data.copy_(head)
    return distance


def published_heads(
    net: Literal["alex", "vgg", "squeeze"], release: Literal["0.0", "0.1"] = "0.1"
) -> list[torch.Tensor]:
    """Return the published weights of the channels, a vector for each layer, from the package lpips."""
    with (files("lpips") / "weights" / f"v{release}" / f"{net}.pth").open("rb") as opened:
        linear = torch.load(opened, map_location="cpu", weights_only=True)
    return [linear[f"lin{number}.model.1.weight"].flatten() for number in range(len(linear))]


def published_in(net: Literal["alex", "vgg", "squeeze"], asset: Asset) -> FeatureDistance:
    """Return a distance whose backbone and linear heads are in one file, the state of the package's network."""
    with Undrawn():
        distance = untrained(net)
    heads = {f"lin{number}.model.1.weight": f"weights.{number}" for number in range(len(distance.weights))}
    tensors = {}
    for name, tensor in state_dict(asset).items():
        if name in heads:
            tensors[heads[name]] = tensor.flatten()
        else:
            tensors[f"backbone.{name}" if name.startswith("net.") else name] = tensor
    fill(distance, asset, tensors, SECOND)
    return distance


def lpips_squeeze(device: torch.device) -> nn.Module:
    """Return LPIPS 0.1 with the SqueezeNet backbone, frozen."""
    return frozen(published("squeeze", heads=True), device)
