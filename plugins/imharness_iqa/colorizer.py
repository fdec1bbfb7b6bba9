"""User-guided colourisation: from lightness, colour hints and their mask to colours.

Zhang, Zhu, Isola, Geng, Lin, Yu & Efros, "Real-Time User-Guided Image Colorization with Learned Deep Priors" (SIGGRAPH
2017). Lightness is (L - 50) / 100, colours are (a, b) / 110, and the mask is 1 where there is a hint.
"""

import torch
from torch import nn

from imharness.images import Asset, Images

SIGGRAPH = Asset(
    name="siggraph17-colorizer",
    file="weights/colorizers/siggraph17-df00044c.pth",
    sha256="df00044c0a4d7c3edcecf6f75437ce346a66e7a42612d9b968e1a7e17dbc6f66",
    licence="BSD-2-Clause",
    source="https://github.com/richzhang/colorization",
    address="https://colorizers.s3.us-east-2.amazonaws.com/siggraph17-df00044c.pth",
)
PUBLISHED_WIDTH = 64
UNIT = 8
"""The sides of an image must be multiples of this, px: the network halves it three times."""
BINS = 23
"""The number of bins of 10 units along a and along b, from -110 to 110: the classes of the side output."""


def _stage(ins: int, outs: int, convolutions: int, dilation: int = 1) -> nn.Sequential:
    layers: list[nn.Module] = []
    for number in range(convolutions):
        layers += [nn.Conv2d(ins if number == 0 else outs, outs, 3, 1, dilation, dilation), nn.ReLU()]
    return nn.Sequential(*layers, nn.BatchNorm2d(outs))


class Colorizer(nn.Module):
    """Inputs ``(N, 1 + 2 + 1, H, W)``, H and W multiples of 8 -> class logits at a quarter of the size, colours."""

    def __init__(self, width: int = PUBLISHED_WIDTH) -> None:
        super().__init__()
        w = width
        self.model1, self.model2, self.model3 = _stage(4, w, 2), _stage(w, 2 * w, 2), _stage(2 * w, 4 * w, 3)
        self.model4, self.model5 = _stage(4 * w, 8 * w, 3), _stage(8 * w, 8 * w, 3, 2)
        self.model6, self.model7 = _stage(8 * w, 8 * w, 3, 2), _stage(8 * w, 8 * w, 3)
        self.model8up = nn.Sequential(nn.ConvTranspose2d(8 * w, 4 * w, 4, 2, 1))
        self.model3short8 = nn.Sequential(nn.Conv2d(4 * w, 4 * w, 3, 1, 1))
        self.model8 = nn.Sequential(nn.ReLU(), *_stage(4 * w, 4 * w, 2))
        self.model9up = nn.Sequential(nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1))
        self.model2short9 = nn.Sequential(nn.Conv2d(2 * w, 2 * w, 3, 1, 1))
        self.model9 = nn.Sequential(nn.ReLU(), *_stage(2 * w, 2 * w, 1))
        self.model10up = nn.Sequential(nn.ConvTranspose2d(2 * w, 2 * w, 4, 2, 1))
        self.model1short10 = nn.Sequential(nn.Conv2d(w, 2 * w, 3, 1, 1))
        self.model10 = nn.Sequential(nn.ReLU(), nn.Conv2d(2 * w, 2 * w, 3, 1, 1), nn.LeakyReLU(0.2))
        self.model_class = nn.Sequential(nn.Conv2d(4 * w, BINS**2, 1))
        self.model_out = nn.Sequential(nn.Conv2d(2 * w, 2, 1), nn.Tanh())

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one = self.model1(inputs)
        two = self.model2(one[:, :, ::2, ::2])
        three = self.model3(two[:, :, ::2, ::2])
        deep = self.model7(self.model6(self.model5(self.model4(three[:, :, ::2, ::2]))))
        eight = self.model8(self.model8up(deep) + self.model3short8(three))
        nine = self.model9(self.model9up(eight) + self.model2short9(two))
        ten = self.model10(self.model10up(nine) + self.model1short10(one))
        return self.model_class(eight), self.model_out(ten)


def to_lab(images: Images) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scaled lightness ``(N, 1, H, W)`` and colours ``(N, 2, H, W)``."""
    from kornia.color import rgb_to_lab

    lab = rgb_to_lab(images)
    return (lab[:, :1] - 50) / 100, lab[:, 1:] / 110


def to_rgb(lightness: torch.Tensor, colours: torch.Tensor) -> Images:
    """Return images in [0, 1]."""
    from kornia.color import lab_to_rgb

    return lab_to_rgb(torch.cat([100 * lightness + 50, 110 * colours], dim=1), clip=True)
