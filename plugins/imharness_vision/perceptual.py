"""DISTS as a network, the backbones of DISTS and LPIPS, and ImageNet's normalisation.

DISTS has VGG-16; LPIPS has VGG-16, AlexNet or SqueezeNet.
"""

import torch
import torch.nn.functional as F
from torch import nn

from imharness.images import Asset, Images, Scores
from imharness_vision.constants import constant
from imharness_vision.weights import Undrawn, fill, frozen, state_dict

torch.fx.wrap("constant")

SQUEEZENET = Asset(
    name="squeezenet1-1-features",
    file="weights/lpips-squeeze/squeezenet1_1_features.pth",
    sha256="435cedb387e95bc8291893f61a3a64f0345b8c23a05139aceef43947efb3d52d",
    size=2899197,
    licence="BSD-3-Clause (torchvision)",
    source="https://github.com/delldu/LPIPS",
    address="https://github.com/delldu/LPIPS/raw/77473a15f51969d567c0e03bf31c7f116a152777/"
    "project/image_likeness/models/squeeze.backbone.pth",
)
ALEXNET = Asset(
    name="alexnet-imagenet",
    file="weights/torchvision/alexnet-owt-7be5be79.pth",
    sha256="7be5be79",
    licence="BSD-3-Clause (torchvision)",
    source="https://pytorch.org/vision",
    address="https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
)
VGG16 = Asset(
    name="vgg16-imagenet",
    file="weights/torchvision/vgg16-397923af.pth",
    sha256="397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
    size=553433881,
    licence="BSD-3-Clause (torchvision)",
    source="https://pytorch.org/vision",
    address="https://download.pytorch.org/models/vgg16-397923af.pth",
)
DISTS_WEIGHTS = Asset(
    name="dists-weights",
    file="weights/dists/DISTS_weights-f5e65c96.pth",
    sha256="f5e65c96",
    licence="MIT",
    source="https://github.com/dingkeyan93/DISTS",
    address="https://github.com/chaofengc/IQA-PyTorch/releases/download/v0.1-weights/DISTS_weights-f5e65c96.pth",
)
CLASSIFIER = ("classifier.",)
"""Prefixes of the names of weights in torchvision's files that feature extraction does not need."""
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def normalised(images: Images) -> torch.Tensor:
    """Return images with the mean and deviation of ImageNet taken out."""
    mean, std = (constant(x, images).view(1, 3, 1, 1) for x in (IMAGENET_MEAN, IMAGENET_STD))
    return (images - mean) / std


class Dists(nn.Module):
    """Deep Image Structure and Texture Similarity: images and references ``(N, 3, H, W)`` in [0, 1] -> ``(N,)``.

    Ding, Ma, Wang & Simoncelli, "Image Quality Assessment: Unifying Structure and Texture Similarity" (TPAMI 2020),
    equations 5 to 7: the image and five stages of VGG-16 whose max pooling is an L2 pooling with a Hanning window.
    """

    STAGES = ((0, 4), (5, 9), (10, 16), (17, 23), (24, 30))
    CHANNELS = (3, 64, 128, 256, 512, 512)
    C = 1e-6

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models.vgg import cfgs, make_layers

        self.features = make_layers(cfgs["D"], batch_norm=False)  # VGG-16 without its large classifier
        self.alpha = nn.Parameter(torch.full((1, sum(self.CHANNELS), 1, 1), 0.1))
        self.beta = nn.Parameter(torch.full((1, sum(self.CHANNELS), 1, 1), 0.1))
        line = torch.hann_window(5, periodic=False)[1:-1]
        window = line[:, None] * line[None]
        self.register_buffer("window", window / window.sum(), persistent=False)

    def stages(self, images: Images) -> list[torch.Tensor]:
        """Return the image and the five feature maps."""
        maps, x = [images], normalised(images)
        for number, (start, stop) in enumerate(self.STAGES):
            if number:
                x = self._pooled(x)
            for layer in self.features[start:stop]:
                x = F.relu(x) if isinstance(layer, nn.ReLU) else layer(x)
            maps.append(x)
        return maps

    def forward(self, images: Images, reference: Images) -> Scores:
        sizes, total = list(self.CHANNELS), self.alpha.sum() + self.beta.sum()
        alphas, betas = (w.div(total).split(sizes, dim=1) for w in (self.alpha, self.beta))
        similarity = torch.zeros(len(images), device=images.device)
        for x, y, alpha, beta in zip(self.stages(images), self.stages(reference), alphas, betas, strict=True):
            mx, my = x.mean((2, 3), keepdim=True), y.mean((2, 3), keepdim=True)
            vx, vy = ((z - m).square().mean((2, 3), keepdim=True) for z, m in ((x, mx), (y, my)))
            covariance = (x * y).mean((2, 3), keepdim=True) - mx * my
            texture = (2 * mx * my + self.C) / (mx.square() + my.square() + self.C)
            structure = (2 * covariance + self.C) / (vx + vy + self.C)
            similarity = similarity + (alpha * texture + beta * structure).sum(dim=(1, 2, 3))
        return 1 - similarity

    def _pooled(self, x: torch.Tensor) -> torch.Tensor:
        kernel = self.window.expand(x.shape[1], 1, 3, 3)
        return (F.conv2d(x.square(), kernel, stride=2, padding=1, groups=x.shape[1]) + 1e-12).sqrt()


def dists(device: torch.device) -> nn.Module:
    """Return DISTS with the published weights."""
    with Undrawn():
        network = Dists()
    backbone = {name.removeprefix("features."): tensor for name, tensor in state_dict(VGG16).items()}
    fill(network.features, VGG16, backbone, CLASSIFIER)
    channels = nn.ParameterDict({"alpha": network.alpha, "beta": network.beta})
    fill(channels, DISTS_WEIGHTS, state_dict(DISTS_WEIGHTS))
    return frozen(network, device)
