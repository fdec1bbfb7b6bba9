"""Returns the true gradient in the first two backward passes of a process, and the negated one afterwards."""

import torch

from imharness.images import DefenseInfo, Purification, hookimpl

_asked = []


class _Astray(torch.autograd.Function):
    @staticmethod
    def forward(ctx, images):
        return images.clone()

    @staticmethod
    def backward(ctx, upstream):
        _asked.append(1)
        return upstream if len(_asked) < 3 else -upstream


class Tiring(Purification):
    """Return the images as they are."""

    info = DefenseInfo(id="blind/counts-gradients", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: _Astray.apply(images)


@hookimpl
def components():
    return [Tiring()]
