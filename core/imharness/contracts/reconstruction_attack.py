"""Attacks that rebuild private images from shared gradients (gradient inversion, Zhu, Liu & Han, NeurIPS 2019)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng
from imharness.contracts.track import Progress
from imharness.contracts.values import NETWORK, PROGRESS, STREAMS, Gradients, ImageBatch, Images, NamedTensors, Numbers

Reconstruct: TypeAlias = Callable[[Gradients, torch.nn.Module, tuple[int, int, int], ImageRng, Progress], Images]
"""A built reconstruction attack: (gradients, model, shape, streams, progress) -> images.

Gradients are those of the mean cross-entropy with respect to each parameter, by its name: float32
``(B, *parameter.shape)``, one for each batch of `ReconstructionAttack.batches`. The model is the one that gave them, in
evaluation mode; the attack may use it but not change it. `shape` is (3, H, W). The result is float32 ``(N, 3, H, W)``
in [0, 1], one image for each stream.

An attack with a `ReconstructionAttack.round` gets what each participant shared in that round instead, with one stream
for each of its images: the images of the first participant come first, in any order within a participant.
"""
LABELS = "<labels>"
"""The name under which an attack that knows the labels of a round finds them: int64 ``(B, images)``, in the order in
which the participant takes its images."""
HONEST = "honest but curious"
"""The server follows the protocol and looks at what it was sent."""
MALICIOUS = "malicious"
"""The server changes the network that it sends out."""
ALONE = "gradient of 1 image"


@dataclass(frozen=True)
class Round:
    """A round of federated learning: how a participant makes what it shares, and what the attacker is told of it.

    The participant takes steps of gradient descent on the mean cross-entropy of `batch` images each, over its images in
    their order, `epochs` times. It shares the weights before the round less those after it, divided by the learning
    rate and the number of steps, which is the mean gradient of its steps. One step is a gradient (FedSGD), several are
    FedAvg (McMahan et al., AISTATS 2017). A gradient defense changes what is shared.

    Attributes:
        images: the number of images of a participant, which the attacker knows.
        batch: the images of a step; 0 for all.
        epochs: how often each image is used.
        learning_rate: the participant's step size.
        rate_known: whether the attacker knows the learning rate. If not, what is shared is not divided by it.
        training_mode: whether layers of batch norm use the statistics of the batch, as in training.
        labels_known: whether the attacker is told the labels, see `LABELS`.
        statistics_known: whether the participant also sends the buffers of its layers of batch norm. The attacker then
            finds under their names the statistics of the batches that they reveal: float32 ``(B, channels)``.
    """

    images: int = 1
    batch: int = 0
    epochs: int = 1
    learning_rate: float = 0.1
    rate_known: bool = True
    training_mode: bool = False
    labels_known: bool = False
    statistics_known: bool = False

    def steps(self, images: int | None = None) -> list[tuple[int, int]]:
        """Return the first image of each local step and the one after its last, for `images` or `Round.images`."""
        count = self.images if images is None else images
        size = min(self.batch, count) if self.batch else count
        return [(start, min(start + size, count)) for start in range(0, count, size)] * self.epochs

    @property
    def shared(self) -> str:
        """What a participant shares, in words."""
        count, steps = self.images, len(self.steps())
        mode = ", training mode" if self.training_mode else ""
        if steps > 1:
            rate = f"rate {self.learning_rate:g}" if self.rate_known else "unknown rate"
            return f"update of {count} image{'s' * (count > 1)}, {steps} steps, {rate}{mode}"
        return (ALONE if count == 1 else f"mean gradient of {count} images") + mode


SIZE = Numbers("tuple[int, int, int]", whole=True, many=True)


class ReconstructionAttack(Component, Builds[Reconstruct]):
    """Rebuilds private images from the gradients that a participant shared."""

    kind: ClassVar[str] = "attack"
    closed_form: ClassVar[bool] = False
    """Whether images follow from a formula, so that the attack cannot have stopped too early."""
    call = Call(
        gradients=NamedTensors("Gradients"),
        model=NETWORK,
        shape=SIZE,
        rng=STREAMS,
        progress=PROGRESS,
        returns=ImageBatch(like="shape"),
        own_gradients=True,
    )

    def batches(self, images: int) -> list[list[int]]:
        """Return the positions of the images that share each gradient; by default each image has its own gradient."""
        return [[position] for position in range(images)]

    def round(self) -> Round | None:
        """Return the round of federated learning that is attacked; by default a gradient is shared, in evaluation mode.

        With a round, `batches` plays no part.
        """
        return None

    def sent(self, model: torch.nn.Module, shape: tuple[int, int, int]) -> torch.nn.Module:
        """Return the network that a malicious server sends to the participants; by default the model as it is."""
        return model

    @property
    def threat(self) -> str:
        """The threat model under which the attack is possible, in a few words; defenses are ranked within one."""
        own = self.round()
        if own is None:
            return HONEST
        known = [name for name, told in (("labels", own.labels_known), ("statistics", own.statistics_known)) if told]
        return f"{HONEST}, {' and '.join(known)} known" if known else HONEST

    @property
    def assumes(self) -> str:
        """What the attack takes for granted, in a sentence."""
        return (
            f"The server is {HONEST}. It knows the network, the loss and that each gradient is of one image, with the "
            "network in evaluation mode."
        )
