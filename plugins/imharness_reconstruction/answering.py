"""Answers `imharness.reconstruct`: rebuilds images from given gradients and measures how well they explain these."""

from __future__ import annotations

import torch

from imharness.errors import UsageError
from imharness.questions import Reconstructed, SharedGradients
from imharness_reconstruction.convergence import Shared, matching
from imharness_reconstruction.per_image import labels_from_gradients

TOLD = {
    "loss": "One minus the cosine of the gradient of the reconstruction and the shared one.",
    "attainable": "The same for the original image.",
    "grey": "The same for a flat grey image.",
    "converged": "Share of images at which the attack came near the attainable loss.",
}
"""The meaning of the columns of the step ``reconstruct``."""


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
    keys = ("loss", "grey") if asked.originals is None else ("loss", "attainable", "grey", "converged")
    columns = {"label": labels.cpu().numpy(), **{key: fit[key] for key in keys}}
    return Reconstructed(found.mul(255).round() / 255, columns, TOLD)
