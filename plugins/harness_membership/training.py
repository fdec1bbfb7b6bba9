"""The training loop that the defenses of this package share: Adam on the cross-entropy, in epochs."""

from collections.abc import Iterator

import torch

from harness.api import TrainingData, TrainingPlan


def epochs(network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator) -> Iterator[int]:
    """Train one epoch after the other; yield the number of epochs done. The network is in training mode in between."""
    optimizer = torch.optim.Adam(network.parameters(), lr=plan.learning_rate)
    for epoch in range(plan.epochs):
        network.train()
        order = torch.randperm(len(data.labels), generator=rng).to(data.labels.device)
        for batch in order.split(plan.batch_size):
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(network(data.features[batch]), data.labels[batch]).backward()
            optimizer.step()
        yield epoch + 1
