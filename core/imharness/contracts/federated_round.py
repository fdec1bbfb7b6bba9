"""Rounds of federated learning, and threat models: what participants share, what a server does and is told."""

from dataclasses import dataclass

LABELS = "<labels>"
"""The key of the labels among the gradients, for an attack that knows them: int64 ``(B, images)``.

B is the number of participants. Labels are in the order in which a participant takes its images."""
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
        statistics_known: whether the participant also sends the buffers of its layers of batch norm. They reveal the
            statistics of its batches, which the attacker finds among the gradients under the names of the buffers:
            float32 ``(B, channels)`` for B participants.
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
        """Return for each local step the positions (start, stop) of its images, of which `stop` is the first outside.

        `images` replaces `Round.images` as the number of images.
        """
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
