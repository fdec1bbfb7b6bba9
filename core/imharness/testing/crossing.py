"""Values as tensors by name, and back: what the suite compares, and what crosses into the sandbox.

A kind of value of another package travels as the kind that it derives from; one that is neither a tensor nor derived
from a kind that is known here has `tensors` and `restored` as methods, or sets ``crosses = False``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import torch

from imharness.contracts.call import Call
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import NamedTensors, Numbers, Randomness, Record, Several, Tensors, ValueKind


@singledispatch
def tensors(kind: ValueKind, value: Any) -> Tensors:
    """Return a value as tensors by name; one that is a tensor has the empty name."""
    own = getattr(kind, "tensors", None)
    found: Tensors = {"": value} if own is None else own(value)
    return found


@singledispatch
def restored(kind: ValueKind, tensors: Tensors, device: torch.device) -> Any:
    """Return the value that `tensors` took apart."""
    own = getattr(kind, "restored", None)
    return tensors[""].to(device) if own is None else own(tensors, device)


def joined(parts: Mapping[str, Tensors]) -> Tensors:
    """Return the tensors of several values under one name each: ``part`` or ``part.inner``."""
    return {f"{name}.{inner}" if inner else name: t for name, own in parts.items() for inner, t in own.items()}


def within(tensors: Mapping[str, torch.Tensor], name: str) -> Tensors:
    """Return the tensors that `joined` put under one name."""
    return {key[len(name) + 1 :]: t for key, t in tensors.items() if key == name or key.startswith(f"{name}.")}


def all_tensors(kinds: Mapping[str, ValueKind], given: Mapping[str, Any]) -> Tensors:
    """Return values by name as tensors by name."""
    return joined({name: tensors(kind, given[name]) for name, kind in kinds.items()})


def all_restored(kinds: Mapping[str, ValueKind], tensors: Tensors, device: torch.device) -> dict[str, Any]:
    """Return the values that `all_tensors` took apart."""
    return {name: restored(kind, within(tensors, name), device) for name, kind in kinds.items()}


def randomness(call: Call) -> dict[str, Randomness]:
    """Return the arguments of a call to draw from."""
    return {name: kind for name, kind in call.arguments.items() if isinstance(kind, Randomness)}


def put_back(rng: Any, states: torch.Tensor) -> None:
    """Let randomness go on from `states`; raises `RuntimeError`, `ValueError` or `TypeError` when it cannot."""
    if isinstance(rng, ImageRng):
        rng.restore(states)
    else:
        rng.set_state(states.clone())  # torch reads a view at a wrong place


@tensors.register(NamedTensors)
def _(kind: NamedTensors, value: Tensors) -> Tensors:
    return dict(value)


@restored.register(NamedTensors)
def _(kind: NamedTensors, tensors: Tensors, device: torch.device) -> Tensors:
    return {name: tensor.to(device) for name, tensor in tensors.items()}


@tensors.register(Randomness)
def _(kind: Randomness, value: Any) -> Tensors:
    """Streams and generators travel as their states, and go on where they were left: generators on the host."""
    return {"": value.states() if kind.rows else value.get_state()}


@restored.register(Randomness)
def _(kind: Randomness, tensors: Tensors, device: torch.device) -> ImageRng | torch.Generator:
    states = tensors[""]
    rng = ImageRng([0] * len(states), device) if kind.rows else torch.Generator()
    put_back(rng, states)
    return rng


@tensors.register(Record)
def _(kind: Record, value: Any) -> Tensors:
    held = {name: getattr(value, name) for name in kind.parts}
    return joined({name: tensors(kind.parts[name], part) for name, part in held.items() if part is not None})


@restored.register(Record)
def _(kind: Record, tensors: Tensors, device: torch.device) -> Any:
    held = {name: within(tensors, name) for name in kind.parts}
    return kind.cls(**{name: restored(kind.parts[name], own, device) for name, own in held.items() if own})


@tensors.register(Several)
def _(kind: Several, value: Any) -> Tensors:
    return all_tensors(kind.parts, dict(zip(kind.parts, value, strict=True)))


@restored.register(Several)
def _(kind: Several, tensors: Tensors, device: torch.device) -> tuple[Any, ...]:
    return tuple(all_restored(kind.parts, tensors, device).values())


@tensors.register(Numbers)
def _(kind: Numbers, value: Any) -> Tensors:
    """Numbers travel as a float64 or int64 tensor."""
    return {"": torch.tensor(tuple(value) if kind.many else float(value), dtype=kind.dtype)}


@restored.register(Numbers)
def _(kind: Numbers, tensors: Tensors, device: torch.device) -> Any:
    found = tensors[""].tolist()
    return tuple(found) if kind.many else found
