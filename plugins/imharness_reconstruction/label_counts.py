"""Estimates how many images of each class are behind a shared gradient, from the gradient of the output layer.

- The equation: the gradient g of the layer's bias is the mean over the P images of softmax minus one-hot. With the
  softmax p_c of the images of class c, the counts n solve ``sum_c n_c (p_c - e_c) = P g`` with ``sum n = P`` (Ma et
  al., "Instance-wise Batch Label Restoration via Gradients in Federated Learning", ICLR 2023).
- The classes: a class is present if its row of the gradient of the layer's weights has a negative entry, because
  embeddings after a ReLU or sigmoid are not negative (Yin et al., "See through Gradients: Image Batch Recovery via
  GradInversion", CVPR 2021, section 3.1).
- The softmax p_c follows from an embedding. The row of a class that is negative throughout, divided by the gradient of
  its bias, is about the embedding of its own images. For other classes, a weighted mean of all embeddings is used: the
  rows of absent classes, divided by the gradients of their biases.

Counts are right if there are as many classes as images and the signs tell the classes. Otherwise they are an estimate:
the softmax of a class is that of a mean embedding, while it differs from image to image, and the solution is rounded.
Of 60 batches of 16 digits in four classes, all are counted right in a LeNet of ReLUs as initialised, and 30 in the
LeNet of sigmoids by DLG's authors, whose large weights saturate the softmax.
"""

import numpy as np
import scipy
import torch

from imharness.data import double
from imharness.gradients import Gradients
from imharness_reconstruction.output_layer import output_layer

ROUNDING = 1e-6
"""An entry that is negative by less than this share of the largest one counts as 0."""
TINY = 1e-30
"""Divisors are raised to at least this."""
FIRM = 1e3
"""The weight of the equation that counts add up to the number of images."""


def label_counts(
    gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], images: int, scaled: bool = True
) -> torch.Tensor:
    """Return an estimate of the number of images of each class behind each gradient, int64 ``(B, classes)``.

    A row has the sum `images`. Raises `UsageError` if the gradient of the output layer's bias is missing.

    Args:
        gradients: by parameter; that of the output layer's bias ``(B, classes)`` is needed, that of its weights
            ``(B, classes, F)`` makes the estimate better.
        shape: of an image.
        images: the number of images behind each gradient.
        scaled: whether these are mean gradients. If not, they are known up to a positive factor, and at least one class
            is assumed to have no image.
    """
    head, parameters = output_layer(model, shape), dict(model.named_parameters())
    slopes = double(head.slope(gradients))
    shift = double(parameters[head.bias].detach())
    linear = head.weight in gradients
    last = double(parameters[head.weight].detach()).flatten(1) if linear else shift
    whole_counts = []
    for b, slope in enumerate(slopes):
        present, logits = slope < 0, shift.expand(len(shift), -1)
        if linear:
            rows = double(gradients[head.weight][b]).flatten(1)
            present = rows.amin(dim=1) < -ROUNDING * rows.abs().max()
            logits = shift + _embeddings(rows, slope, present) @ last.T
        if not 0 < int(present.sum()) <= images:  # noise: the signs say nothing
            present = torch.zeros_like(present).scatter(
                0, slope.topk(min(images, len(slope)), largest=False).indices, True
            )
        system = logits.softmax(dim=1).T - torch.eye(len(slope), dtype=logits.dtype, device=logits.device)
        counts = _solved(*(values.cpu().numpy() for values in (system, slope, present)), images, scaled)
        whole_counts.append(_whole(counts, present.cpu().numpy(), images))
    return torch.tensor(np.array(whole_counts), device=gradients[head.bias].device)


def listed(counts: torch.Tensor) -> torch.Tensor:
    """Return the labels of each row of counts ``(B, classes)`` in ascending order, int64 ``(B, images)``."""
    classes = torch.arange(counts.shape[1], device=counts.device)
    return torch.stack([classes.repeat_interleave(row) for row in counts])


def _embeddings(rows: torch.Tensor, slope: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Return an embedding for each class ``(classes, F)``: that of its own images if its row gives it, else the mean.

    Args:
        rows: the gradients of the output layer's weights ``(classes, F)``.
        slope: the gradient of its bias ``(classes,)``.
        present: the classes that have images, bool ``(classes,)``.
    """
    absent = ~present & (slope > 0)
    readable = present & (rows.amax(dim=1) <= 0) & (slope < 0)
    rest = absent if absent.any() else readable
    total = slope[rest].sum() if rest.any() else slope.new_tensor(1.0)
    usual = rows[rest].sum(dim=0) / total
    return torch.where(readable[:, None], rows / torch.where(readable, slope, 1)[:, None], usual)


def _solved(system: np.ndarray, slope: np.ndarray, present: np.ndarray, images: int, scaled: bool) -> np.ndarray:
    """Return counts ``(classes,)`` of the classes that are present, by least squares; they add up to `images`."""
    counts = np.zeros(len(slope))
    if scaled:
        rows = np.vstack([system[:, present], np.full(present.sum(), FIRM)])
        counts[present], _ = scipy.optimize.nnls(rows, np.append(images * slope, FIRM * images))
    else:
        counts[present], _ = scipy.optimize.nnls(system[:, present], slope / max(np.abs(slope).max(), TINY))
        counts *= images / max(counts.sum(), TINY)
    return counts


def _whole(counts: np.ndarray, present: np.ndarray, images: int) -> np.ndarray:
    """Return whole numbers with sum `images`, at least 1 for classes that are present, by the largest remainders."""
    whole = np.maximum(np.floor(counts + 1e-6).astype(np.int64), present)
    while whole.sum() != images:
        more = whole.sum() < images
        gap = np.where(present, counts - whole, -np.inf) if more else np.where(whole > present, whole - counts, -np.inf)
        whole[int(gap.argmax())] += 1 if more else -1
    return whole
