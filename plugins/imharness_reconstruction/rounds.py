"""Simulates what participants share in a round of federated learning, differentiable with respect to their images.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (AISTATS 2017), algorithm 1.
Attacks invert a round by this simulation of the participant's steps, as Geiping et al. (NeurIPS 2020, section 6) do.
"""

import copy
from collections.abc import Container, Mapping

import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

from imharness.gradients import Gradients, Round
from imharness_reconstruction.per_image import averaged, batch_weights, image_gradients, vmap_keeps_slopes

MEAN, VARIANCE = "running_mean", "running_var"
"""The names of the buffers of a batch norm layer."""
NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)


def shared_in(
    federated_round: Round,
    model: torch.nn.Module,
    images: torch.Tensor,
    targets: torch.Tensor,
    rate: torch.Tensor | None = None,
    trained: Container[str] | None = None,
) -> tuple[Gradients, Gradients]:
    """Return the mean gradients ``(B, *shape)`` of each participant's steps, and its statistics of batch norm.

    Statistics ``(B, channels)`` are only there in training mode, by the names of their buffers: the means and unbiased
    variances of the batches, averaged over the steps with the weights that they have in the running averages.

    Args:
        federated_round: the round.
        images: float32 ``(B, P, 3, H, W)``, in the order in which each participant takes them.
        targets: float32 ``(B, P, classes)``.
        rate: the learning rate of each participant ``(B,)``; None: that of the round.
        trained: the parameters that the participants change, by name; the others are frozen. None: all.
    """
    participants, count = images.shape[:2]
    steps = federated_round.steps(count)
    if len(steps) == 1 and not federated_round.training_mode:
        of_images = image_gradients(model, images.flatten(0, 1), targets.flatten(0, 1))
        weights = batch_weights([range(b * count, (b + 1) * count) for b in range(participants)], participants * count)
        return averaged(of_images, weights.to(images.device)), {}
    network = _trained_on(model) if federated_round.training_mode else model
    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}
    at_start = {name: values for name, values in parameters.items() if trained is None or name in trained}
    shares = _shares(model, len(steps))
    batch_statistics: dict[str, torch.Tensor] = {}
    hooks = _watch(network, batch_statistics) if federated_round.training_mode else []

    def loss(weights: Gradients, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Gradients]:
        batch_statistics.clear()
        return F.cross_entropy(functional_call(network, weights, (x,)), y), dict(batch_statistics)

    def of_participant(x: torch.Tensor, y: torch.Tensor, pace: torch.Tensor) -> tuple[Gradients, Gradients]:
        """Return the mean gradient of one participant's steps, and its statistics; `pace`: its learning rate."""
        weights, total, averages = at_start, dict[str, torch.Tensor](), dict[str, torch.Tensor]()
        for number, (start, stop) in enumerate(steps):
            slope, statistics = grad(loss, has_aux=True)(weights, x[start:stop], y[start:stop])
            weights = {name: values - pace * slope[name] for name, values in weights.items()}
            total = _plus(total, slope)
            averages = _plus(averages, {name: values * shares[name][number] for name, values in statistics.items()})
        return {name: values / len(steps) for name, values in total.items()}, averages

    try:
        rates = images.new_full((participants,), federated_round.learning_rate) if rate is None else rate
        if participants > 1 and vmap_keeps_slopes(network):
            both: tuple[Gradients, Gradients] = vmap(of_participant)(images, targets, rates)
            return both
        # a single participant, too: `vmap` gives each its own weights, so that convolutions are grouped and slower
        results = [of_participant(*data) for data in zip(images, targets, rates, strict=True)]
        gradients, statistics = (
            {name: torch.stack([values[name] for values in each]) for name in each[0]}
            for each in zip(*results, strict=True)
        )
        return gradients, statistics
    finally:
        for hook in hooks:
            hook.remove()


def _plus(total: Gradients, more: Gradients) -> Gradients:
    """Return the sums by name; `total` is empty before the first step."""
    return {name: values + total[name] if total else values for name, values in more.items()}


def norms(model: torch.nn.Module) -> Mapping[str, torch.nn.Module]:
    """Return the layers of batch norm by name."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, NORMS)}


def _shares(model: torch.nn.Module, steps: int) -> dict[str, list[float]]:
    """Return buffer -> the weight of each step's statistics in the running average of a round; weights sum to 1."""
    entries = {}
    for name, layer in norms(model).items():
        pace = layer.momentum
        weights = [1.0 if pace is None else pace * (1 - pace) ** (steps - 1 - k) for k in range(steps)]
        shares = [weight / sum(weights) for weight in weights]
        entries |= {f"{name}.{MEAN}": shares, f"{name}.{VARIANCE}": shares}
    return entries


def _trained_on(model: torch.nn.Module) -> torch.nn.Module:
    """Return a copy whose batch norm layers are in training mode: they use the batch's statistics and keep none."""
    network = copy.deepcopy(model)
    for layer in norms(network).values():
        layer.train()
        layer.running_mean = layer.running_var = layer.num_batches_tracked = None
        layer.track_running_stats = False
    return network


def _watch(network: torch.nn.Module, statistics: dict[str, torch.Tensor]) -> list[torch.utils.hooks.RemovableHandle]:
    """Write the statistics of each batch norm layer's input into a dict, whenever the network runs."""

    def watch(name: str, layer: torch.nn.Module) -> torch.utils.hooks.RemovableHandle:
        def hook(layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            rest = [axis for axis in range(inputs[0].ndim) if axis != 1]
            statistics[f"{name}.{MEAN}"] = inputs[0].mean(dim=rest)
            statistics[f"{name}.{VARIANCE}"] = inputs[0].var(dim=rest)

        return layer.register_forward_pre_hook(hook)

    return [watch(name, layer) for name, layer in norms(network).items()]
