"""Gradients of a classifier's loss, one per image or batch, differentiable with respect to the images."""

from collections.abc import Sequence

import torch
from torch.func import functional_call, grad, vmap

from imharness.gradients import Gradients


def image_gradients(model: torch.nn.Module, images: torch.Tensor, targets: torch.Tensor) -> Gradients:
    """Return the gradient of the cross-entropy of each image alone: parameter name -> ``(N, *shape)``.

    `targets`: int64 ``(N,)`` labels or float ``(N, classes)`` probabilities.
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(weights: dict[str, torch.Tensor], image: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = functional_call(model, weights, (image[None],))
        return torch.nn.functional.cross_entropy(logits, target[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, targets)


def mean_of(batches: Sequence[Sequence[int]], images: int) -> torch.Tensor:
    """Return ``(T, images)``: row t holds 1 / size at the images of batch t and 0 elsewhere."""
    found = torch.zeros(len(batches), images)
    for number, rows in enumerate(batches):
        found[number, list(rows)] = 1 / len(rows)
    return found


def averaged(gradients: Gradients, mean: torch.Tensor) -> Gradients:
    """Return the mean gradients of batches, ``(T, *shape)``, from those of images, ``(N, *shape)``."""
    return {name: torch.einsum("tn,n...->t...", mean, values) for name, values in gradients.items()}


def labels_from_gradients(gradients: Gradients) -> torch.Tensor:
    """Return the class whose bias in the last layer has the most negative gradient, int64 ``(N,)``.

    Exact for one image and cross-entropy (Zhao et al., iDLG, 2020, section 3): softmax minus one-hot is negative at the
    true class only.
    """
    return list(gradients.values())[-1].argmin(dim=1)
