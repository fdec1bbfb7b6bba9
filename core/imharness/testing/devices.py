"""Checks that a component works on the device that it is given: an accelerator, or a simulated one if there is none."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from imharness.contracts.component import Component
from imharness.errors import ContractError, Unavailable
from imharness.testing.crossing import tensors
from imharness.testing.placement import ACCELERATOR, acted_accelerator
from imharness.testing.probe import CPU, Inputs, Probe
from imharness.testing.usual import usual, usual_inputs

OFTEN = 24
"""How often one line of code may copy between host and accelerator in a call; more copies come from a loop."""


def stays(
    component: Component, probe: Probe, accelerator: torch.device = ACCELERATOR, often: int | None = OFTEN
) -> str:
    """Call the component on a simulated accelerator, and return what was copied from and to the host.

    `often`: how many copies by one line are allowed, or None for any number.

    Raises `ContractError` if devices are mixed, if the result or a gradient is on another device, if a line copies in a
    loop, or if float64 is put on ``mps:0``, which has none. Raises `Unavailable` if there is a real accelerator; "runs
    on the accelerator too" then checks this.
    """
    if component.isolation:
        raise Unavailable("it runs in a process of its own, where an accelerator cannot be simulated")
    if torch.cuda.is_available():
        raise Unavailable("this machine has an accelerator, and components run on it")
    inputs, seeds = usual_inputs(probe)
    with acted_accelerator(accelerator) as traffic:
        built = probe.build(component, accelerator)
        there = {name: tensor.to(accelerator) for name, tensor in inputs.items()}
        traffic.clear()
        result = probe.call(built, there, seeds, accelerator)
        _in_place(probe, result, there, accelerator)
        report = traffic.summary()
        probe.check(result, there, seeds, accelerator)
        for line, times in (traffic.to_host + traffic.to_device).items():
            if often is not None and times > often:
                raise ContractError(f"{line} copies between host and accelerator {times} times in a call")
        if probe.by_row and getattr(component.info, "differentiable", False):
            _gradient_in_place(probe, built, there, seeds, accelerator)
    return report


def on_accelerator(probe: Probe, device: torch.device) -> str:
    """Call the component on the CPU and on an accelerator, and return how far the results are apart."""
    first = usual(probe)
    here, seeds = first.flat, first.seeds
    there = {name: tensor.to(device) for name, tensor in first.inputs.items()}
    result = probe.call(probe.build(probe.component, device), there, seeds, device)
    _in_place(probe, result, there, device)
    probe.check(result, there, seeds, device)
    return f"largest difference to the CPU {float((here - probe.flat(result, there).cpu()).abs().max()):.2g}"


def _in_place(probe: Probe, result: Any, inputs: Inputs, device: torch.device) -> None:
    if isinstance(result, float | int):
        return
    wanted, network = device if probe.on_device else CPU, isinstance(result, torch.nn.Module)
    outputs = probe.flat(result, inputs) if network else tensors(probe.contract.returns, result)
    for tensor in tree_leaves(outputs):
        if tensor.device != wanted:
            raise ContractError(f"was built on {device}, but returned a result on {tensor.device}")


def _gradient_in_place(probe: Probe, built: Any, inputs: Inputs, seeds: list[int], device: torch.device) -> None:
    leaf = inputs["images"].clone().requires_grad_(True)
    value = probe.tensor(built, {**inputs, "images": leaf}, seeds, device)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    if gradient.device != device:
        raise ContractError(f"was built on {device}, but its gradient is on {gradient.device}")
