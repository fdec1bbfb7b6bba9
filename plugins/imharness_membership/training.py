"""The training loops that the defenses of this package share: cross-entropy, epoch by epoch."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F

from imharness.membership import MembershipTraining, Progress, TrainingData, TrainingPlan, TrainPrivately, TrainTogether
from imharness_membership.augmenting import augmented
from imharness_membership.descent import Adam, Descent, Sgd
from imharness_membership.stacked import answers_of, stack_weights, unstack_weights

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
SMALL = 200_000
"""The number of parameters up to which a CPU trains fully connected networks faster together than one by one."""


def generator_on(rng: torch.Generator, device: torch.device) -> torch.Generator:
    """Return a generator on a device: `rng` on the CPU, else one seeded from it, so that draws need no transfer.

    Draws on the CPU and on another device differ; numbers that must be equal on both come from `rng`.
    """
    if device.type == rng.device.type:
        return rng
    return torch.Generator(device=device).manual_seed(int(torch.randint(2**62, (), generator=rng)))


AT_ONCE = 8192
"""The number of rows that a network answers at once."""
DECAY = 0.1
"""The factor on the learning rate where a plan lets it decay."""


def descent_of(parameters: Iterable[torch.Tensor], plan: TrainingPlan, weight_decay: float = 0.0) -> Descent:
    """Return the plan's optimiser for the parameters of a network, or of several.

    `weight_decay` is added to that of the plan.
    """
    decay = plan.weight_decay + weight_decay
    if plan.optimiser == "sgd":
        return Sgd(parameters, plan.learning_rate, decay, plan.momentum)
    return Adam(parameters, plan.learning_rate, decay)


def rate_after(plan: TrainingPlan, done: int) -> float:
    """Return the learning rate of a plan after `done` epochs.

    The cosine is that of Loshchilov & Hutter, "SGDR" (ICLR 2017), equation 5, without restarts and down to 0.
    """
    if plan.schedule == "cosine":
        return plan.learning_rate * (1 + math.cos(math.pi * done / plan.epochs)) / 2
    return plan.learning_rate * DECAY if plan.decay_after and done >= plan.decay_after else plan.learning_rate


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
    steps = descent_of(network.parameters(), plan, weight_decay)
    for epoch in range(plan.epochs):
        network.train()
        order = torch.randperm(len(data.labels), generator=rng).to(data.labels.device)
        for batch in order.split(plan.batch_size):
            logits = network(augmented(data.features[batch], plan, rng))
            steps.step(F.cross_entropy(logits, data.labels[batch], label_smoothing=label_smoothing))
        steps.learning_rate = rate_after(plan, epoch + 1)
        yield epoch + 1


def to_the_end(*, weight_decay: float = 0.0, label_smoothing: float = 0.0) -> TrainPrivately:
    """Return training for every epoch of the plan; a progress callback sees the network as it is after that epoch."""

    def train(
        network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
    ) -> torch.nn.Module:
        for done in epochs(network, data, plan, rng, weight_decay=weight_decay, label_smoothing=label_smoothing):
            progress(done, plan.epochs)
        return network.eval()

    return train


class StandardTraining(MembershipTraining):
    """Trains with the cross-entropy for all epochs of the plan, for one or many networks; defenses choose the terms."""

    def terms(self) -> dict[str, float]:
        """Return `weight_decay` and `label_smoothing` where they are not 0."""
        return {}

    def build(self, device: torch.device) -> TrainPrivately:
        return to_the_end(**self.terms())

    def build_together(self, device: torch.device, network: torch.nn.Module) -> TrainTogether | None:
        """Return the training of many fully connected networks at once, where that is faster."""
        return together(**self.terms()) if faster_together(device, network) else None


def faster_together(device: torch.device, *networks: torch.nn.Module) -> bool:
    """Return whether several copies of such networks train faster at once than one by one."""
    modules = [module for network in networks for module in network.modules()]
    linear = all(isinstance(m, torch.nn.Linear) for m in modules if list(m.parameters(recurse=False)))
    return linear and (device.type != "cpu" or sum(p.numel() for n in networks for p in n.parameters()) <= SMALL)


def together(*, weight_decay: float = 0.0, label_smoothing: float = 0.0) -> TrainTogether:
    """Return training of all networks in one pass: their weights are stacked, and every step updates all.

    A progress callback sees the networks as they are after that epoch.
    """

    def train(
        networks: Sequence[torch.nn.Module],
        data: Sequence[TrainingData],
        plan: TrainingPlan,
        rngs: Sequence[torch.Generator],
        progress: Progress,
    ) -> None:
        weights = stack_weights(networks)
        steps = descent_of(weights.values(), plan, weight_decay)
        features, labels = torch.stack([d.features for d in data]), torch.stack([d.labels for d in data])
        count, which = labels.shape[1], torch.arange(len(networks), device=labels.device)[:, None]
        answers = answers_of(networks[0])
        summed = torch.nn.CrossEntropyLoss(label_smoothing=label_smoothing, reduction="sum")

        for epoch in range(plan.epochs):
            networks[0].train()
            orders = torch.stack([torch.randperm(count, generator=rng) for rng in rngs]).to(labels.device)
            for rows in orders.split(plan.batch_size, dim=1):
                x = features[which, rows]
                if plan.augmentation != "none":
                    x = torch.stack([augmented(features, plan, rng) for features, rng in zip(x, rngs, strict=True)])
                logits, wanted = answers(weights, x), labels[which, rows]
                steps.step(summed(logits.flatten(0, 1), wanted.flatten()) / rows.shape[1])
            steps.learning_rate = rate_after(plan, epoch + 1)
            unstack_weights(weights, networks)
            progress(epoch + 1, plan.epochs)
        for network in networks:
            network.eval()

    return train


def accuracy(network: torch.nn.Module, features: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of rows that are classified right; the network is in evaluation mode afterwards."""
    return float((logits_of(network.eval(), features).argmax(dim=1) == labels).float().mean())


def logits_of(network: torch.nn.Module, features: torch.Tensor) -> torch.Tensor:
    """Return the logits ``(n, classes)`` of rows ``(n, ...)``, in parts of bounded size, without gradients."""
    with torch.no_grad():
        return torch.cat([network(batch) for batch in features.split(AT_ONCE)])
