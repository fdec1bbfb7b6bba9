"""Trains LPIPS: ``harness train lpips --variant lin|tune|scratch`` on forced choices, ``kmeans`` on images alone.

Zhang et al., CVPR 2018, section 3: a small network G (two layers of 32 ReLU, sigmoid) predicts people's choice from the
pair of distances. It is trained by binary cross-entropy together with the weights of the channels, which are projected
to be at least 0 after every step. With `--loss ranking` the two distances have to differ by a margin instead, which the
authors tried and found worse (appendix B, without a number). Adam at 1e-4 for 5 epochs and 5 more with linear decay, 50
choices a step. As in the published code (lpips.NetLinLayer), half of the squared differences of features are dropped
before they are weighted, and `scratch` starts from the default initialisation of torchvision's networks, where the
paper says random Gaussian weights.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from imharness.data import ImageSet, Info, hookimpl, seeded_init
from imharness.errors import UsageError
from imharness.training import Train, Trained, TrainingContext, WeightTraining
from imharness_perceptual.stacked_kmeans import stacked_kmeans
from imharness_perceptual.verdicts import ceiling, credit
from imharness_vision.lpips import FeatureDistance, Net, published, untrained
from imharness_vision.weights import weights_in

WIDTH, EPS = 32, 0.01
SCORED = 100
"""The number of choices that are scored at a time."""
CLUSTERED = 160
"""The largest number of references that `kmeans` sees."""
DRAWN = 20
"""The number of choices that are drawn for each reference of a ladder."""


class RankingNet(nn.Module):
    """Distances of both alternatives, each ``(n,)`` -> logit of the share that finds alternative 1 nearer."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(5, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        features = [first, second, first - second, first / (second + EPS), second / (first + EPS)]
        return self.layers(torch.stack(features, dim=1))[:, 0]


def ranking_loss(first: torch.Tensor, second: torch.Tensor, judge: torch.Tensor, margin: float) -> torch.Tensor:
    """Return the mean hinge loss: how much is missing until the preferred alternative is nearer by `margin`.

    A choice has a weight from 1, where all people agree, to 0, where half of them chose each alternative. `first`,
    `second`: distances of alternatives 0 and 1, ``(n,)``; `judge`: the share of people who find alternative 1 nearer.
    """
    majority = 2 * judge - 1
    return (majority.abs() * F.relu(margin - majority.sign() * (first - second))).mean()


class Choices:
    """The forced choices of an image set.

    Where people chose, these are their choices. Nobody chose between the images of a ladder, so there choices are
    drawn: two severities of any distortions of one reference, of which the smaller is taken to be nearer.

    Attributes:
        rows: positions of the reference and of alternatives 0 and 1 among the images, int ``(n, 3)``.
        judge: the share of people who found alternative 1 nearer, ``(n,)``; 0 for drawn choices.
        asked: whether people were asked.
        photographs: the names of the photographs from which the images come.
    """

    def __init__(self, images: ImageSet) -> None:
        self._images = images
        positions = {name: i for i, name in enumerate(images.names)}
        origins = np.array([positions[str(name)] for name in images.columns["reference"]])
        judged = "group" in images.columns
        first, second = _judged(images) if judged else _drawn(origins, np.asarray(images.columns["severity"]))
        self.rows = np.stack([origins[first], first, second], axis=1)
        self.judge = np.asarray(images.columns["judge"], dtype=np.float64)[first] if judged else np.zeros(len(first))
        self.asked = judged and not images.proxy
        self.photographs = set(
            np.asarray(images.columns.get("photograph", images.columns["reference"])).astype(str).tolist()
        )

    def __len__(self) -> int:
        return len(self.rows)

    def load(self, numbers: list[int], device: torch.device) -> list[torch.Tensor]:
        """Return references, alternatives 0 and alternatives 1."""
        return [self._images.load(self.rows[numbers, side].tolist()).to(device) for side in range(3)]

    @torch.no_grad()
    def agreement(self, network: FeatureDistance, device: torch.device) -> float:
        """Return the 2AFC score of a distance."""
        distances = []
        for numbers in torch.arange(len(self)).split(SCORED):
            reference, first, second = self.load(numbers.tolist(), device)
            reference_features = network.features(reference)
            pair = [network.compare(network.features(x), reference_features) for x in (first, second)]
            distances.append(torch.stack(pair, dim=1))
        stacked = torch.cat(distances).cpu().numpy()
        return float(credit(stacked[:, 0], stacked[:, 1], self.judge).mean())


def _judged(images: ImageSet) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of alternatives 0 and 1 of every choice."""
    group, choice = np.asarray(images.columns["group"]).astype(str), np.asarray(images.columns["choice"])
    judged_rows = np.flatnonzero(group != "")
    order = judged_rows[np.lexsort((choice[judged_rows], group[judged_rows]))]
    both = group[order][1:] == group[order][:-1]
    return order[:-1][both], order[1:][both]


def _drawn(origins: np.ndarray, severity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of a milder and of a stronger image of one reference, `DRAWN` pairs for each reference."""
    rng, first, second = np.random.default_rng(0), [], []
    for origin in np.unique(origins):
        distorted = np.flatnonzero((origins == origin) & (severity > 0))
        pairs = np.array([(i, j) for i in distorted for j in distorted if severity[i] < severity[j]])
        chosen = pairs[rng.choice(len(pairs), min(DRAWN, len(pairs)), replace=False)]
        first.append(chosen[:, 0])
        second.append(chosen[:, 1])
    return np.concatenate(first), np.concatenate(second)


class LpipsTraining(WeightTraining):
    """A perceptual distance learnt from forced choices; the card gives its agreement on held-out choices."""

    info = Info(id="harness/lpips", version="4", paper="zhang2018")
    variant: Literal["lin", "tune", "scratch", "kmeans"] = Field(
        default="lin",
        description="What is trained: channel weights, the backbone too, everything from scratch, or a backbone "
        "without labels, by k-means on the references, with all weights 1.",
    )
    net: Net = Field(default="alex", description="Backbone.")
    train: str = Field(
        default="harness/distorted-pairs[per_photograph=60,split=train]", description="Data set of forced choices."
    )
    test: str = Field(default="harness/distorted-pairs", description="Held-out forced choices.")
    loss: Literal["network", "ranking"] = Field(
        default="network", description="A small network that predicts choices from both distances, or a margin."
    )
    margin: float = Field(
        default=0.1, gt=0, le=100, description="By how much distances must differ, with the ranking loss; ours."
    )
    start: str = Field(default="", description="File of weights to start from; empty: ImageNet, or none for scratch.")
    epochs: int = Field(default=5, ge=1, le=1000, description="Epochs at the full learning rate.")
    decay_epochs: int = Field(
        default=5, ge=0, le=1000, description="Further epochs, in which the learning rate falls to 0."
    )
    batch_size: int = Field(default=50, ge=1, le=4096, description="Choices per step.")
    learning_rate: float = Field(default=1e-4, gt=0, le=1, description="Adam's learning rate.")
    dropout: float = Field(
        default=0.5, ge=0, lt=1, description="Share of the squared differences of features dropped in a training step."
    )
    weight_rate: float = Field(
        default=1.0, ge=1, le=1000, description="Learning rate of the channel weights, as a multiple of the rest's."
    )

    def datasets(self) -> Mapping[str, str]:
        return {"train": self.train, "test": self.test}

    def build(self, device: torch.device) -> Train:
        def train(context: TrainingContext) -> Trained:
            rng = context.rng
            if self.variant == "kmeans":
                return self._clustered(context, device)
            network = self._network().to(device)
            with seeded_init(rng):
                ranking = RankingNet().to(device)
            network.backbone.requires_grad_(self.variant != "lin")
            learnt = [p for p in (*network.backbone.parameters(), *ranking.parameters()) if p.requires_grad]
            weights = {"params": list(network.weights), "lr": self.learning_rate * self.weight_rate}
            optimiser = torch.optim.Adam([{"params": learnt}, weights], lr=self.learning_rate, betas=(0.5, 0.999))
            choices = {role: Choices(images) for role, images in context.data.items()}
            training_choices = choices["train"]
            both = sorted(training_choices.photographs & choices["test"].photographs)
            if both:
                listed = ", ".join(both[:3])
                raise UsageError(f"training and test share {len(both)} photographs ({listed}); use another split.")
            per_epoch = -(-len(training_choices) // self.batch_size)
            all_epochs = self.epochs + self.decay_epochs
            decay = torch.optim.lr_scheduler.LambdaLR(
                optimiser, lambda step: min(1.0, (all_epochs - step / per_epoch) / max(self.decay_epochs, 1))
            )
            before = choices["test"].agreement(network, device)
            order: list[torch.Tensor] = []

            def step(number: int) -> None:
                if number % per_epoch == 0:
                    order[:] = torch.randperm(len(training_choices), generator=rng).split(self.batch_size)
                chosen = order[number % per_epoch].tolist()
                reference, first, second = training_choices.load(chosen, device)
                reference_features = network.features(reference)
                drop = (self.dropout, rng) if self.dropout else None
                distances = [network.compare(network.features(x), reference_features, drop) for x in (first, second)]
                judge = torch.from_numpy(training_choices.judge[chosen]).float().to(device)
                if torch.rand((), generator=rng) < 0.5:
                    distances, judge = distances[::-1], 1 - judge
                optimiser.zero_grad(set_to_none=True)
                if self.loss == "ranking":
                    ranking_loss(*distances, judge, self.margin).backward()
                else:
                    F.binary_cross_entropy_with_logits(ranking(*distances), judge).backward()
                optimiser.step()
                decay.step()
                with torch.no_grad():
                    for weight in network.weights:
                        weight.clamp_(min=0)

            components = {"network": network, "ranking": ranking, "optimiser": optimiser, "schedule": decay}
            context.loop(components, all_epochs * per_epoch, step, every=per_epoch)
            figures = {"2afc_before": before}
            figures |= {f"2afc_{role}": of_role.agreement(network, device) for role, of_role in choices.items()}
            zeros = {f"zero_weights_{i}": float((w == 0).float().mean()) for i, w in enumerate(network.weights)}
            test = choices["test"]
            people = {"2afc_people": float(ceiling(test.judge).mean())} if test.asked else {}
            rounded = {name: round(value, 4) for name, value in {**figures, **people, **zeros}.items()}
            return Trained(network.state_dict(), {"choices": len(training_choices), **rounded})

        return train

    def _clustered(self, context: TrainingContext, device: torch.device) -> Trained:
        """Return the network whose filters are k-means centres of patches of the references; see `stacked_kmeans`."""
        network = untrained(self.net).to(device).requires_grad_(False)
        images = context.data["train"]
        reference_names = sorted({str(name) for name in images.columns["reference"]})
        positions = {name: i for i, name in enumerate(images.names)}
        drawn = torch.randperm(len(reference_names), generator=context.rng)[:CLUSTERED].tolist()
        pictures = images.load([positions[reference_names[i]] for i in drawn]).to(device)
        test = Choices(context.data["test"])
        before = test.agreement(network, device)
        stacked_kmeans(network.backbone, (2 * pictures - 1 - network.shift) / network.scale, context.rng)
        figures = {"2afc_before": before, "2afc_test": test.agreement(network, device)}
        return Trained(network.state_dict(), {"images": len(drawn), **{k: round(v, 4) for k, v in figures.items()}})

    def _network(self) -> FeatureDistance:
        """Return the network from which the training starts."""
        if self.start:
            network = untrained(self.net)
            network.load_state_dict({name: t.float() for name, t in weights_in(Path(self.start)).items()})
            return network
        if self.net == "embedded" or self.variant == "scratch":
            return untrained(self.net)
        return published(self.net, heads=False)


@hookimpl
def components() -> list[WeightTraining]:
    return [LpipsTraining()]
