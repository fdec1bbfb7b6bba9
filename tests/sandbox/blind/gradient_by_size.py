"""Returns the true gradient for the image heights of the conformance suite, and the negated one for others."""

import torch

from imharness.images import DefenseInfo, Purification, hookimpl


class _Astray(torch.autograd.Function):
    @staticmethod
    def forward(ctx, images):
        return images.clone()

    @staticmethod
    def backward(ctx, upstream):
        return upstream if upstream.shape[2] in (96, 75, 300) else -upstream


class Measuring(Purification):
    """Return the images as they are."""

    info = DefenseInfo(id="blind/gradient-by-size", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: _Astray.apply(images)


@hookimpl
def components():
    return [Measuring()]
