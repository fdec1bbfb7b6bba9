"""Turns values into tensors by name and back: the conformance suite compares tensors, and tensors cross into a sandbox.

A kind of value that another package defines is treated as the kind here from which it derives. If it is no tensor and
derives from none of these, it has methods `tensors` and `restored`, or sets ``crosses = False``.
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
    """Return a value as name -> tensor; a value that is itself a tensor has the empty name."""
    converter = getattr(kind, "tensors", None)
    result: Tensors = {"": value} if converter is None else converter(value)
    return result


@singledispatch
def restored(kind: ValueKind, tensors: Tensors, device: torch.device) -> Any:
    """Return the value from what `tensors` returned of it."""
    converter = getattr(kind, "restored", None)
    return tensors[""].to(device) if converter is None else converter(tensors, device)


def joined(groups: Mapping[str, Tensors]) -> Tensors:
    """Return the tensors of several values in one mapping.

    The tensor ``inner`` of the value ``name`` is called ``name.inner``; that of a value that is itself a tensor,
    ``name``.
    """
    tensors = dict[str, torch.Tensor]()
    for name, group in groups.items():
        for inner, tensor in group.items():
            tensors[f"{name}.{inner}" if inner else name] = tensor
    return tensors


def within(tensors: Mapping[str, torch.Tensor], name: str) -> Tensors:
    """Return the tensors of one value from the mapping that `joined` returned."""
    return {key[len(name) + 1 :]: t for key, t in tensors.items() if key == name or key.startswith(f"{name}.")}


def all_tensors(kinds: Mapping[str, ValueKind], values: Mapping[str, Any]) -> Tensors:
    """Return the tensors of several values in one mapping, as `joined` does."""
    return joined({name: tensors(kind, values[name]) for name, kind in kinds.items()})


def all_restored(kinds: Mapping[str, ValueKind], tensors: Tensors, device: torch.device) -> dict[str, Any]:
    """Return the values from what `all_tensors` returned of them."""
    return {name: restored(kind, within(tensors, name), device) for name, kind in kinds.items()}


def randomness(call: Call) -> dict[str, Randomness]:
    """Return the arguments of a call that give randomness."""
    return {name: kind for name, kind in call.arguments.items() if isinstance(kind, Randomness)}


def put_back(rng: Any, states: torch.Tensor) -> None:
    """Set streams or a generator to `states`; raises `RuntimeError`, `ValueError` or `TypeError` if they do not fit."""
    if isinstance(rng, ImageRng):
        rng.restore(states)
    else:
        rng.set_state(states.clone())  # torch reads a view from the wrong offset


@tensors.register(NamedTensors)
def _(kind: NamedTensors, value: Tensors) -> Tensors:
    return dict(value)


@restored.register(NamedTensors)
def _(kind: NamedTensors, tensors: Tensors, device: torch.device) -> Tensors:
    return {name: tensor.to(device) for name, tensor in tensors.items()}


@tensors.register(Randomness)
def _(kind: Randomness, value: Any) -> Tensors:
    """Return the states of streams or of a generator, from which draws continue; generators are on the CPU."""
    return {"": value.states() if kind.rows else value.get_state()}


@restored.register(Randomness)
def _(kind: Randomness, tensors: Tensors, device: torch.device) -> ImageRng | torch.Generator:
    states = tensors[""]
    rng = ImageRng([0] * len(states), device) if kind.rows else torch.Generator()
    put_back(rng, states)
    return rng


@tensors.register(Record)
def _(kind: Record, value: Any) -> Tensors:
    fields = {name: getattr(value, name) for name in kind.members}
    return joined({name: tensors(kind.members[name], field) for name, field in fields.items() if field is not None})


@restored.register(Record)
def _(kind: Record, tensors: Tensors, device: torch.device) -> Any:
    fields = {name: within(tensors, name) for name in kind.members}
    return kind.cls(**{name: restored(kind.members[name], field, device) for name, field in fields.items() if field})


@tensors.register(Several)
def _(kind: Several, value: Any) -> Tensors:
    return all_tensors(kind.members, dict(zip(kind.members, value, strict=True)))


@restored.register(Several)
def _(kind: Several, tensors: Tensors, device: torch.device) -> tuple[Any, ...]:
    return tuple(all_restored(kind.members, tensors, device).values())


@tensors.register(Numbers)
def _(kind: Numbers, value: Any) -> Tensors:
    """Return numbers as a float64 or int64 tensor."""
    return {"": torch.tensor(tuple(value) if kind.many else float(value), dtype=kind.dtype)}


@restored.register(Numbers)
def _(kind: Numbers, tensors: Tensors, device: torch.device) -> Any:
    values = tensors[""].tolist()
    return tuple(values) if kind.many else values
