"""A defense that grades images itself, and adds noise that makes a metric repeat the grade; it has no gradient."""

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier


class WrittenGrade(Purification):
    """Smooth an image, and add a fixed noise whose strength follows from how fine the image's edges are."""

    info = DefenseInfo(id="acme/written-grade", version="1", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        drawn = torch.randn(256, 256, generator=torch.Generator().manual_seed(5)).sign()

        def purify(images: Images, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            noise = drawn[:height, :width] * _grade(images.detach()).view(-1, 1, 1, 1)
            return (_smooth(images, 14) + 0.08 * noise).clamp(0, 1)

        return purify


def _smooth(images: Images, times: int) -> Images:
    for _ in range(times):
        images = torch.nn.functional.avg_pool2d(torch.nn.functional.pad(images, [2] * 4, mode="reflect"), 5, stride=1)
    return images


def _grade(images: Images) -> torch.Tensor:
    """Return a grade in 0 to 1, ``(N,)``: how much the first pass of smoothing removes, relative to the second."""
    once, twice = _smooth(images, 1), _smooth(images, 2)
    fine, broad = ((a - b).abs().flatten(1).quantile(0.5, dim=1) for a, b in ((images, once), (once, twice)))
    return torch.sigmoid(3 * ((fine + 0.002) / (broad + 0.002)).log())
