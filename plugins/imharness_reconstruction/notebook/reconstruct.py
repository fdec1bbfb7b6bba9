"""`ih.reconstruct`: private images rebuilt from the gradients that a participant of federated learning shared."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from imharness.data import derive_seed, fresh_numerics
from imharness.errors import UsageError
from imharness.extending import (
    Result,
    UserObject,
    array_of,
    checked,
    component_from,
    images_of,
    listed,
    metric_of,
    output_of,
    real,
    say_who_drew,
    scores_of,
    seed_of,
    short,
    whole,
    wrong,
)
from imharness.gradients import Component, ImageRng, ReconstructionAttack, Round
from imharness.images import DistributionMetric, FullReferenceMetric
from imharness.leaderboard import ColumnSpec, Row, Table, Value
from imharness_reconstruction.answering import DESCRIPTIONS, Reconstructed, SharedGradients, answered
from imharness_reconstruction.convergence import flat_of
from imharness_reconstruction.notebook.updates import gradients_of, statistics_of, tensor_of

Columns = dict[str, npt.NDArray[Any]]
Scored = list[tuple[FullReferenceMetric | DistributionMetric, npt.NDArray[np.float32], npt.NDArray[np.float32]]]
"""Of each metric: the metric, its scores of reconstructions, and its scores of flat images."""
FLAT = "flat mean colour"
"""The label of the row for flat images, which have the mean colour of each original."""


@dataclass(frozen=True, repr=False)
class Reconstruction(Result):
    """How close an attack came: a table of means, and rows of the steps ``reconstruct`` and ``leakage``.

    Args:
        images: the rebuilt images, float32 ``(n, *shape)`` in [0, 1], multiples of 1/255.
        doubts: sentences on gradients that are not those of one image each, or that the originals do not explain, and
            on reconstructions that are no closer to the originals than flat images.
        assumes: what the attack takes for granted, in a sentence.
    """

    images: npt.NDArray[np.float32] = field(kw_only=True)
    doubts: Sequence[str] = field(default=(), kw_only=True)
    assumes: str = field(default="", kw_only=True)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The first sentences about the result: whether the attack rebuilt the images, or else its loss."""
        attack, rows = self._names[self.table().labels[0]], self.read["reconstruct"]()
        count = len(rows["loss"])
        if "closer" not in rows:
            loss, grey = (float(rows[name].mean()) for name in ("loss", "grey"))
            fits = f"{attack} fits your gradient{'s' * (count > 1)} to a loss of {loss:.2g}"
            return f"{fits}; a flat grey image has {grey:.2g}.", "Give originals to learn how close the images are."
        closer = int(rows["closer"].sum())
        if not closer and not rows["explained"].any():
            whose, those = ("Your original does", "gradient") if count == 1 else ("Your originals do", "gradients")
            unclear = f"{whose} not explain your {those}, so that the failure of {attack} shows nothing."
            return unclear, *self._scores(), "The notes say what may be otherwise."
        if not closer:
            none = (
                f"{attack} does not rebuild your image{'s' * (count > 1)}: a flat image of the mean colour is as close."
            )
            return none, *self._scores(), "A stronger attack may come closer."
        images = "your image" if count == 1 else f"{closer} of your {count} images"
        return f"{attack} rebuilds {images}: closer than a flat image of the mean colour.", *self._scores()

    def _scores(self) -> list[str]:
        """Return the mean of each metric, beside that of flat images."""
        table = self.table()
        scored = [column for column in table.spec.columns if column.key not in DESCRIPTIONS]
        means = [table.column(column.key) for column in scored]
        return [
            f"{column.label} {rebuilt:.4g}, a flat image {flat:.4g}."
            for column, (rebuilt, flat) in zip(scored, means, strict=True)
        ]

    def _notes(self) -> list[str]:
        return [*self.doubts, *([f"Threat model: {self.assumes}"] if self.assumes else []), *super()._notes()]


@fresh_numerics()
def reconstruct(
    gradients: Any,
    model: torch.nn.Module,
    shape: tuple[int, int, int] | None = None,
    *,
    attack: str | Component | UserObject = "invgrad",
    originals: Any = None,
    labels: Any = None,
    statistics: Mapping[str, Any] | None = None,
    metrics: Sequence[str | Component | UserObject] = (),
    noise: float = 0.0,
    seed: int = 0,
) -> Reconstruction:
    """Rebuild private images from shared gradients, as the track ``harness/reconstruction`` does.

    Args:
        gradients: the gradients of the mean cross-entropy with respect to the parameters of the model: a mapping from
            their names, or a list in the order of ``model.parameters()``. Each has the shape of the parameter, for one
            image, or is ``(n, *shape)`` for n images that each shared a gradient. What was not shared, of frozen layers
            or unused parameters, is None, or is left out of the mapping; a list may also have one gradient for each
            parameter with ``requires_grad``. With an attack on a round of
            federated learning, such as ``"federated[images=4,epochs=2]"``, it is what one participant or n of them
            shared: the weights before the round less those after it, divided by the learning rate and the number of
            local steps, or not divided with ``rate_known=false``.
        model: the classifier that gave the gradients, with logits ``(n, classes)``, alone or as ``logits`` of a mapping
            or the only such tensor of a tuple. A float32 copy of it is put into evaluation mode, so the gradients
            should be computed in that mode, too, unless the attack has ``training_mode=true``. One of its parameters
            must be a bias of the logits, with one number for each class; labels are read from its gradient.
        shape: the shape ``(3, h, w)`` of an image, or ``(1, h, w)`` of a grey one, which no gradient tells; needed.
        attack: a name as on the command line, such as ``"invgrad[steps=500]"`` or ``"dlg"``, or what `ih.attack`
            returns.
        originals: the private images ``(N, *shape)``, floats in [0, 1] or bytes, if they are known; those of a
            participant in the order in which it took them.
        labels: the classes of the originals, N whole numbers. Only an attack with ``labels_known=true`` sees them,
            and needs them; else they say whether the originals explain what was shared. Without them, the labels that
            are read from the gradient do.
        statistics: for an attack with ``statistics_known=true``: name of a buffer of batch norm, such as
            ``"1.running_mean"`` -> the mean or unbiased variance of the batch ``(channels,)`` or ``(n, channels)``.
        metrics: metrics that compare a reconstruction with its original, by name or made by `ih.metric`.
        noise: the standard deviation of Gaussian noise that was added to each number of the gradients, as by
            differential privacy, in their unit; 0 if none is known. It decides what "explained" means.
        seed: the seed of the random starts; each image draws from its own stream.

    Returns:
        The images, and rows with one value for each. The step ``reconstruct`` has ``label``, read from the gradient;
        ``loss``, one minus the cosine between the gradient of the reconstruction and the shared one, in [0, 2]; and
        ``grey``, the loss of a flat grey image. With originals it also has ``attainable``, the loss of the original
        itself; ``flat``, that of a flat image of its mean colour; ``explained``, whether ``attainable`` is at most a
        fiftieth of the smaller one of ``grey`` and ``flat``, or with `noise`, whether what the original leaves is of
        that size and what flat images leave is more; ``converged``, whether it is and the attack came close to it; and
        ``closer``, whether the reconstruction has a smaller squared error than the flat image. `Reconstruction.doubts`
        says in words what does not fit, such as the gradient of a batch or that nothing was rebuilt, and what the
        attack assumes. Of a round, the images of a participant have the same losses, and with originals each image
        stands where its original does, paired so that the squared error is least. The step ``leakage`` has ``metric``,
        ``score``, in the metric's own unit, and ``flat``, the score of the flat image, with one row for a metric of
        whole sets. Metrics see grey images in three equal colours.

    Raises:
        UsageError: an argument does not fit; the message names it.
        Unavailable: a metric's weights are not on this machine; the message has the command that gets them.
    """
    inversion = component_from("attack", attack, "attack", ReconstructionAttack)
    if not isinstance(inversion, ReconstructionAttack):
        raise UsageError(f"attack: {short(attack)} does not rebuild images from gradients; try 'invgrad' or 'dlg'.")
    if shape is None:
        raise UsageError("shape: give the size of an image as (3, height, width); gradients do not tell it.")
    size, seed = _size(shape), seed_of(seed)
    if not isinstance(model, torch.nn.Module):
        raise wrong("model", "a torch module", model)
    shared, noise = gradients_of(gradients, model), _spread(noise)
    network = copy.deepcopy(model).eval().requires_grad_(False).float()
    network.register_forward_hook(lambda module, inputs, output: output_of(output, "model"))
    total = _try(network, size, next(iter(shared.values())))
    updates, federated_round = len(next(iter(shared.values()))), inversion.round()
    count = updates * (1 if federated_round is None else federated_round.images)
    if federated_round is None and inversion.batches(count) != [[i] for i in range(count)]:
        raise UsageError(
            f"attack: {inversion.label} needs gradients of several batches that share images; use another attack."
        )
    targets = None if originals is None else _originals(originals, size)
    if targets is not None and targets.shape != (count, *size):
        hint = ""
        if federated_round is None and updates == 1 and targets.shape[1:] == size:
            hint = f" The mean gradient of {len(targets)} images is for attack='federated[images={len(targets)}]'."
        raise UsageError(f"originals must have shape {(count, *size)}, got {tuple(targets.shape)}.{hint}")
    device = next(iter(shared.values())).device
    classes = _classes(labels, count, federated_round, total, device)
    buffers = statistics_of(statistics, updates, federated_round, network)
    chosen = _metrics(metrics, targets)
    streams = ImageRng([derive_seed(seed, "attack", str(i)) for i in range(count)], device)
    attacker = checked(inversion, inversion.build(device))
    request = SharedGradients(
        gradients=shared,
        network=network,
        size=size,
        attack=attacker,
        streams=streams,
        originals=None if targets is None else targets.to(device),
        federated_round=federated_round,
        closed_form=inversion.closed_form,
        labels=classes,
        statistics=buffers,
        noise=noise,
    )
    reconstructed = answered(request)
    columns = dict(reconstructed.columns)
    scored = _scored(chosen, reconstructed.images.cpu(), targets, device)
    counts = [len(own_scores) for _, own_scores, _ in scored]
    leaked: Columns = {"metric": np.repeat([metric.label for metric, _, _ in scored], counts)}
    if scored:
        leaked |= {
            "score": np.concatenate([scores for _, scores, _ in scored]),
            "flat": np.concatenate([flat_scores for _, _, flat_scores in scored]),
        }
    say_who_drew()
    rows = {"reconstruct": lambda: columns, **({"leakage": lambda: leaked} if scored else {})}
    tables = [_table(inversion.label, reconstructed, scored)]
    return Reconstruction(
        f"Reconstruction by {inversion.label}",
        tables,
        rows,
        images=reconstructed.images.cpu().numpy(),
        doubts=tuple(reconstructed.doubts),
        assumes=inversion.assumes,
    )


def _scored(
    metrics: Sequence[FullReferenceMetric | DistributionMetric],
    rebuilt: torch.Tensor,
    originals: torch.Tensor | None,
    device: torch.device,
) -> Scored:
    """Return the scores of reconstructions by each metric, and those of flat images, see `flat_of`."""
    if originals is None:
        return []
    flat = flat_of(originals).mul(255).round() / 255
    coloured, targets, plain = (batch.expand(-1, 3, -1, -1) for batch in (rebuilt, originals, flat))
    return [
        (metric, scores_of(metric, coloured, targets, device), scores_of(metric, plain, targets, device))
        for metric in metrics
    ]


def _table(label: str, reconstructed: Reconstructed, scored: Scored) -> Table:
    """Return a table of means over the images: a row of the attack and, with metrics, one of flat images."""
    # label of a column -> its description, and the values of the attack
    measures = {metric.label: (f"Score of {metric.label}: {metric.summary}", scores) for metric, scores, _ in scored}
    measures |= {
        name: (DESCRIPTIONS[name], values) for name, values in reconstructed.columns.items() if name in DESCRIPTIONS
    }
    # better for the people whose images these are
    better: dict[str, Literal["higher", "lower"]] = {
        metric.label: "lower" if metric.closeness > 0 else "higher" for metric, _, _ in scored
    }
    specs = [
        ColumnSpec(
            key=name,
            label=name.removeprefix("harness/"),
            description=description,
            better=better.get(name, ""),
            decimals=4,
            unit="image",
        )
        for name, (description, _) in measures.items()
    ]
    means = {name: Value(value=float(np.mean(values)), n=len(values)) for name, (_, values) in measures.items()}
    rows = [Row(label=label, values=means)]
    if scored:
        flat = {metric.label: Value(value=float(np.mean(scores)), n=len(scores)) for metric, _, scores in scored}
        rows.append(Row(label=FLAT, values={name: Value(missing="no gradient") for name in measures} | flat))
    return Table(
        id="reconstruction",
        title="How close the reconstructions come",
        caption="Means over the images."
        + " What is no closer than flat images of the originals' mean colours shows nothing." * bool(scored),
        entry="attack",
        columns=tuple(specs),
        rows=tuple(rows),
    )


def _metrics(
    metrics: Sequence[str | Component | UserObject], originals: torch.Tensor | None
) -> list[FullReferenceMetric | DistributionMetric]:
    wanted: Any = [metrics] if isinstance(metrics, str | Component | UserObject) else metrics
    named = listed("metrics", wanted, "a list of metrics or of their names")
    if named and originals is None:
        raise UsageError("metrics compare with the private images; give them as originals.")
    chosen = []
    for metric in (metric_of("metrics", name) for name in named):
        if not isinstance(metric, FullReferenceMetric | DistributionMetric):
            raise UsageError(f"metrics: {metric.label} scores an image alone, without an original.")
        chosen.append(metric)
    return chosen


def _size(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return the checked shape of an image."""
    size = [whole("shape", side) for side in listed("shape", shape, "(3, height, width)")]
    if len(size) != 3 or size[0] not in (1, 3) or min(size) < 1:
        raise wrong("shape", "(3, height, width), or (1, height, width) of grey images", shape)
    return size[0], size[1], size[2]


def _originals(value: Any, size: tuple[int, int, int]) -> torch.Tensor:
    """Return images ``(N, 3, h, w)`` or, of a grey size, ``(N, 1, h, w)``."""
    array = array_of("originals", value)
    if size[0] == 1 and array.ndim in (3, 4) and array.shape[-3] == 1:
        return images_of("originals", array.repeat(3, axis=-3))[:, :1]
    return images_of("originals", array)


def _spread(noise: Any) -> float:
    """Return the checked standard deviation of the noise."""
    deviation = real("noise", noise, "the standard deviation of the noise")
    if not 0 <= deviation < float("inf"):
        raise wrong("noise", "a finite standard deviation, at least 0", noise)
    return deviation


def _classes(
    value: Any, count: int, federated_round: Round | None, total: int, device: torch.device
) -> torch.Tensor | None:
    """Return the labels ``(count,)``, or None; raises `UsageError` if they are wrong or the attack needs them.

    `total`: the number of classes.
    """
    if value is None:
        if federated_round is not None and federated_round.labels_known:
            raise UsageError("labels: the attack knows them; give one for each image.")
        return None
    labels = tensor_of("", value, "labels")
    if labels.numel() != count or not labels.ndim or labels.is_floating_point() or labels.dtype == torch.bool:
        raise wrong("labels", f"{count} whole numbers", value)
    if not 0 <= int(labels.min()) <= int(labels.max()) < total:
        raise UsageError(f"labels: there are {total} classes, from 0 to {total - 1}.")
    return labels.flatten().to(device, torch.int64)


def _try(network: torch.nn.Module, size: tuple[int, int, int], like: torch.Tensor) -> int:
    """Run the model on an image of a size, and return the number of classes; raises `UsageError` without logits."""
    try:
        with torch.no_grad():
            logits = network(like.new_zeros(1, *size))
    except UsageError:
        raise
    except Exception as error:  # a model that somebody gave may raise anything
        raise UsageError(f"shape: the model fails on an image of shape {size}: {error}") from error
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or len(logits) != 1:
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else f"a {type(logits).__name__}"
        raise UsageError(f"model: expected logits of shape (1, classes) for one image, got {got}.")
    return int(logits.shape[1])
