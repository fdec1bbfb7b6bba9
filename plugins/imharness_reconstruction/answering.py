"""Computes the answer of `ih.reconstruct`: rebuilds images from gradients, and measures how well they explain them.

An image explains a gradient if the network's gradient for that image has the same direction, up to a small loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
import torch
import torch.nn.functional as F

from imharness.data import double
from imharness.gradients import LABELS, Gradients, ImageRng, Images, Round
from imharness_reconstruction.convergence import (
    EXPLAINED,
    NEARLY,
    Shared,
    explains,
    flat_of,
    is_flat,
    judged,
    matching,
    matching_round,
)
from imharness_reconstruction.inversion import flat, lengths
from imharness_reconstruction.label_counts import label_counts, listed
from imharness_reconstruction.output_layer import output_layer
from imharness_reconstruction.pairing import paired
from imharness_reconstruction.per_image import image_gradients, labels_from_gradients
from imharness_reconstruction.rounds import norms

DESCRIPTIONS = {
    "loss": "One minus the cosine of the gradient of the reconstruction and the shared one.",
    "attainable": "The same for the original image.",
    "grey": "The same for a flat grey image.",
    "flat": "The same for a flat image of the original's mean colour.",
    "explained": f"Share of images that explain their gradient: the loss there is at most {EXPLAINED:.0%} of that of a "
    "flat image, or what is left is the noise that was named.",
    "converged": "Share of images that explain their gradient and at which the attack came near the attainable loss.",
    "closer": "Share of reconstructions that are closer to their original, by squared error, than a flat image of its "
    "mean colour, which no gradient is needed for.",
}
"""The meaning of the columns of the step ``reconstruct``."""
CAUSES = (
    "Was the gradient computed over a batch, with the network in training mode (the statistics of a batch, dropout), "
    "over several local steps, with another label or loss, or on images that were normalised outside the model? An "
    "attack such as 'federated[images=4,epochs=2]' simulates a round of federated learning."
)
SUSPECTED = (
    Round(training_mode=True),
    *(Round(epochs=epochs, learning_rate=rate) for epochs in (2, 5, 10) for rate in (0.01, 0.1, 1.0)),
)
"""Rounds of one image that are tried if an original does not explain its gradient."""
CLEARLY = 4.0
"""A number counts as negative if it is below 0 by more than so many standard deviations of the noise."""
AS_LONG = 2.0
"""A gradient counts as scaled if its length differs from that of its original's gradient by more than this factor."""


@dataclass(frozen=True)
class SharedGradients:
    """The gradients that participants shared, and what the caller knows about them.

    Args:
        gradients: ``(n, *shape)`` by parameter, in the order of the parameters: one gradient for each of n images, or
            what each of n participants shared in the round of the attack. Parameters that were not shared are left out.
        network: the classifier that gave them, in evaluation mode, with its parameters frozen.
        size: the shape ``(3, h, w)`` of an image, or ``(1, h, w)`` of a grey one.
        attack: a built `ReconstructionAttack`, which rebuilds the images.
        streams: one random stream for each image.
        originals: the private images ``(N, *size)`` in [0, 1] on the device of the gradients, if they are known.
            Those of the first participant come first.
        federated_round: the round of federated learning that is attacked, or None.
        closed_form: whether the attack is a formula, which cannot have stopped too early.
        labels: the labels of the originals ``(N,)``, if they are known.
        statistics: those of `Round.statistics_known`, by buffer.
        noise: the standard deviation of the Gaussian noise in each number of the gradients; 0: none is known.
    """

    gradients: Gradients
    network: torch.nn.Module
    size: tuple[int, int, int]
    attack: Callable[..., Images]
    streams: ImageRng
    originals: Images | None
    federated_round: Round | None
    closed_form: bool
    labels: torch.Tensor | None
    statistics: Gradients
    noise: float


@dataclass(frozen=True)
class Reconstructed:
    """The answer.

    Args:
        images: ``(n, *size)`` in [0, 1], multiples of 1/255.
        columns: name -> one number for each image, see `DESCRIPTIONS`.
        doubts: sentences on gradients that do not fit the originals or the attack. Then a reconstruction that is far
            from its original does not show that the gradient is safe.
    """

    images: Images
    columns: Mapping[str, npt.NDArray[Any]]
    doubts: Sequence[str]


def answered(request: SharedGradients) -> Reconstructed:
    """Rebuild the images; raises `UsageError` where no labels can be read from the gradients."""
    federated_round, shared = request.federated_round, request.gradients
    if federated_round is not None:
        return _of_round(request, federated_round)
    # 1. Read the labels from the gradients, and rebuild the images.
    read = labels_from_gradients(shared, request.network, request.size)
    count, device = len(read), read.device
    rebuilt = request.attack(shared, request.network, request.size, request.streams, lambda done, total: None)
    # 2. Measure how well the reconstructions, the originals and flat images explain the gradients.
    originals = rebuilt if request.originals is None else request.originals
    with_read = Shared(shared, originals, read, torch.arange(count, device=device), torch.eye(count, device=device))
    fit = matching(request.network, with_read, rebuilt)
    true_labels = read if request.labels is None else request.labels
    columns = {"loss": fit["loss"], "grey": fit["grey"]}
    doubts = _several(request) + _mislabelled(read[:, None], true_labels)
    # 3. If the originals are known, judge whether they explain the gradients, and whether the attack converged.
    if request.originals is not None:
        explained_as_read, _ = verdict(fit, shared, request.noise)
        if not torch.equal(read, true_labels):
            with_true = matching(request.network, replace(with_read, targets=true_labels), rebuilt)
            fit = judged(fit["loss"], *(with_true[name] for name in ("attainable", "grey", "flat")))
        explained, sentences = verdict(fit, shared, request.noise)
        doubts += _explained_as_read(explained_as_read & ~explained, read, true_labels)
        doubts += _scaled(request, true_labels, explained & ~fit["converged"])
        converged = fit.pop("converged") | request.closed_form
        columns = {"explained": explained, "converged": converged & explained, **fit}
        doubts += sentences
        if not explained.all():
            doubts += _suspected(request, true_labels, ~explained)
    return _reconstructed(rebuilt, request.originals, read, columns, doubts)


def _reconstructed(
    rebuilt: torch.Tensor,
    originals: torch.Tensor | None,
    labels: torch.Tensor,
    columns: Mapping[str, torch.Tensor],
    doubts: list[str],
) -> Reconstructed:
    """Return the answer; images are rounded to 8 bits and, if the originals are known, compared with flat images."""
    images, first_columns = rebuilt.mul(255).round() / 255, {"label": labels}
    if originals is not None:
        first_columns["closer"], sentences = _closer_than_flat(images, originals)
        doubts = doubts + sentences
    arrays = {name: values.cpu().numpy() for name, values in {**first_columns, **columns}.items()}
    return Reconstructed(images, arrays, tuple(doubts))


def _of_round(request: SharedGradients, federated_round: Round) -> Reconstructed:
    """Rebuild the images of participants of a round of federated learning."""
    shared, network, size = request.gradients, request.network, request.size
    participants, classes = len(next(iter(shared.values()))), output_layer(network, size).classes
    true_labels = None if request.labels is None else request.labels.view(participants, federated_round.images)
    # 1. Rebuild the images, with the labels if the attacker knows them, and with labels read from the gradients if not.
    received = {**shared, **request.statistics}
    if federated_round.labels_known and true_labels is not None:
        received[LABELS] = read = true_labels
    else:
        read = listed(label_counts(shared, network, size, federated_round.images, federated_round.rate_known))
    rebuilt = request.attack(received, network, size, request.streams, lambda done, total: None)
    # 2. Assign each reconstruction to an original of its participant.
    if request.originals is None:
        originals, order, labels = rebuilt, torch.arange(len(rebuilt), device=rebuilt.device), read
    else:
        originals = request.originals
        order = paired(rebuilt, originals, federated_round.images)
        labels = read.flatten()[order].view_as(read) if true_labels is None else true_labels
    private, ordered, unordered = (
        images.unflatten(0, (participants, federated_round.images)) for images in (originals, rebuilt[order], rebuilt)
    )
    targets, read_targets = F.one_hot(labels, classes).float(), F.one_hot(read, classes).float()

    def fits(simulated: Round) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return matching_round(network, simulated, shared, private, targets, ordered, unordered, read_targets)

    # 3. Measure how well reconstructions and originals explain what was shared.
    fit, doubts = fits(federated_round), list[str]()
    columns = {"loss": fit["loss"], "grey": fit["grey"]}
    if request.originals is not None:
        explained, doubts = verdict(fit, shared, request.noise)
        converged = fit.pop("converged") | request.closed_form
        columns = {"explained": explained, "converged": converged & explained, **fit}
        if not explained.all() and not federated_round.training_mode and norms(network):
            in_training_mode = fits(replace(federated_round, training_mode=True))
            if verdict(in_training_mode, shared, request.noise)[0].all():
                loss = float(in_training_mode["attainable"].max())
                doubts.append(f"They do with batch norm in training mode (loss {loss:.2g}): add training_mode=true.")
        if not explained.all() and true_labels is None and (read != read[:, :1]).any():
            doubts.append(
                "Labels were read from what was shared, which does not tell whose they are: give those of the "
                "originals as labels, or they may explain nothing for that alone."
            )
    if true_labels is not None:
        doubts += _mislabelled(read, true_labels)
    return _reconstructed(rebuilt[order], request.originals, read.flatten()[order], columns, doubts)


def _suspected(request: SharedGradients, labels: torch.Tensor, lost: torch.Tensor) -> list[str]:
    """Say which round of `SUSPECTED` gives the gradients that the originals do not explain, if one does.

    `lost`: a mask of the images whose originals do not explain their gradients.
    """
    shared = {name: values[lost] for name, values in request.gradients.items()}
    assert request.originals is not None
    images, classes = request.originals[lost][:, None], output_layer(request.network, request.size).classes
    targets = F.one_hot(labels[lost][:, None], classes).float()
    best, lowest = None, float("inf")
    for candidate in SUSPECTED:
        if candidate.training_mode and not norms(request.network):
            continue
        try:
            with torch.no_grad():
                fit = matching_round(request.network, candidate, shared, images, targets, images, images, targets)
        except ValueError:  # a batch of one image without extent has no statistics
            continue
        loss = float(fit["attainable"].max())
        if loss < lowest and verdict(fit, shared, request.noise)[0].all():
            best, lowest = candidate, loss
    if best is None:
        return []
    fields = "training_mode=true" if best.training_mode else f"epochs={best.epochs},local_rate={best.learning_rate:g}"
    how = "with batch norm in training mode" if best.training_mode else f"as those of an {best.shared}"
    return [f"They do {how} (loss {lowest:.2g}): try attack='federated[images=1,{fields}]'."]


def verdict(fit: Mapping[str, torch.Tensor], shared: Gradients, noise: float) -> tuple[torch.Tensor, list[str]]:
    """Return which originals explain their gradients ``(n,)``, and sentences on those that do not.

    `fit`: the numbers of `matching`, one for each original; `noise`: the standard deviation of known noise, or 0.
    """
    attainable, of_flat = fit["attainable"], torch.minimum(fit["grey"], fit["flat"])
    per_gradient = len(attainable) // len(next(iter(shared.values())))  # images of a participant
    explained, blind = (
        flags.repeat_interleave(per_gradient).to(attainable.device)
        for flags in explains(attainable[::per_gradient], of_flat[::per_gradient], shared, noise)
    )
    doubts = []
    if blind.any():
        size = f"With noise of {noise:g}, " if noise else ""
        opening = _of(blind, "a flat image explains the gradient", "flat images explain gradients")
        sentence = f"{size}{opening} as well as the original does, which leaves open whose gradient it is."
        doubts.append(sentence[0].upper() + sentence[1:])
    lost = ~explained & ~blind
    near = lost & (attainable <= NEARLY * of_flat) & (noise == 0)
    if near.any():
        opening = _of(near, "The original nearly explains its gradient", "originals nearly explain their gradients")
        share = float((attainable / of_flat)[near].mean())
        doubts.append(
            f"{opening}: the loss there is {share:.1%} of that of a flat image, and it should be below "
            f"{EXPLAINED:.0%}. "
            "Rounding and noise leave as much, and so does another image that is alike. If noise was added, give its "
            "standard deviation as noise."
        )
    lost &= ~near
    if lost.any():
        opening = _of(lost, "The original does not explain its gradient", "originals do not explain their gradients")
        if noise:
            # the variance of what remains of the gradient without its component along that of the original
            squares = double(flat(shared)).square().mean(dim=1).repeat_interleave(per_gradient)
            variance = squares * attainable * (2 - attainable)
            reason = (
                f"what it leaves has a standard deviation of {float(variance[lost].mean().sqrt()):.3g}, not the "
                f"{noise:g} of the noise"
            )
        else:
            reason = (
                f"the loss there is {float(attainable[lost].mean()):.3g}, that of a flat image "
                f"{float(of_flat[lost].mean()):.3g}, and it should be below {EXPLAINED:.0%} of that. If noise was "
                "added, give its standard deviation as noise"
            )
        doubts.append(
            f"{opening}: {reason}. An attack that fails there does not show that the gradient is safe. {CAUSES}"
        )
    return explained, doubts


def _closer_than_flat(images: torch.Tensor, originals: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
    """Return which reconstructions are closer to their originals than flat images are, and a sentence on the others."""
    flat_images = flat_of(originals).mul(255).round() / 255
    errors = (images - originals).square().mean(dim=(1, 2, 3))
    flat_errors = (flat_images - originals).square().mean(dim=(1, 2, 3))
    closer, one_colour = errors < flat_errors, is_flat(originals)
    doubts = []
    if one_colour.any():
        opening = _of(one_colour, "The original is", "originals are")
        doubts.append(f"{opening} of one colour, and stands beside a grey image, not one of its mean colour.")
    if closer.all():
        return closer, doubts
    psnr, flat_psnr = (
        float(-10 * squares[~closer].clamp(min=1e-10).log10().mean()) for squares in (errors, flat_errors)
    )
    opening = _of(
        ~closer, "The reconstruction is no closer to its original", "reconstructions are no closer to originals"
    )
    return closer, [
        *doubts,
        f"{opening} than a flat image of the mean colour: PSNR {psnr:.2f} dB against {flat_psnr:.2f} dB. By that "
        "measure "
        f"nothing of {'it' if len(closer) == 1 else 'them'} was rebuilt.",
    ]


def _several(request: SharedGradients) -> list[str]:
    """Say how many gradients cannot be of one image with one label.

    With cross-entropy, the gradient of the output's bias ``(n, classes)`` for one image is softmax minus one-hot, which
    is negative at the label alone.
    """
    slope = output_layer(request.network, request.size).slope(request.gradients)
    mixed = (slope < -CLEARLY * request.noise).sum(dim=1) > 1
    if not mixed.any():
        return []
    return [
        f"{_of(mixed, 'The gradient is', 'gradients are')} not of one image with one label: the gradient of the "
        f"output's bias is negative at several classes. {CAUSES}"
    ]


def _mislabelled(read: torch.Tensor, true_labels: torch.Tensor) -> list[str]:
    """Say from how many gradients an attack reads other classes than those of the originals, in any order.

    `read`: ``(B, P)``, P images behind each of B gradients.
    """
    wrong = (read.sort(dim=1).values != true_labels.view_as(read).sort(dim=1).values).any(dim=1)
    if not wrong.any():
        return []
    opening = _of(wrong, "From the gradient the attack reads", "gradients are those from which the attack reads")
    return [
        f"{opening} other labels than those given: it looks for images of other classes, and may fail for that alone."
    ]


def _explained_as_read(those: torch.Tensor, read: torch.Tensor, true_labels: torch.Tensor) -> list[str]:
    """Say which originals explain their gradients with the label that is read from them, but not with the true one.

    `those`: a mask of these originals ``(n,)``.
    """
    if not those.any():
        return []
    first = int(those.nonzero()[0])
    opening = _of(those, "The original explains its gradient", "originals explain their gradients")
    return [
        f"{opening} with the label that is read from it, {int(read[first])}, and not with the one given, "
        f"{int(true_labels[first])}: is that label right?"
    ]


def _scaled(request: SharedGradients, labels: torch.Tensor, missed: torch.Tensor) -> list[str]:
    """Say which of the gradients that the attack missed (a mask ``(n,)``) have another length than their originals'."""
    if request.originals is None or request.noise or not missed.any():
        return []
    computed = image_gradients(request.network, request.originals, labels)
    times = lengths(flat(request.gradients)) / lengths(flat({name: computed[name] for name in request.gradients}))
    other = missed & ((times > AS_LONG) | (times < 1 / AS_LONG))
    if not other.any():
        return []
    opening = _of(other, "The gradient is", "gradients are")
    return [
        f"{opening} {float(times[other][0]):.2g} times as long as that of the original. Attacks that match lengths, as "
        "dlg and idlg do, fail for that alone: divide by the factor, or take invgrad, which matches directions."
    ]


def _of(those: torch.Tensor, one: str, many: str) -> str:
    """Return the opening of a sentence about `those`, a mask: `one` if there is one in all, else "3 of 8 MANY"."""
    return one if len(those) == 1 else f"{int(those.sum())} of {len(those)} {many}"
