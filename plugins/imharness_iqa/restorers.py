"""Networks that clean images, for the learned purifications."""

import torch
import torch.nn.functional as F
from torch import nn

from imharness.images import Images
from imharness_vision.diffusion import Schedule


def padded(images: Images, unit: int) -> Images:
    """Repeat the last row and column until both sides are multiples of `unit`."""
    return F.pad(images, (0, -images.shape[3] % unit, 0, -images.shape[2] % unit), mode="replicate")


def starting_as_identity(network: nn.Module, last: nn.Conv2d | nn.Linear) -> None:
    """Initialise a network that predicts a change: its layers as in He et al., the last one to zero."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)
    nn.init.zeros_(last.weight)


class SmallDenoiser(nn.Module):
    """Convolutions that predict the noise of an image (Zhang et al., DnCNN, TIP 2017), at half its size."""

    def __init__(self, width: int = 16, layers: int = 5) -> None:
        super().__init__()
        inner = [m for _ in range(layers - 2) for m in (nn.Conv2d(width, width, 3, 1, 1), nn.ReLU())]
        last = nn.Conv2d(width, 12, 3, 1, 1)
        self.body = nn.Sequential(nn.Conv2d(12, width, 3, 1, 1), nn.ReLU(), *inner, last)
        starting_as_identity(self, last)

    def forward(self, images: Images) -> Images:
        small = F.pixel_unshuffle(padded(images, 2), 2)
        return images - F.pixel_shuffle(self.body(small), 2)[:, :, : images.shape[2], : images.shape[3]]


class SmallNoisePredictor(nn.Module):
    """Residual blocks at half the size that predict the noise of images in [-1, 1] at a step of diffusion.

    Zhang, Zuo & Zhang, "FFDNet: Toward a Fast and Flexible Solution for CNN-Based Image Denoising" (TIP 2018): the
    level of the noise is a map beside the image. What the layers predict is divided by that level, so that the answer
    has variance 1 at every step.
    """

    unit = 2

    def __init__(self, width: int = 32, blocks: int = 3) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(13, width, 3, 1, 1), nn.Conv2d(width, 12, 3, 1, 1)
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(2)) for _ in range(blocks)
        )
        self.register_buffer("levels", (1 - Schedule.linear().alpha_bar).sqrt().float(), persistent=False)
        starting_as_identity(self, self.last)
        for _, second in self.blocks:
            nn.init.zeros_(second.weight)

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        small, level = F.pixel_unshuffle(x, 2), self.levels[steps].view(-1, 1, 1, 1)
        h = self.first(torch.cat([small, level.expand(-1, 1, *small.shape[2:])], dim=1))
        for first, second in self.blocks:
            h = h + second(F.relu(first(F.relu(h))))
        return F.pixel_shuffle(self.last(F.relu(h)), 2) / level


class SmallUpscaler(nn.Module):
    """Convolutions and a pixel shuffle: details of an image twice as large, added to the repeated pixels.

    Wang, Xie, Dong & Shan, "Real-ESRGAN" (ICCVW 2021), the compact network, with fewer and narrower layers.
    """

    SCALE = 2

    def __init__(self, width: int = 16, layers: int = 4) -> None:
        super().__init__()
        inner = [m for _ in range(layers - 2) for m in (nn.Conv2d(width, width, 3, 1, 1), nn.LeakyReLU(0.1))]
        last = nn.Conv2d(width, 3 * self.SCALE**2, 3, 1, 1)
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1), nn.LeakyReLU(0.1), *inner, last)
        starting_as_identity(self, last)

    def forward(self, images: Images) -> Images:
        return F.pixel_shuffle(images.repeat_interleave(self.SCALE**2, dim=1) + self.body(images), self.SCALE)


class _EdsrBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class _Encoder(nn.Module):
    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1))
        last = nn.Conv2d(width, width, 3, 1, 1)
        self.body = nn.Sequential(*(_EdsrBlock(width) for _ in range(blocks)), last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x)
        return x + self.body(x)


class _Perceptron(nn.Module):
    def __init__(self, ins: int, hidden: int, layers: int) -> None:
        super().__init__()
        stages: list[nn.Module] = []
        for number in range(layers):
            stages += [nn.Linear(ins if number == 0 else hidden, hidden), nn.ReLU()]
        self.layers = nn.Sequential(*stages, nn.Linear(hidden, 3))


class LocalImplicit(nn.Module):
    """EDSR features of 3x3 neighbourhoods, from which a perceptron predicts the colour at a place.

    Ho & Vasconcelos, "DISCO: Adversarial Defense with Local Implicit Functions" (NeurIPS 2022), the network of LIIF.
    The perceptron reads the features and four more numbers: how far the place is from the centre of a pixel, down and
    across, and the height and width of the cell to be coloured. Only the centres of the image's own pixels are coloured
    here. The blend of the four nearest features then has all its weight on the pixel's own, the distances are 0, and
    the cell is a pixel, whose height and width are 2 in LIIF's units. In the last row and column the published blend
    has no weight left, and its code takes the mean with a pixel beside; this is not done here.

    With `residual` the perceptron predicts the change of the colour, which keeps detail that a small network cannot
    redraw. The published network predicts the colour itself.
    """

    def __init__(
        self, width: int = 64, blocks: int = 16, hidden: int = 256, layers: int = 4, residual: bool = False
    ) -> None:
        super().__init__()
        self.encoder = _Encoder(width, blocks)
        self.imnet = _Perceptron(9 * width + 4, hidden, layers)
        self.residual = residual
        if residual:
            starting_as_identity(self, self.imnet.layers[-1])

    def forward(self, images: Images) -> Images:
        first, *others = (layer for layer in self.imnet.layers if isinstance(layer, nn.Linear))
        near, position_weights = first.weight[:, :-4], first.weight[:, -4:]
        kernel = near.reshape(len(near), -1, 3, 3)  # a perceptron of 3x3 features is a convolution
        of_cell = 2 * position_weights[:, 2:].sum(dim=1)  # the distances, the first two numbers, are 0
        x = F.conv2d(self.encoder(2 * images - 1), kernel, first.bias + of_cell, padding=1)
        for layer in others:
            x = F.conv2d(F.relu(x), layer.weight[:, :, None, None], layer.bias)
        return images + x / 2 if self.residual else x / 2 + 0.5


class ColourFilter(nn.Module):
    """Three convolutions that undo changes of colour.

    Gushchin et al., "Adversarial purification for no-reference image-quality metrics: applicability study and new
    methods" (2024): 64, 16 and 3 filters, instance normalisation, tanh.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 64, 3, 1, 1), nn.Conv2d(64, 16, 3, 1, 1)
        self.conv3 = nn.Conv2d(16, 3, 3, 1, 1)

    def forward(self, images: Images) -> Images:
        x = F.instance_norm(self.conv2(F.leaky_relu(self.conv1(images), 0.2)))
        return torch.tanh(self.conv3(F.leaky_relu(x, 0.2)))
