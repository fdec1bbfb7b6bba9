"""How arguments of each contract become tensors and come back; host and guest both import it.

A component's function is called by name with tensors by name; results are tensors by name. Randomness goes along as
the states of its streams and comes back when it was drawn from, so numbers are those of a call in one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch

from imharness.contracts.membership import LastLayerGradients, MembershipQuery, References, Robustness
from imharness.randomness import ImageRng

Tensors = dict[str, torch.Tensor]
RNG, GENERATOR = "rng", "generator"
SEPARATOR = "."
_PARTS: dict[str, type] = {"references": References, "robustness": Robustness, "gradients": LastLayerGradients}


def query_tensors(query: MembershipQuery) -> Tensors:
    """Return what an evaluator may see as tensors by name."""
    found: Tensors = {}
    for field in fields(query):
        value = getattr(query, field.name)
        if isinstance(value, torch.Tensor):
            found[field.name] = value
        elif value is not None:
            found |= {f"{field.name}{SEPARATOR}{part.name}": getattr(value, part.name) for part in fields(value)}
    return found


def query_of(tensors: Mapping[str, torch.Tensor], device: torch.device) -> MembershipQuery:
    """Return the query that `query_tensors` took apart."""
    held = {name: tensor.to(device) for name, tensor in tensors.items()}
    plain: dict[str, Any] = {name: tensor for name, tensor in held.items() if SEPARATOR not in name}
    for name, part in _PARTS.items():
        own = {f.name: held[f"{name}{SEPARATOR}{f.name}"] for f in fields(part) if f"{name}{SEPARATOR}{f.name}" in held}
        if own:
            plain[name] = part(**own)
    return MembershipQuery(**plain)


def streams_of(states: torch.Tensor, device: torch.device) -> ImageRng:
    """Return streams that go on from `states`."""
    rng = ImageRng([0] * len(states), device)
    rng.restore(states)
    return rng


def generator_of(state: torch.Tensor, device: torch.device) -> torch.Generator:
    """Return a generator that goes on from `state`."""
    rng = torch.Generator(device=device)
    rng.set_state(state.clone())  # torch reads a view at a wrong place
    return rng
