"""Answers `imharness.reconstruct`: rebuilds images from given gradients and measures how well they explain these."""

from __future__ import annotations

import numpy as np
import torch

from imharness.errors import UsageError
from imharness.questions import Reconstructed, SharedGradients
from imharness_reconstruction.convergence import Shared, matching
from imharness_reconstruction.per_image import labels_from_gradients

TOLD = {
    "loss": "One minus the cosine of the gradient of the reconstruction and the shared one.",
    "attainable": "The same for the original image.",
    "grey": "The same for a flat grey image.",
    "explained": "Share of images that explain their gradient themselves.",
    "converged": "Share of images that explain their gradient and at which the attack came near the attainable loss.",
}
"""The meaning of the columns of the step ``reconstruct``."""
EXPLAINED = 0.01
"""The largest loss of an original that explains its gradient: rounding to 8 bits or bfloat16 leaves less than 0.001."""
OTHERWISE = (
    "Was the gradient computed over a batch, with the network in training mode (the statistics of a batch, dropout), "
    "over several local steps, or with another label or loss? Was noise added?"
)


def answered(asked: SharedGradients) -> Reconstructed:
    """Rebuild the images; raises `UsageError` where no labels can be read from the gradients."""
    last = list(asked.gradients.values())[-1]
    if last.ndim != 2:
        raise UsageError("model: its last parameter must be the bias of the last layer; labels are read from it.")
    count, place = len(last), last.device
    found = asked.attack(asked.gradients, asked.network, asked.size, asked.streams, lambda done, total: None)
    labels = labels_from_gradients(asked.gradients)
    originals = found if asked.originals is None else asked.originals
    behind = Shared(
        asked.gradients, originals, labels, torch.arange(count, device=place), torch.eye(count, device=place)
    )
    fit = {name: values.cpu().numpy() for name, values in matching(asked.network, behind, found).items()}
    doubts = _several(last)
    if asked.originals is None:
        columns = {key: fit[key] for key in ("loss", "grey")}
    else:
        explained = fit["attainable"] <= EXPLAINED
        columns = {key: fit[key] for key in ("loss", "attainable", "grey")}
        columns |= {"explained": explained, "converged": fit["converged"] & explained}
        doubts += _unexplained(fit["attainable"], fit["grey"])
    return Reconstructed(found.mul(255).round() / 255, {"label": labels.cpu().numpy(), **columns}, TOLD, tuple(doubts))


def _unexplained(attainable: np.ndarray, grey: np.ndarray) -> list[str]:
    """Say how many originals do not explain their gradients, from the losses ``(n,)`` of originals and of grey."""
    lost = ~(attainable <= EXPLAINED)
    if not lost.any():
        return []
    one, many = "The original does not explain its gradient", "originals do not explain their gradients"
    said = one if len(lost) == 1 else f"{int(lost.sum())} of {len(lost)} {many}"
    return [
        f"{said}: the loss there is {attainable[lost].mean():.3g}, that of a flat grey image "
        f"{grey[lost].mean():.3g}, and it should be 0. "
        f"An attack that fails there does not show that the gradient is safe. {OTHERWISE}"
    ]


def _several(last: torch.Tensor) -> list[str]:
    """Say how many gradients of the last bias ``(n, classes)`` are not of one image.

    With cross-entropy this is softmax minus one-hot, which is negative at the label alone.
    """
    many = int(((last < 0).sum(dim=1) > 1).sum())
    if not many:
        return []
    said = "The gradient is" if len(last) == 1 else f"{many} of {len(last)} gradients are"
    return [
        f"{said} not of one image with one label: the gradient of the last bias is "
        f"negative at several classes. {OTHERWISE}"
    ]
