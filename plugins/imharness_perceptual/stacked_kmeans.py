"""Initialises the filters of a network, layer by layer, with k-means centres of the layer's input patches.

Krähenbühl, Doersch, Donahue & Darrell, "Data-dependent Initializations of Convolutional Neural Networks" (ICLR 2016):
patches of a layer's input are whitened and set to unit length, and the filters are the centres of k-means; then
every channel is scaled to unit variance over the data and shifted to a small positive mean. Zhang et al. (CVPR 2018)
use such a network, "K-means", as their unsupervised one. The method needs images alone.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from imharness.errors import UsageError
from imharness.images import Images

PATCHES = 20_000
"""The largest number of patches that a layer is filled from."""
SMALLEST, ADDED = 1e-6, 1e-3
"""In whitening: directions whose sum of squares over all patches is below the first number are left out; the second is
added to the sums of the others."""
MEAN = 0.1
"""The mean of every channel before its ReLU."""


@torch.no_grad()
def stacked_kmeans(backbone: nn.Module, images: Images, rng: torch.Generator) -> None:
    """Fill all convolutions of a network in the order in which images pass them.

    `images`: float ``(N, 3, H, W)``, as the network sees them. Raises `UsageError` where a layer sees fewer patches
    than it has filters, or has more filters than its patches have numbers.
    """
    for layer in _in_order(backbone, images):
        seen = _input_of(backbone, layer, images)
        patches = _patches(layer, seen, rng)
        if not layer.out_channels <= min(patches.shape):
            raise UsageError(
                f"k-means cannot fill {layer.out_channels} filters from {patches.shape[0]} patches of "
                f"{patches.shape[1]} numbers; take more images, or another network."
            )
        filters = centres(
            patches.double().cpu().numpy(), layer.out_channels, int(torch.randint(2**31, (), generator=rng))
        )
        layer.weight.copy_(torch.from_numpy(filters).to(layer.weight).view_as(layer.weight))
        if layer.bias is not None:
            layer.bias.zero_()
        out = layer(seen)
        mean, deviation = out.mean(dim=(0, 2, 3)), out.std(dim=(0, 2, 3)).clamp(min=SMALLEST)
        layer.weight.div_(deviation.view(-1, 1, 1, 1))
        if layer.bias is not None:
            layer.bias.copy_(MEAN - mean / deviation)


def centres(patches: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return filters ``(count, d)`` from the centres c of k-means of whitened patches of unit length.

    `patches`: x ``(n, d)``. The matrix W ``(d, count)`` whitens them in their `count` strongest directions, to
    (x - mean) W. A filter is W c: its product with a patch is that of c with the whitened patch, up to a constant.
    """
    from sklearn.cluster import MiniBatchKMeans

    centred = patches - patches.mean(axis=0)
    squares, directions = np.linalg.eigh(centred.T @ centred)
    squares, directions = squares[-count:], directions[:, -count:]
    retained = squares >= SMALLEST
    whitening = directions * np.where(retained, 1 / np.sqrt(np.where(retained, squares, 1) + ADDED), 0)
    white = centred @ whitening
    white /= np.maximum(np.linalg.norm(white, axis=1, keepdims=True), SMALLEST)
    clusters = MiniBatchKMeans(count, batch_size=10 * count, n_init=1, random_state=seed).fit(white).cluster_centers_
    return np.asarray(clusters @ whitening.T)


def _in_order(backbone: nn.Module, images: Images) -> list[nn.Conv2d]:
    """Return the convolutions of a network in the order in which images pass them."""
    met: list[nn.Conv2d] = []
    hooks = [
        module.register_forward_hook(lambda layer, _, __: met.append(layer))
        for module in backbone.modules()
        if isinstance(module, nn.Conv2d)
    ]
    backbone(images[:1])
    for hook in hooks:
        hook.remove()
    return met


def _input_of(backbone: nn.Module, layer: nn.Conv2d, images: Images) -> torch.Tensor:
    """Return what a layer sees ``(N, channels, h, w)`` when images pass the network."""
    inputs: list[torch.Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0].clone()))
    backbone(images)
    hook.remove()
    return inputs[0]


def _patches(layer: nn.Conv2d, seen: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Return what the filters of a layer see at random places ``(n, channels * height * width)``."""
    cut = F.unfold(seen, layer.kernel_size, layer.dilation, layer.padding, layer.stride).transpose(1, 2).flatten(0, 1)
    return cut[torch.randperm(len(cut), generator=rng)[:PATCHES].to(cut.device)]
