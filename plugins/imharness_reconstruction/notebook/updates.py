"""Reads what participants shared with a server: gradients or changes of weights, and statistics of batch norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from imharness.errors import UsageError
from imharness.extending import listed, short, wrong
from imharness.gradients import Round

FEW, WEIGHTS = 100, 0.9
"""Of more parameters than this, no gradient has by chance so large a cosine with the weights."""


def gradients_of(values: Any, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return float32 gradients ``(n, *shape)`` by parameter, in the order of the parameters.

    `model` is the one that was given, of which some parameters may be frozen. A list has a gradient for each parameter,
    or for each that is not frozen; a mapping names those that were shared. None stands for a gradient that was not
    shared, as that of an unused parameter. Raises `UsageError` where something does not fit, or nothing was shared.
    """
    parameters = dict(model.named_parameters())
    lazy = [name for name, parameter in parameters.items() if torch.nn.parameter.is_lazy(parameter)]
    if lazy:
        raise UsageError(
            f"model: {lazy[0]} has no shape yet; give the model that computed the gradients, after its first call."
        )
    shared = {name: value for name, value in _named(values, model).items() if value is not None}
    strange = [name for name in shared if name not in parameters]
    if strange:
        raise UsageError(f"gradients names {short(strange[0])}, which is not a parameter of the model.")
    if not shared:
        raise UsageError("gradients: there is none for any parameter of the model; read them after backward().")
    gradients = {}
    for name in (name for name in parameters if name in shared):
        wanted = tuple(parameters[name].shape)
        value = tensor_of(name, shared[name]).to(parameters[name].device, torch.float32)
        gradients[name] = value[None] if value.shape == wanted else value
        if gradients[name].shape[1:] != wanted or not len(gradients[name]):
            raise UsageError(f"gradients: {name} must have shape {wanted} or (n, *{wanted}), got {tuple(value.shape)}.")
        if not bool(torch.isfinite(value).all()):
            raise UsageError(f"gradients: {name} holds NaN or infinity.")
    counts = {name: len(value) for name, value in gradients.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(f"gradients differ in their number of images: {dict(list(counts.items())[:3])}.")
    _no_zeros(gradients)
    _no_weights(gradients, model)
    return gradients


def _named(values: Any, model: torch.nn.Module) -> Mapping[str, Any]:
    """Return gradients by parameter."""
    if isinstance(values, Mapping):
        return values
    tensors = listed("gradients", values, "a mapping or a list of tensors")
    names = [name for name, _ in model.named_parameters()]
    moving = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    for chosen in (names, moving):
        if len(tensors) == len(chosen):
            return dict(zip(chosen, tensors, strict=True))
    raise UsageError(
        f"gradients has {len(tensors)} tensors; the model has {len(names)} parameters, of which {len(moving)} are not "
        "frozen. Where a client trains some layers only, give a mapping from the names of their parameters."
    )


def _no_zeros(shared: Mapping[str, torch.Tensor]) -> None:
    """Raise `UsageError` if a gradient has nothing but zeros."""
    empty = ~torch.stack([values.flatten(1).any(dim=1) for values in shared.values()]).any(dim=0)
    if bool(empty.any()):
        which = "they are" if len(empty) == 1 else f"those in row {int(empty.nonzero()[0])} are"
        raise UsageError(
            f"gradients: {which} zero throughout, so nothing was shared; read them after backward() and before "
            "zero_grad()."
        )


def _no_weights(shared: Mapping[str, torch.Tensor], model: torch.nn.Module) -> None:
    """Raise `UsageError` if what was shared is almost the network's weights, as those after a round are."""
    weights = dict(model.named_parameters())
    before = torch.cat([weights[name].detach().flatten() for name in shared]).double()
    for row in zip(*shared.values(), strict=True):
        update = torch.cat([values.flatten() for values in row]).double()
        if len(before) > FEW and torch.nn.functional.cosine_similarity(update, before, dim=0) > WEIGHTS:
            raise UsageError(
                "gradients: these are weights, almost those of the model; give what a participant changed: "
                "(weights before - weights after) / (learning rate * steps)."
            )


def statistics_of(
    running_statistics: Mapping[str, Any] | None, updates: int, federated_round: Round | None, network: torch.nn.Module
) -> dict[str, torch.Tensor]:
    """Return statistics ``(updates, channels)`` by buffer; raises `UsageError` if they are wrong or missing."""
    wanted = federated_round is not None and federated_round.statistics_known
    if running_statistics is None:
        if wanted:
            raise UsageError("statistics: the attack knows them; give a mapping from buffers of batch norm.")
        return {}
    if not isinstance(running_statistics, Mapping):
        raise wrong("statistics", "a mapping from buffers of batch norm", running_statistics)
    if not wanted:
        raise UsageError("statistics are for an attack with training_mode=true and statistics_known=true.")
    buffers, statistics = dict(network.named_buffers()), {}
    for name, value in running_statistics.items():
        if name not in buffers:
            raise UsageError(f"statistics: {short(name)} is not a buffer of the model.")
        size = tuple(buffers[name].shape)
        batch = tensor_of(name, value, "statistics").to(buffers[name])
        statistics[name] = batch[None] if batch.shape == size else batch
        if statistics[name].shape != (updates, *size):
            raise UsageError(f"statistics: {name} must have shape {(updates, *size)}, got {tuple(batch.shape)}.")
    return statistics


def tensor_of(name: str, value: Any, argument: str = "gradients") -> torch.Tensor:
    """Return a tensor without its graph; `name` says which one of an argument it is."""
    try:
        return torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError):
        raise wrong(f"{argument}: {name}" if name else argument, "a tensor", value) from None
