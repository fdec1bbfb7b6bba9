"""Attacks that rebuild private images from shared gradients (gradient inversion, Zhu, Liu & Han, NeurIPS 2019)."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.federated_round import HONEST, MALICIOUS, Round
from imharness.contracts.randomness import ImageRng
from imharness.contracts.track import Progress
from imharness.contracts.values import NETWORK, PROGRESS, STREAMS, Gradients, ImageBatch, Images, NamedTensors, Numbers

Reconstruct: TypeAlias = Callable[[Gradients, torch.nn.Module, tuple[int, int, int], ImageRng, Progress], Images]
"""A built reconstruction attack: (gradients, model, shape, streams, progress) -> images.

Gradients are those of the mean cross-entropy with respect to each parameter, by its name: float32
``(B, *parameter.shape)``, one for each batch of `ReconstructionAttack.batches`. The model is the one that gave them, in
evaluation mode; the attack may use it but not change it. `shape` is (3, H, W), or (1, H, W) for a network of grey
images. The result is float32 ``(N, *shape)`` in [0, 1], one image for each stream. Gradients of parameters that were
not shared, as those of frozen layers, are left out; the parameters of the output layer may stand anywhere.

An attack with a `ReconstructionAttack.round` gets what each participant shared in that round instead, with one stream
for each of its images: the images of the first participant come first, in any order within a participant.
"""
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
        federated_round = self.round()
        if federated_round is None:
            return HONEST
        revealed = ["labels"] if federated_round.labels_known else []
        revealed += ["statistics"] if federated_round.statistics_known else []
        return f"{HONEST}, {' and '.join(revealed)} known" if revealed else HONEST

    @property
    def letter(self) -> str:
        """The letter of the threat model in the SoK of Carletti et al. (USENIX Security 2025), or "" where none fits.

        An honest but curious server knows

        - A: the update alone;
        - B: also basic facts about images, such as their range and smoothness;
        - C: also details of the training;
        - D: also other images of the same kind;
        - E: also the distribution of the client's data, such as statistics of batch norm.

        A malicious server knows what C says and changes the network (F); knows what D says and changes the network (G);
        or does as in G and chooses the clients, too (H). The letters are from the table in the authors' public
        repository, which also has those of published attacks.
        """
        federated_round = self.round()
        if self.threat == MALICIOUS:
            return "F"
        if federated_round is None:
            return "B"
        if federated_round.statistics_known:
            return "E"
        several_steps = len(federated_round.steps()) > 1
        return "C" if several_steps else "B"

    @property
    def assumes(self) -> str:
        """What the attack assumes, in a few sentences."""
        return (
            f"The server is {HONEST}. It knows the network, the loss and that each gradient is of one image, with the "
            "network in evaluation mode."
        )
