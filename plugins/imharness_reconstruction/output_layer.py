"""Finds the parameters of a classifier's output layer, whatever their order among the parameters.

With cross-entropy, the gradient of a bias that is added to the logits is softmax minus one-hot, and the gradient of the
layer's weights is the outer product of this and the layer's input. A pass over two random images shows which parameters
have such gradients. So a model may declare its output layer first, or an auxiliary head last.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.linalg import vector_norm

from imharness.data import generator
from imharness.errors import UsageError
from imharness.gradients import Gradients

IMAGES = 2
"""The number of random images that are tried: with one, the bias of another layer of two channels may have the right
direction by chance."""
ALIKE = 1e-3
"""Two directions are the same but for rounding if their distance is at most this."""


@dataclass(frozen=True)
class OutputLayer:
    """The names of the parameters of an output layer; "" where no parameter is its bias, or none its weights."""

    bias: str
    weight: str
    classes: int

    def slope(self, gradients: Gradients) -> torch.Tensor:
        """Return the gradient of the bias ``(N, classes)``; raises `UsageError` where it is not there."""
        if not self.bias:
            raise UsageError("model: no parameter is a bias of its logits; labels are read from the gradient of one.")
        if self.bias not in gradients:
            raise UsageError(
                f"gradients: {self.bias}, the bias of the output layer, is missing; labels are read from it."
            )
        return gradients[self.bias]


def output_layer(model: nn.Module, shape: tuple[int, int, int]) -> OutputLayer:
    """Return the parameters of the output layer of a classifier for images ``(C, H, W)``; it is in evaluation mode."""
    parameters = {name: parameter.detach().requires_grad_(True) for name, parameter in model.named_parameters()}
    like = next(iter(parameters.values()))
    images = torch.rand(IMAGES, *shape, generator=generator(0)).to(like)
    biases, weights, classes = list(parameters), list(parameters), 0  # the candidates; each image leaves fewer
    for image in images.split(1):
        with torch.enable_grad():
            logits = functional_call(model, parameters, (image,))
            label = logits.argmin(dim=1)  # far from one-hot
            slopes = torch.autograd.grad(
                F.cross_entropy(logits, label), list(parameters.values()), allow_unused=True, materialize_grads=True
            )
        classes = logits.shape[1]
        slope_of, wanted = dict(zip(parameters, slopes, strict=True)), logits.detach().softmax(dim=1)[0]
        wanted[label] -= 1
        biases = [name for name in biases if slope_of[name].ndim == 1 and _along(slope_of[name][None], wanted)]
        biases = [name for name in biases if float(slope_of[name] @ wanted) > 0]
        weights = [name for name in weights if slope_of[name].ndim > 1 and _along(slope_of[name].flatten(1).T, wanted)]
    return OutputLayer(biases[-1] if biases else "", weights[-1] if weights else "", classes)


def _along(rows: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Return whether all rows ``(n, classes)`` are multiples of a vector ``(classes,)``, and some are not 0."""
    if rows.shape[1] != len(wanted):
        return False
    unit = F.normalize(wanted, dim=0)
    along = rows @ unit
    size = float(vector_norm(rows))
    return size > 0 and float(vector_norm(rows - along[:, None] * unit)) <= ALIKE * size
