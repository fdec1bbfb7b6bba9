"""Gradients of single rows in all layers of a network, without an array of rows x parameters.

The gradient of a linear layer for one row is the outer product of the layer's input and of the slope, the derivative of
the loss by the layer's output: two vectors stand for a matrix. The gradient of a convolution is a sum of such products
over positions, whose factors are larger than the gradient itself; only its norm is kept, row by row. Biases and
normalisation layers are left out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from imharness.errors import HarnessError
from imharness_membership.training import AT_ONCE

CONVOLVED = 32
"""The number of rows whose convolutions' gradients are in memory at once."""


@dataclass(frozen=True)
class RowGradients:
    """What `row_gradients` returns; see `imharness.membership.LayerGradients` for shapes.

    `given`: whether the inputs of the first linear layer are the rows themselves; then `inputs` leaves them out.
    """

    sizes: torch.Tensor
    inputs: torch.Tensor
    slopes: torch.Tensor
    norms: torch.Tensor
    given: bool


def row_gradients(network: nn.Module, features: torch.Tensor, labels: torch.Tensor) -> RowGradients:
    """Return the gradients of the cross-entropy of each row in every linear layer and convolution of a network.

    Args:
        network: in evaluation mode; returns logits.
        features: ``(n, ...)``.
        labels: int64 ``(n,)``.
    """
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    size = CONVOLVED if any(isinstance(layer, nn.Conv2d) for layer in layers) else AT_ONCE
    chunks = zip(features.split(size), labels.split(size), strict=True)
    by_chunk = [_gradients_of_chunk(network, layers, *chunk) for chunk in chunks]
    sizes = by_chunk[0][0]
    inputs, slopes, norms = (torch.cat([gradients[index] for gradients in by_chunk]) for index in (1, 2, 3))
    width = features[:1].numel()
    has_features = bool(sizes[0, 0] == width) and torch.equal(inputs[:, :width], features.flatten(1))
    return RowGradients(sizes, inputs[:, width:] if has_features else inputs, slopes, norms, has_features)


def _gradients_of_chunk(
    network: nn.Module, layers: list[nn.Module], features: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return sizes, inputs, slopes and norms of some rows; layers have the order in which the network calls them."""
    with torch.enable_grad(), _watched(layers) as calls:
        loss = F.cross_entropy(network(features), labels, reduction="sum")
        by_output = torch.autograd.grad(loss, [output for _, _, output in calls])
    linear, norms = [], []
    for (layer, x, _), slope in zip(calls, by_output, strict=True):
        if isinstance(layer, nn.Conv2d):
            norms.append(_norm(layer, x, slope))
        elif x.shape[:-1] == (len(features),):
            linear.append((x, slope))
        else:
            raise HarnessError(
                f"Gradients of rows: a linear layer is given {tuple(x.shape)}, not one vector for each row; "
                "leave out the evaluators that read all layers."
            )
    return (
        torch.tensor([(x.shape[1], slope.shape[1]) for x, slope in linear]),
        torch.cat([x for x, _ in linear], dim=1),
        torch.cat([slope for _, slope in linear], dim=1),
        torch.stack(norms, dim=1) if norms else features.new_zeros(len(features), 0),
    )


@contextmanager
def _watched(layers: list[nn.Module]) -> Iterator[list[tuple[nn.Module, torch.Tensor, torch.Tensor]]]:
    """Yield a list to which every call of a layer adds the layer, its input and its output."""
    calls: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []

    def keep(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        calls.append((layer, inputs[0].detach().clone(), output))
        return output.clone()  # an activation behind the layer may write into what it is given

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _norm(layer: nn.Conv2d, x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Return the norm of the gradient of a convolution's weights for each row, ``(n,)``."""
    patches = F.unfold(x, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # (n, inputs * k * k, places)
    patches, slope = (tensor.unflatten(1, (layer.groups, -1)).flatten(3) for tensor in (patches, slope))
    return torch.linalg.vector_norm(slope @ patches.mT, dim=(1, 2, 3))
