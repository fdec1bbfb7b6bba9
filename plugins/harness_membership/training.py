"""The training loop that the defenses of this package share: the cross-entropy, in epochs."""

from collections.abc import Callable, Iterator

import torch

from harness.api import Progress, TrainingData, TrainingPlan, TrainPrivately

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def optimiser_of(network: torch.nn.Module, plan: TrainingPlan, weight_decay: float = 0.0) -> torch.optim.Optimizer:
    """Return the plan's optimiser for a network."""
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[plan.optimiser]
    return kind(network.parameters(), lr=plan.learning_rate, weight_decay=weight_decay)


def epochs(
    network: torch.nn.Module,
    data: TrainingData,
    plan: TrainingPlan,
    rng: torch.Generator,
    *,
    weight_decay: float = 0.0,
    label_smoothing: float = 0.0,
) -> Iterator[int]:
    """Train one epoch after the other; yield the number of epochs done. The network is in training mode in between."""
    optimiser = optimiser_of(network, plan, weight_decay)
    for epoch in range(plan.epochs):
        network.train()
        order = torch.randperm(len(data.labels), generator=rng).to(data.labels.device)
        for batch in order.split(plan.batch_size):
            optimiser.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(
                network(data.features[batch]), data.labels[batch], label_smoothing=label_smoothing
            ).backward()
            optimiser.step()
        yield epoch + 1


def to_the_end(*, weight_decay: float = 0.0, label_smoothing: float = 0.0) -> TrainPrivately:
    """Return training for every epoch of the plan."""

    def train(
        network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
    ) -> torch.nn.Module:
        for done in epochs(network, data, plan, rng, weight_decay=weight_decay, label_smoothing=label_smoothing):
            progress(done, plan.epochs)
        return network.eval()

    return train


def accuracy(network: torch.nn.Module, features: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of rows that are classified right; the network is in evaluation mode afterwards."""
    with torch.no_grad():
        return float((network.eval()(features).argmax(dim=1) == labels).float().mean())
