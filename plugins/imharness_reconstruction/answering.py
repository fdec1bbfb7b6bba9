"""Computes what `ih.reconstruct` returns: rebuilds images from gradients, and measures how well they explain these."""

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
OTHERWISE = (
    "Was the gradient computed over a batch, with the network in training mode (the statistics of a batch, dropout), "
    "over several local steps, with another label or loss, or on images that were normalised outside the model? An "
    "attack such as 'federated[images=4,epochs=2]' simulates a round of federated learning."
)
SUSPECTED = (
    Round(training_mode=True),
    *(Round(epochs=epochs, learning_rate=rate) for epochs in (2, 5, 10) for rate in (0.01, 0.1, 1.0)),
)
"""Rounds of one image that are tried where an original does not explain its gradient."""
CLEARLY = 4.0
"""An entry that is negative by fewer standard deviations of the noise may be 0 or positive without it."""
AS_LONG = 2.0
"""A gradient that explains its original differs from that of the original by no larger factor, if it was not scaled."""


@dataclass(frozen=True)
class SharedGradients:
    """What participants shared, and what is known of it.

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
    """Images ``(n, *size)`` in [0, 1], multiples of 1/255; columns by name, with one number for each; and doubts.

    `doubts`: sentences on gradients that are not what was asked for, so that closeness to the originals tells little.
    """

    images: Images
    columns: Mapping[str, npt.NDArray[Any]]
    doubts: Sequence[str]


def answered(request: SharedGradients) -> Reconstructed:
    """Rebuild the images; raises `UsageError` where no labels can be read from the gradients."""
    federated_round, shared = request.federated_round, request.gradients
    if federated_round is not None:
        return _of_round(request, federated_round)
    read = labels_from_gradients(shared, request.network, request.size)
    count, device = len(read), read.device
    rebuilt = request.attack(shared, request.network, request.size, request.streams, lambda done, total: None)
    originals = rebuilt if request.originals is None else request.originals
    behind = Shared(shared, originals, read, torch.arange(count, device=device), torch.eye(count, device=device))
    fit = matching(request.network, behind, rebuilt)
    true_labels = read if request.labels is None else request.labels
    columns, doubts = (
        {"loss": fit["loss"], "grey": fit["grey"]},
        _several(request) + _mislabelled(read[:, None], true_labels),
    )
    if request.originals is not None:
        as_read, _ = verdict(fit, shared, request.noise)
        if not torch.equal(read, true_labels):
            given_fit = matching(request.network, replace(behind, targets=true_labels), rebuilt)
            fit = judged(fit["loss"], *(given_fit[name] for name in ("attainable", "grey", "flat")))
        explained, lines = verdict(fit, shared, request.noise)
        doubts += _explained_as_read(as_read & ~explained, read, true_labels)
        doubts += _scaled(request, true_labels, explained & ~fit["converged"])
        met = fit.pop("converged") | request.closed_form
        columns = {"explained": explained, "converged": met & explained, **fit}
        doubts += lines
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
    """Return the answer, in which images are rounded and compared with flat ones if the originals are known."""
    images, seen = rebuilt.mul(255).round() / 255, {"label": labels}
    if originals is not None:
        seen["closer"], lines = _beside_flat(images, originals)
        doubts = doubts + lines
    facts = {name: values.cpu().numpy() for name, values in {**seen, **columns}.items()}
    return Reconstructed(images, facts, tuple(doubts))


def _of_round(request: SharedGradients, federated_round: Round) -> Reconstructed:
    """Rebuild the images of participants of a round of federated learning."""
    shared, network, size = request.gradients, request.network, request.size
    several, classes = len(next(iter(shared.values()))), output_layer(network, size).classes
    true_labels = None if request.labels is None else request.labels.view(several, federated_round.images)
    received = {**shared, **request.statistics} | (
        {LABELS: true_labels} if federated_round.labels_known and true_labels is not None else {}
    )
    rebuilt = request.attack(received, network, size, request.streams, lambda done, total: None)
    if federated_round.labels_known and true_labels is not None:
        read = true_labels
    else:
        read = listed(label_counts(shared, network, size, federated_round.images, federated_round.rate_known))
    if request.originals is None:
        originals, order, true = rebuilt, torch.arange(len(rebuilt), device=rebuilt.device), read
    else:
        originals = request.originals
        order = paired(rebuilt, originals, federated_round.images)
        true = read.flatten()[order].view_as(read) if true_labels is None else true_labels
    groups = [x.unflatten(0, (several, federated_round.images)) for x in (originals, rebuilt[order], rebuilt)]
    targets, listed_as = (F.one_hot(own_labels, classes).float() for own_labels in (true, read))

    def fits(simulated: Round) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return matching_round(network, simulated, shared, groups[0], targets, groups[1], groups[2], listed_as)

    fit, doubts = fits(federated_round), list[str]()
    columns = {"loss": fit["loss"], "grey": fit["grey"]}
    if request.originals is not None:
        explained, doubts = verdict(fit, shared, request.noise)
        met = fit.pop("converged") | request.closed_form
        columns = {"explained": explained, "converged": met & explained, **fit}
        if not explained.all() and not federated_round.training_mode and norms(network):
            trained = fits(replace(federated_round, training_mode=True))
            if verdict(trained, shared, request.noise)[0].all():
                loss = float(trained["attainable"].max())
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
    """Say which round of one image explains the gradients that their originals do not, if one of those tried does."""
    shared = {name: values[lost] for name, values in request.gradients.items()}
    assert request.originals is not None
    images, classes = request.originals[lost][:, None], output_layer(request.network, request.size).classes
    targets = F.one_hot(labels[lost][:, None], classes).float()
    best, least = None, float("inf")
    for candidate in SUSPECTED:
        if candidate.training_mode and not norms(request.network):
            continue
        try:
            with torch.no_grad():
                fit = matching_round(request.network, candidate, shared, images, targets, images, images, targets)
        except ValueError:  # a batch of one image without extent has no statistics
            continue
        loss = float(fit["attainable"].max())
        if loss < least and verdict(fit, shared, request.noise)[0].all():
            best, least = candidate, loss
    if best is None:
        return []
    fields = "training_mode=true" if best.training_mode else f"epochs={best.epochs},local_rate={best.learning_rate:g}"
    how = "with batch norm in training mode" if best.training_mode else f"as those of an {best.shared}"
    return [f"They do {how} (loss {least:.2g}): try attack='federated[images=1,{fields}]'."]


def verdict(fit: Mapping[str, torch.Tensor], shared: Gradients, noise: float) -> tuple[torch.Tensor, list[str]]:
    """Return which originals explain their gradients ``(n,)``, and sentences on those that do not."""
    attainable, nothing = fit["attainable"], torch.minimum(fit["grey"], fit["flat"])
    each = len(attainable) // len(next(iter(shared.values())))
    explained, blind = (
        flags.repeat_interleave(each).to(attainable.device)
        for flags in explains(attainable[::each], nothing[::each], shared, noise)
    )
    doubts = []
    if blind.any():
        size = f"With noise of {noise:g}, " if noise else ""
        opening = _of(blind, "a flat image explains the gradient", "flat images explain gradients")
        sentence = f"{size}{opening} as well as the original does, which leaves open whose gradient it is."
        doubts.append(sentence[0].upper() + sentence[1:])
    lost = ~explained & ~blind
    near = lost & (attainable <= NEARLY * nothing) & (noise == 0)
    if near.any():
        opening = _of(near, "The original nearly explains its gradient", "originals nearly explain their gradients")
        share = float((attainable / nothing)[near].mean())
        doubts.append(
            f"{opening}: the loss there is {share:.1%} of that of a flat image, and it should be below "
            f"{EXPLAINED:.0%}. "
            "Rounding and noise leave as much, and so does another image that is alike. If noise was added, give its "
            "standard deviation as noise."
        )
    lost &= ~near
    if lost.any():
        opening = _of(lost, "The original does not explain its gradient", "originals do not explain their gradients")
        spread = double(flat(shared)).square().mean(dim=1).repeat_interleave(each) * attainable * (2 - attainable)
        wanted = (
            f"what it leaves has a standard deviation of {float(spread[lost].mean().sqrt()):.3g}, not the {noise:g} of "
            "the noise"
            if noise
            else f"the loss there is {float(attainable[lost].mean()):.3g}, that of a flat image "
            f"{float(nothing[lost].mean()):.3g}, and it should be below {EXPLAINED:.0%} of that. If noise was added, "
            "give its standard deviation as noise"
        )
        doubts.append(
            f"{opening}: {wanted}. An attack that fails there does not show that the gradient is safe. {OTHERWISE}"
        )
    return explained, doubts


def _beside_flat(images: torch.Tensor, originals: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
    """Return which reconstructions are closer to their originals than flat images are, and a sentence on the others."""
    guesses = flat_of(originals).mul(255).round() / 255
    ours, theirs = ((pictures - originals).square().mean(dim=(1, 2, 3)) for pictures in (images, guesses))
    closer, one_colour = ours < theirs, is_flat(originals)
    doubts = []
    if one_colour.any():
        opening = _of(one_colour, "The original is", "originals are")
        doubts.append(f"{opening} of one colour, and stands beside a grey image, not one of its mean colour.")
    if closer.all():
        return closer, doubts
    reached, simple = (float(-10 * errors[~closer].clamp(min=1e-10).log10().mean()) for errors in (ours, theirs))
    opening = _of(
        ~closer, "The reconstruction is no closer to its original", "reconstructions are no closer to originals"
    )
    return closer, [
        *doubts,
        f"{opening} than a flat image of the mean colour: PSNR {reached:.2f} dB against {simple:.2f} dB. By that "
        "measure "
        f"nothing of {'it' if len(closer) == 1 else 'them'} was rebuilt.",
    ]


def _several(request: SharedGradients) -> list[str]:
    """Say how many gradients of the output's bias ``(n, classes)`` are not of one image.

    With cross-entropy this is softmax minus one-hot, which is negative at the label alone.
    """
    slope = output_layer(request.network, request.size).slope(request.gradients)
    mixed = (slope < -CLEARLY * request.noise).sum(dim=1) > 1
    if not mixed.any():
        return []
    return [
        f"{_of(mixed, 'The gradient is', 'gradients are')} not of one image with one label: the gradient of the "
        f"output's bias is negative at several classes. {OTHERWISE}"
    ]


def _mislabelled(read: torch.Tensor, true_labels: torch.Tensor) -> list[str]:
    """Say in how many gradients an attack reads other classes ``(B, P)`` than those of the originals, in any order."""
    wrong = (read.sort(dim=1).values != true_labels.view_as(read).sort(dim=1).values).any(dim=1)
    if not wrong.any():
        return []
    opening = _of(wrong, "From the gradient the attack reads", "gradients are those from which the attack reads")
    return [
        f"{opening} other labels than those given: it looks for images of other classes, and may fail for that alone."
    ]


def _explained_as_read(those: torch.Tensor, read: torch.Tensor, true_labels: torch.Tensor) -> list[str]:
    """Say which originals explain their gradients ``(n,)`` with the label that is read from these alone."""
    if not those.any():
        return []
    first = int(those.nonzero()[0])
    opening = _of(those, "The original explains its gradient", "originals explain their gradients")
    return [
        f"{opening} with the label that is read from it, {int(read[first])}, and not with the one given, "
        f"{int(true_labels[first])}: is that label right?"
    ]


def _scaled(request: SharedGradients, labels: torch.Tensor, missed: torch.Tensor) -> list[str]:
    """Say that gradients that attacks missed ``(n,)`` have another length than those of their originals."""
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
    """Return how many of all images or gradients a sentence is about, in words."""
    return one if len(those) == 1 else f"{int(those.sum())} of {len(those)} {many}"
