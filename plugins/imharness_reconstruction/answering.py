"""Answers `imharness.reconstruct`: rebuilds images from given gradients and measures how well they explain these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from imharness.errors import UsageError
from imharness.gradients import LABELS, Round
from imharness.questions import Reconstructed, SharedGradients
from imharness_reconstruction.convergence import Shared, matching, matching_round
from imharness_reconstruction.label_counts import label_counts, listed
from imharness_reconstruction.pairing import paired
from imharness_reconstruction.per_image import labels_from_gradients
from imharness_reconstruction.rounds import norms

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
    "over several local steps, or with another label or loss? Was noise added? An attack such as "
    "'federated[images=4,epochs=2]' simulates a round of federated learning."
)
SUSPECTED = (
    Round(training_mode=True),
    *(Round(epochs=epochs, learning_rate=rate) for epochs in (2, 5, 10) for rate in (0.01, 0.1, 1.0)),
)
"""Rounds of one image that are tried where an original does not explain its gradient."""


def answered(asked: SharedGradients) -> Reconstructed:
    """Rebuild the images; raises `UsageError` where no labels can be read from the gradients."""
    own, last = asked.own_round, list(asked.gradients.values())[-1]
    if last.ndim != 2:
        raise UsageError("model: its last parameter must be the bias of the last layer; labels are read from it.")
    if own is not None:
        return _of_round(asked, own)
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
        if not explained.all():
            doubts += _suspected(asked, labels if asked.labels is None else asked.labels, ~explained)
    return Reconstructed(found.mul(255).round() / 255, {"label": labels.cpu().numpy(), **columns}, TOLD, tuple(doubts))


def _of_round(asked: SharedGradients, own: Round) -> Reconstructed:
    """Rebuild the images of participants of a round of federated learning."""
    shared, last = asked.gradients, list(asked.gradients.values())[-1]
    several, classes = last.shape
    known = None if asked.labels is None else asked.labels.view(several, own.images)
    held = {**shared, **asked.told} | ({LABELS: known} if own.labels_known and known is not None else {})
    found = asked.attack(held, asked.network, asked.size, asked.streams, lambda done, total: None)
    read = listed(label_counts(shared, asked.network, own.images, own.rate_known))
    read = known if own.labels_known and known is not None else read
    if asked.originals is None:
        originals, place, true = found, torch.arange(len(found), device=found.device), read
    else:
        originals = asked.originals
        place = paired(found, originals, own.images)
        true = read.flatten()[place].view_as(read) if known is None else known
    parts = [x.unflatten(0, (several, own.images)) for x in (originals, found[place], found)]
    targets, listed_as = (F.one_hot(own_labels, classes).float() for own_labels in (true, read))
    with torch.no_grad():
        fits = matching_round(asked.network, own, shared, parts[0], targets, parts[1], parts[2], listed_as)
    fit = {name: values.cpu().numpy() for name, values in fits.items()}
    told = ("loss", "grey") if asked.originals is None else ("loss", "attainable", "grey")
    columns, doubts = {key: fit[key] for key in told}, list[str]()
    if asked.originals is not None:
        explained = fit["attainable"] <= EXPLAINED
        columns["explained"] = explained
        columns["converged"] = explained if asked.closed_form else fit["converged"] & explained
        doubts += _unexplained(fit["attainable"], fit["grey"])
        if not explained.all() and not own.training_mode and norms(asked.network):
            in_training = replace(own, training_mode=True)
            with torch.no_grad():
                fits = matching_round(
                    asked.network, in_training, shared, parts[0], targets, parts[1], parts[2], listed_as
                )
            if (loss := float(fits["attainable"].max())) <= EXPLAINED:
                doubts.append(f"They do with batch norm in training mode (loss {loss:.2g}): add training_mode=true.")
    labels = read.flatten()[place].cpu().numpy()
    return Reconstructed(found[place].mul(255).round() / 255, {"label": labels, **columns}, TOLD, tuple(doubts))


def _suspected(asked: SharedGradients, labels: torch.Tensor, lost: np.ndarray) -> list[str]:
    """Say which round of one image explains the gradients that their originals do not, if one of those tried does."""
    rows = torch.as_tensor(lost, device=labels.device)
    shared = {name: values[rows] for name, values in asked.gradients.items()}
    assert asked.originals is not None
    images, classes = asked.originals[rows][:, None], list(shared.values())[-1].shape[1]
    targets = F.one_hot(labels[rows][:, None], classes).float()
    best, least = None, EXPLAINED
    for own in SUSPECTED:
        if own.training_mode and not norms(asked.network):
            continue
        try:
            with torch.no_grad():
                fit = matching_round(asked.network, own, shared, images, targets, images, images, targets)
        except ValueError:  # a batch of one image without extent has no statistics
            continue
        loss = float(fit["attainable"].max())
        if loss < least:
            best, least = own, loss
    if best is None:
        return []
    fields = "training_mode=true" if best.training_mode else f"epochs={best.epochs},local_rate={best.learning_rate:g}"
    return [
        f"They do as those of an {best.shared} (loss {least:.2g}): try attack='federated[images=1,{fields}]'."
        if not best.training_mode
        else f"They do with batch norm in training mode (loss {least:.2g}): try attack='federated[images=1,{fields}]'."
    ]


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
