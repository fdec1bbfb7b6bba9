"""Inverts what a participant shares after a round: mean gradients of several images, or several local steps.

Geiping et al. (NeurIPS 2020), section 6 and the weight updates of the authors' code: all images of a participant are
optimised together, through a simulation of its steps, so that the simulated update has the direction of the shared one.
If statistics of batch norm were sent, they serve as a prior, as in Huang et al. (NeurIPS 2021). Labels are estimated as
counts, see `imharness_reconstruction.label_counts`. An unknown learning rate is estimated along with the images: it is
the length of the shared update, divided by the length of the simulated mean gradient and by the number of steps.
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.gradients import (
    HONEST,
    LABELS,
    Gradients,
    ImageRng,
    Images,
    Info,
    Progress,
    Reconstruct,
    ReconstructionAttack,
    Round,
    hookimpl,
)
from imharness_reconstruction.inversion import TINY, CosineDistance, GradientInversion, directions, flat, stepped
from imharness_reconstruction.inversion import total_variation as variation
from imharness_reconstruction.label_counts import label_counts, listed
from imharness_reconstruction.matching import survivors
from imharness_reconstruction.output_layer import output_layer
from imharness_reconstruction.rounds import shared_in

SLOW = 0.01
"""The first estimate of an unknown learning rate."""
FASTEST = 10.0
"""The largest learning rate that a participant can have."""


class FederatedInversion(GradientInversion):
    """Signed Adam changes all images of a participant until a simulated round shares the direction that was shared."""

    info = Info(id="harness/federated", version="3", paper="geiping2020")
    images: int = Field(default=4, ge=1, le=4096, description="Images of a participant, which the attacker knows.")
    batch: int = Field(default=0, ge=0, description="Images of a local step; 0: all.")
    epochs: int = Field(default=1, ge=1, le=100, description="How often a participant uses each image.")
    local_rate: float = Field(default=0.1, gt=0, le=FASTEST, description="The participant's learning rate.")
    rate_known: bool = Field(default=True, description="Whether the attacker knows the learning rate.")
    training_mode: bool = Field(default=False, description="Whether batch norm uses the statistics of the batch.")
    labels_known: bool = Field(default=False, description="Whether the attacker is told the labels.")
    statistics_known: bool = Field(
        default=False, description="Whether the statistics of batch norm are sent; only with training_mode."
    )
    batch_norm: float = Field(default=1e-3, ge=0, description="Weight of the statistics of batch norm.")

    def round(self) -> Round:
        return Round(
            images=self.images,
            batch=self.batch,
            epochs=self.epochs,
            learning_rate=self.local_rate,
            rate_known=self.rate_known,
            training_mode=self.training_mode,
            labels_known=self.labels_known,
            statistics_known=self.statistics_known and self.training_mode,
        )

    @property
    def assumes(self) -> str:
        """What the attack takes for granted, in a sentence."""
        federated_round = self.round()
        labels = (
            "is told the labels"
            if federated_round.labels_known
            else "estimates how many images each class has from the update"
        )
        rate = (
            ""
            if len(federated_round.steps()) == 1
            else f" and {'knows' if federated_round.rate_known else 'estimates'} the learning rate"
        )
        sent = " It also receives the statistics of batch norm." if federated_round.statistics_known else ""
        return (
            f"The server is {HONEST}. It knows the network, the loss, the number of images of a participant "
            f"({federated_round.images}) and of its local steps ({len(federated_round.steps())}); it "
            f"{labels}{rate}.{sent}"
        )

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            shared = {name: gradients[name] for name, _ in model.named_parameters() if name in gradients}
            sent_statistics = {
                name: values for name, values in gradients.items() if name not in shared and name != LABELS
            }
            participants, count = len(next(iter(shared.values()))), len(rng)
            size = count // participants
            labels = (
                gradients[LABELS]
                if self.labels_known
                else listed(label_counts(shared, model, shape, size, self.rate_known))
            )
            targets = F.one_hot(labels, output_layer(model, shape).classes).float()
            best, lowest = None, None
            for number in range(self.starts):
                first = (0.5 + 0.2 * rng.normal(*shape)).clamp(0, 1).unflatten(0, (participants, size))

                def report(done: int, total: int, number: int = number) -> None:
                    progress(number * total + done, self.starts * total)

                rebuilt, losses = self._descend(first, targets, shared, sent_statistics, model, report)
                if best is None or lowest is None:
                    best, lowest = rebuilt, losses
                else:
                    better = losses < lowest
                    best[better], lowest[better] = rebuilt[better], losses[better]
            assert best is not None
            return best.flatten(0, 1)

        return reconstruct

    def _descend(
        self,
        x: torch.Tensor,
        targets: torch.Tensor,
        shared: Gradients,
        sent_statistics: Gradients,
        model: torch.nn.Module,
        progress: Progress,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the images ``(B, P, 3, H, W)`` and the least loss of each participant ``(B,)``, from a start."""
        federated_round = self.round()
        wanted, length = directions(shared), torch.linalg.vector_norm(flat(shared), dim=1)
        masks = survivors(shared) if self.surviving else None
        rate = None if self.rate_known else x.new_full((len(x),), SLOW)
        lowest = x.new_full((len(x),), torch.inf)
        mean, square = torch.zeros(2, *x.shape, device=x.device)
        steps = self.worth()
        paces = self.paces(steps).to(x.device)
        for done in range(steps):
            leaf = x.detach().requires_grad_(True)
            computed, statistics = shared_in(federated_round, model, leaf, targets, rate, shared)
            simulated = [computed[name] if masks is None else computed[name] * masks[name] for name in shared]
            gap = CosineDistance.apply(*simulated, *wanted)
            smooth = variation(leaf.flatten(0, 1)).unflatten(0, x.shape[:2]).mean(dim=1)
            distance = _statistics_distance(statistics, sent_statistics, gap)
            loss = gap + self.total_variation * smooth + self.batch_norm * distance
            (slope,) = torch.autograd.grad(loss.sum(), leaf)
            lowest = torch.minimum(lowest, loss.detach())
            if bool((gap.detach() <= self.tolerance).all()):
                break
            x = stepped(x, mean, square, slope, paces[done])
            if rate is not None:
                joined = torch.cat([values.detach().flatten(1) for values in simulated], dim=1)
                simulated_length = torch.linalg.vector_norm(joined, dim=1)
                local_steps = len(federated_round.steps(x.shape[1]))
                rate = (length / (simulated_length * local_steps).clamp(min=TINY)).clamp(max=FASTEST)
            progress(done + 1, steps)
        return x, lowest


def _statistics_distance(statistics: Gradients, sent_statistics: Gradients, like: torch.Tensor) -> torch.Tensor:
    """Return the distance of statistics from those that were sent ``(B,)``, summed over the layers of batch norm.

    If none were sent, it is 0, in the shape of `like`.
    """
    distances = [torch.linalg.vector_norm(statistics[name] - values, dim=1) for name, values in sent_statistics.items()]
    return torch.stack(distances).sum(dim=0) if distances else torch.zeros_like(like)


@hookimpl
def components() -> list[ReconstructionAttack]:
    return [FederatedInversion(), FederatedInversion(labels_known=True), FederatedInversion(epochs=2)]
