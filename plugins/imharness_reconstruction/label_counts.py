"""How many images of each class are behind a shared gradient, read from the gradient of the last layer.

The gradient of the last bias is the mean, over images, of softmax minus one-hot. With the softmax p_c of an image of
class c, the counts n solve ``sum_c n_c (p_c - e_c) = P g`` with ``sum n = P`` (Ma et al., "Instance-wise Batch Label
Restoration via Gradients in Federated Learning", ICLR 2023). p_c follows from the class's mean embedding, which the
gradient of its row of the last weights gives, divided by that of its bias. The counts are exact where the softmax is
the same for all images of a class, as with one image for each class and confident outputs, or as the last layer starts
at zero.
"""

import numpy as np
import torch
from scipy.optimize import nnls

from imharness.gradients import Gradients

FIRM = 1e3
"""The weight of the equation that counts add up to the number of images."""


def label_counts(gradients: Gradients, model: torch.nn.Module, images: int, scaled: bool = True) -> torch.Tensor:
    """Return the number of images of each class behind each gradient, int64 ``(B, classes)``, with sum `images`.

    `gradients` end with the last layer's bias ``(B, classes)``, and before it come its weights ``(B, classes, F)`` if
    it is linear. `scaled`: whether these are mean gradients; else they are known up to a positive factor, and some
    class is taken to have no image.
    """
    names = [name for name, _ in model.named_parameters()]
    bias, rows = gradients[names[-1]].double(), gradients[names[-2]].double() if len(names) > 1 else None
    own = dict(model.named_parameters())
    shift = own[names[-1]].detach().double()
    found = []
    for b, slope in enumerate(bias):
        logits = shift.expand(len(slope), -1)
        if rows is not None and rows[b].ndim == 2 and len(rows[b]) == len(slope):
            logits = shift + _embeddings(rows[b], slope) @ own[names[-2]].detach().double().T
        system = logits.softmax(dim=1).T - torch.eye(len(slope), dtype=logits.dtype, device=logits.device)
        found.append(_whole(_solved(system.cpu().numpy(), slope.cpu().numpy(), images, scaled), images))
    return torch.tensor(np.array(found), device=bias.device)


def listed(counts: torch.Tensor) -> torch.Tensor:
    """Return the labels of each row of counts ``(B, classes)`` in ascending order, int64 ``(B, images)``."""
    classes = torch.arange(counts.shape[1], device=counts.device)
    return torch.stack([classes.repeat_interleave(row) for row in counts])


def _embeddings(rows: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Return the mean embedding of each class ``(classes, F)``; of a class without images, that of all images.

    The row of a class has the embeddings of its images with a negative factor, and those of others with a positive one.
    """
    present = slope < 0
    factor = torch.where(slope.abs() > 0, slope, 1)
    own = rows / factor[:, None]
    usual = own[present].mean(dim=0) if present.any() else torch.zeros_like(own[0])
    return torch.where(present[:, None], own, usual)


def _solved(system: np.ndarray, slope: np.ndarray, images: int, scaled: bool) -> np.ndarray:
    """Return counts ``(classes,)`` that are not negative and add up to `images`, by least squares."""
    if scaled:
        found, _ = nnls(np.vstack([system, np.full(len(slope), FIRM)]), np.append(images * slope, FIRM * images))
        return found
    found, _ = nnls(system, slope * images / max(np.abs(slope).max(), 1e-30))
    return found * images / max(found.sum(), 1e-30)


def _whole(counts: np.ndarray, images: int) -> np.ndarray:
    """Return whole numbers with sum `images`, by the largest remainders."""
    whole = np.floor(counts + 1e-6).astype(np.int64)
    missing = images - int(whole.sum())
    order = np.argsort(whole - counts, kind="stable")
    for place in order[: max(missing, 0)]:
        whole[place] += 1
    for place in order[::-1]:
        if whole.sum() <= images:
            break
        whole[place] -= min(whole[place], whole.sum() - images)
    return whole
