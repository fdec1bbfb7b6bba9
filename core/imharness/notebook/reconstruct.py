"""`ih.reconstruct`: private images rebuilt from the gradients that a participant of federated learning shared."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from imharness.contracts.call import checked
from imharness.contracts.component import Component
from imharness.contracts.distribution_metric import DistributionMetric
from imharness.contracts.federated_round import Round
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.metric import Metric
from imharness.contracts.randomness import ImageRng, derive_seed
from imharness.contracts.reconstruction_attack import ReconstructionAttack
from imharness.contracts.shared_gradients import Reconstructed, SharedGradients
from imharness.errors import UsageError
from imharness.notebook.arguments import listed, seed_of, shown, whole, wrong
from imharness.notebook.given import component_from, images_of, track_that
from imharness.notebook.objects import Own
from imharness.notebook.randomness import say_who_drew
from imharness.notebook.result import Result
from imharness.notebook.score import metric_of, scores_of
from imharness.results.tables import ColumnSpec, Row, Table, Value
from imharness.running.numerics import fresh_numerics

Columns = dict[str, npt.NDArray[Any]]
FEW, WEIGHTS = 100, 0.9
"""Of more parameters than this, no gradient has by chance so large a cosine with the weights."""


@dataclass(frozen=True, repr=False)
class Reconstruction(Result):
    """How close an attack came: a table of means, and rows of the steps ``reconstruct`` and ``leakage``.

    Args:
        images: the rebuilt images, float32 ``(n, 3, h, w)`` in [0, 1], multiples of 1/255.
        doubts: sentences on gradients that are not those of one image each, or that the originals do not explain.
        assumes: what the attack takes for granted, in a sentence.
    """

    images: npt.NDArray[np.float32] = field(kw_only=True)
    doubts: Sequence[str] = field(default=(), kw_only=True)
    assumes: str = field(default="", kw_only=True)

    def _notes(self) -> list[str]:
        return [*self.doubts, *([f"Threat model: {self.assumes}"] if self.assumes else []), *super()._notes()]


@fresh_numerics()
def reconstruct(
    gradients: Any,
    model: torch.nn.Module,
    shape: tuple[int, int, int] | None = None,
    *,
    attack: str | Component | Own = "invgrad",
    originals: Any = None,
    labels: Any = None,
    statistics: Mapping[str, Any] | None = None,
    metrics: Sequence[str | Component | Own] = (),
    seed: int = 0,
) -> Reconstruction:
    """Rebuild private images from shared gradients, as the track ``harness/reconstruction`` does.

    Args:
        gradients: the gradients of the mean cross-entropy with respect to every parameter of the model: a mapping from
            its name, or a list in the order of ``model.parameters()``. Each has the shape of the parameter, for one
            image, or is ``(n, *shape)`` for n images that each shared a gradient. With an attack on a round of
            federated learning, such as ``"federated[images=4,epochs=2]"``, it is what one participant or n of them
            shared: the weights before the round less those after it, divided by the learning rate and the number of
            local steps, or not divided with ``rate_known=false``.
        model: the classifier that gave the gradients, with logits ``(n, classes)``. A copy of it is put into evaluation
            mode, so the gradients should be computed in that mode, too, unless the attack has ``training_mode=true``.
            Its last parameter must be a bias with one number for each class; labels are read from its gradient.
        shape: the shape ``(3, h, w)`` of an image, which no gradient tells; needed.
        attack: a name as on the command line, such as ``"invgrad[steps=500]"`` or ``"dlg"``, or what `ih.attack`
            returns.
        originals: the private images ``(N, 3, h, w)``, floats in [0, 1] or bytes, if they are known; those of a
            participant in the order in which it took them.
        labels: the classes of the originals, N whole numbers. Only an attack with ``labels_known=true`` sees them,
            and needs them; else they say whether the originals explain what was shared.
        statistics: for an attack with ``statistics_known=true``: name of a buffer of batch norm, such as
            ``"1.running_mean"`` -> the mean or unbiased variance of the batch ``(channels,)`` or ``(n, channels)``.
        metrics: metrics that compare a reconstruction with its original, by name or made by `ih.metric`.
        seed: the seed of the random starts; each image draws from its own stream.

    Returns:
        The images, and rows with one value for each. The step ``reconstruct`` has ``label``, read from the gradient;
        ``loss``, one minus the cosine between the gradient of the reconstruction and the shared one, in [0, 2]; and
        ``grey``, the loss of a flat grey image. With originals it also has ``attainable``, the loss of the original
        itself; ``explained``, whether that is about 0, as it is where the gradient is that of the original alone; and
        ``converged``, whether it is and the attack came close to it. `Reconstruction.doubts` says in words what does
        not fit, such as the gradient of a batch, and what the attack assumes. Of a round, the images of a participant
        have the same losses, and with originals the images are in the order of the least squared error. The step
        ``leakage`` has ``metric`` and ``score``, in the metric's own unit, with one row for a metric of whole sets.

    Raises:
        UsageError: an argument does not fit; the message names it.
        Unavailable: a metric's weights are not on this machine; the message has the command that gets them.
    """
    inversion = component_from("attack", attack, "attack", ReconstructionAttack)
    if not isinstance(inversion, ReconstructionAttack):
        raise UsageError(f"attack: {shown(attack)} does not rebuild images from gradients; try 'invgrad' or 'dlg'.")
    if shape is None:
        raise UsageError("shape: give the size of an image as (3, height, width); gradients do not tell it.")
    size, seed = _size(shape), seed_of(seed)
    if not isinstance(model, torch.nn.Module):
        raise wrong("model", "a torch module", model)
    network = copy.deepcopy(model).eval().requires_grad_(False)
    shared = _gradients(gradients, network)
    _no_weights(shared, network)
    _try(network, size, next(iter(shared.values())))
    updates, own = len(next(iter(shared.values()))), inversion.round()
    count = updates * (1 if own is None else own.images)
    if own is None and inversion.batches(count) != [[i] for i in range(count)]:
        raise UsageError(
            f"attack: {inversion.label} needs gradients of several batches that share images; use another attack."
        )
    known = None if originals is None else images_of("originals", originals)
    if known is not None and known.shape != (count, *size):
        hint = ""
        if own is None and updates == 1 and known.shape[1:] == size:
            hint = f" The mean gradient of {len(known)} images is for attack='federated[images={len(known)}]'."
        raise UsageError(f"originals must have shape {(count, *size)}, got {tuple(known.shape)}.{hint}")
    classes = _classes(labels, count, own, list(shared.values())[-1])
    told = _statistics(statistics, updates, own, network)
    chosen = _metrics(metrics, known)
    place = next(iter(shared.values())).device
    streams = ImageRng([derive_seed(seed, "attack", str(i)) for i in range(count)], place)
    attacker = checked(inversion, inversion.build(place))
    behind = None if known is None else known.to(place)
    asked = SharedGradients(shared, network, size, attacker, streams, behind, own, inversion.closed_form, classes, told)
    found = track_that("reconstruct").reconstruct(asked)
    columns = dict(found.columns)
    scored = [(m, scores_of(m, found.images.cpu(), known, place)) for m in chosen]
    leaked: Columns = {
        "metric": np.repeat([m.label for m, _ in scored], [len(scores) for _, scores in scored]),
        "score": np.concatenate([scores for _, scores in scored]) if scored else np.zeros(0, np.float32),
    }
    say_who_drew()
    rows = {"reconstruct": lambda: columns, **({"leakage": lambda: leaked} if scored else {})}
    made = [_table(inversion.label, found, scored)]
    return Reconstruction(
        f"Reconstruction by {inversion.label}",
        made,
        rows,
        images=found.images.cpu().numpy(),
        doubts=tuple(found.doubts),
        assumes=inversion.assumes,
    )


def _table(label: str, found: Reconstructed, scored: Sequence[tuple[Metric, npt.NDArray[np.float32]]]) -> Table:
    """Return a table of one row: means over the images."""
    shown = {name: (found.told[name], values) for name, values in found.columns.items() if name in found.told}
    shown |= {m.label: (f"Score of {m.label}: {m.summary}", scores) for m, scores in scored}
    closer: dict[str, Literal["higher", "lower"]] = {
        m.label: "lower" if m.closeness > 0 else "higher" for m, _ in scored
    }
    specs = [
        ColumnSpec(
            key=name,
            label=name.removeprefix("harness/"),
            description=told,
            better=closer.get(name, ""),
            decimals=4,
            unit="image",
        )
        for name, (told, _) in shown.items()
    ]
    means = {name: Value(value=float(np.mean(values)), n=len(values)) for name, (_, values) in shown.items()}
    return Table(
        id="reconstruction",
        title="How close the reconstructions come",
        caption="Means over the images.",
        entry="attack",
        columns=tuple(specs),
        rows=(Row(label=label, values=means),),
    )


def _metrics(
    metrics: Sequence[str | Component | Own], originals: torch.Tensor | None
) -> list[FullReferenceMetric | DistributionMetric]:
    wanted: Any = [metrics] if isinstance(metrics, str | Component | Own) else metrics
    named = listed("metrics", wanted, "a list of metrics or of their names")
    if named and originals is None:
        raise UsageError("metrics compare with the private images; give them as originals.")
    found = []
    for metric in (metric_of("metrics", name) for name in named):
        if not isinstance(metric, FullReferenceMetric | DistributionMetric):
            raise UsageError(f"metrics: {metric.label} scores an image alone, without an original.")
        found.append(metric)
    return found


def _size(shape: Sequence[int]) -> tuple[int, int, int]:
    size = [whole("shape", side) for side in listed("shape", shape, "(3, height, width)")]
    if len(size) != 3 or size[0] != 3 or min(size) < 1:
        raise wrong("shape", "(3, height, width)", shape)
    return size[0], size[1], size[2]


def _classes(given: Any, count: int, own: Round | None, last: torch.Tensor) -> torch.Tensor | None:
    """Return the labels ``(count,)``, or None; raises `UsageError` if they are wrong or the attack needs them.

    `last`: what was shared of the last bias, ``(n, classes)``.
    """
    if given is None:
        if own is not None and own.labels_known:
            raise UsageError("labels: the attack knows them; give one for each image.")
        return None
    found = _tensor("", given, "labels")
    if found.numel() != count or not found.ndim or found.is_floating_point() or found.dtype == torch.bool:
        raise wrong("labels", f"{count} whole numbers", given)
    if last.ndim == 2 and not 0 <= int(found.min()) <= int(found.max()) < last.shape[1]:
        raise UsageError(f"labels: there are {last.shape[1]} classes, from 0 to {last.shape[1] - 1}.")
    return found.flatten().to(last.device, torch.int64)


def _statistics(
    given: Mapping[str, Any] | None, updates: int, own: Round | None, network: torch.nn.Module
) -> dict[str, torch.Tensor]:
    """Return statistics ``(updates, channels)`` by buffer; raises `UsageError` if they are wrong or missing."""
    wanted = own is not None and own.statistics_known
    if given is None:
        if wanted:
            raise UsageError("statistics: the attack knows them; give a mapping from buffers of batch norm.")
        return {}
    if not isinstance(given, Mapping):
        raise wrong("statistics", "a mapping from buffers of batch norm", given)
    if not wanted:
        raise UsageError("statistics are for an attack with training_mode=true and statistics_known=true.")
    buffers, found = dict(network.named_buffers()), {}
    for name, value in given.items():
        if name not in buffers:
            raise UsageError(f"statistics: {shown(name)} is not a buffer of the model.")
        size = tuple(buffers[name].shape)
        held = _tensor(name, value, "statistics").to(buffers[name])
        found[name] = held[None] if held.shape == size else held
        if found[name].shape != (updates, *size):
            raise UsageError(f"statistics: {name} must have shape {(updates, *size)}, got {tuple(held.shape)}.")
    return found


def _try(network: torch.nn.Module, size: tuple[int, int, int], like: torch.Tensor) -> None:
    """Raise `UsageError` if the model cannot take an image of this size."""
    try:
        with torch.no_grad():
            network(like.new_zeros(1, *size))
    except RuntimeError as error:
        raise UsageError(f"shape: the model fails on an image of shape {size}: {error}") from error


def _gradients(given: Any, network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return gradients ``(n, *shape)`` by parameter, in the order of the parameters."""
    parameters = dict(network.named_parameters())
    if not isinstance(given, Mapping):
        parts = listed("gradients", given, "a mapping or a list of tensors")
        if len(parts) != len(parameters):
            raise UsageError(f"gradients has {len(parts)} tensors; the model has {len(parameters)} parameters.")
        given = dict(zip(parameters, parts, strict=True))
    lost, strange = sorted(set(parameters) - set(given)), [name for name in given if name not in parameters]
    if lost or strange:
        said = f"lacks {lost[0]}" if lost else f"names {shown(strange[0])}, which is not a parameter of the model"
        raise UsageError(f"gradients {said}.")
    found = {}
    for name, parameter in parameters.items():
        value = _tensor(name, given[name]).to(parameter.device, parameter.dtype)
        found[name] = value[None] if value.shape == parameter.shape else value
        if found[name].shape[1:] != parameter.shape or not len(found[name]):
            wanted = tuple(parameter.shape)
            raise UsageError(f"gradients: {name} must have shape {wanted} or (n, *{wanted}), got {tuple(value.shape)}.")
        if not bool(torch.isfinite(value).all()):
            raise UsageError(f"gradients: {name} holds NaN or infinity.")
    counts = {name: len(value) for name, value in found.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(f"gradients differ in their number of images: {dict(list(counts.items())[:3])}.")
    return found


def _no_weights(shared: Mapping[str, torch.Tensor], network: torch.nn.Module) -> None:
    """Raise `UsageError` if what was shared is almost the network's weights, as those after a round are."""
    own = torch.cat([parameter.detach().flatten() for parameter in network.parameters()]).double()
    for given in zip(*shared.values(), strict=True):
        update = torch.cat([part.flatten() for part in given]).double()
        if len(own) > FEW and torch.nn.functional.cosine_similarity(update, own, dim=0) > WEIGHTS:
            raise UsageError(
                "gradients: these are weights, almost those of the model; give what a participant changed: "
                "(weights before - weights after) / (learning rate * steps)."
            )


def _tensor(name: str, value: Any, argument: str = "gradients") -> torch.Tensor:
    try:
        return torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError):
        raise wrong(f"{argument}: {name}" if name else argument, "a tensor", value) from None
