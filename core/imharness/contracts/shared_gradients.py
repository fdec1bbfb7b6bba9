"""Shared gradients of one model: what `imharness.reconstruct` gives to a track, and what the track answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

if TYPE_CHECKING:
    import torch

    from imharness.contracts.federated_round import Round
    from imharness.contracts.randomness import ImageRng
    from imharness.contracts.values import Gradients, Images


@dataclass(frozen=True)
class SharedGradients:
    """What `imharness.reconstruct` asks of a track.

    Args:
        gradients: ``(n, *shape)`` by parameter, in the order of the parameters: one gradient for each of n images, or
            what each of n participants shared in the round of the attack.
        network: the classifier that gave them, in evaluation mode, with its parameters frozen.
        size: the shape ``(3, h, w)`` of an image.
        attack: a built `ReconstructionAttack`, which rebuilds the images.
        streams: one random stream for each image.
        originals: the private images ``(N, 3, h, w)`` in [0, 1] on the device of the gradients, if they are known.
            Those of the first participant come first.
        own_round: the round of federated learning that is attacked, or None.
        closed_form: whether the attack is a formula, which cannot have stopped too early.
        labels: the labels of the originals ``(N,)``, if they are known.
        told: what the attacker is told besides, by name: the statistics of `Round.statistics_known`.
    """

    gradients: Gradients
    network: torch.nn.Module
    size: tuple[int, int, int]
    attack: Callable[..., Images]
    streams: ImageRng
    originals: Images | None
    own_round: Round | None = None
    closed_form: bool = False
    labels: torch.Tensor | None = None
    told: Gradients = field(default_factory=dict)


@dataclass(frozen=True)
class Reconstructed:
    """A track's answer.

    Args:
        images: the rebuilt images, ``(n, 3, h, w)`` in [0, 1], multiples of 1/255.
        columns: column name -> one number for each image.
        told: column -> what it measures, for the columns whose means are shown.
        doubts: sentences on gradients that are not what was asked for, so that closeness to the originals tells little.
    """

    images: Images
    columns: Mapping[str, npt.NDArray[Any]]
    told: Mapping[str, str]
    doubts: Sequence[str] = ()
