"""Calls a component once with usual inputs; every check looks at what happened."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import torch

from imharness.errors import ContractError
from imharness.testing.audit import undisturbed, watched
from imharness.testing.probe import Inputs, Probe


@dataclass(frozen=True)
class Call:
    """The first call of a built component on usual inputs, and what it did besides its work."""

    inputs: Inputs
    """The inputs, as they were before the call."""
    seeds: list[int]
    result: Any
    flat: torch.Tensor
    """The result as one tensor."""
    untouched: bool
    """Whether the call left the inputs unchanged."""
    did: tuple[str, ...]
    """Forbidden actions of the component."""
    mebibytes: float | None
    """By how many MiB building and calling the component raised the peak memory of this process; None: not known."""


def usual_inputs(probe: Probe) -> tuple[Inputs, list[int]]:
    """Return fresh inputs of the usual size, and the seeds of their rows."""
    size = probe.sizes[0]
    return probe.inputs(*size), probe.seeds(size[0])


def copied(inputs: Inputs) -> Inputs:
    """Return copies of inputs, which a component may change."""
    return {name: tensor.clone() for name, tensor in inputs.items()}


def usual(probe: Probe) -> Call:
    """Return the first call on usual inputs, which all checks of a component share."""
    observed: Call = probe.once("usual", lambda: _observed(probe))
    return observed


def again(probe: Probe) -> tuple[torch.Tensor, float]:
    """Return the result of the second call of the same built component as one tensor, and the seconds it took."""

    def timed() -> tuple[torch.Tensor, float]:
        first = usual(probe)
        inputs, start = copied(first.inputs), time.perf_counter()
        result = probe.call(probe.built, inputs, first.seeds)
        seconds = time.perf_counter() - start
        return probe.flat(result, inputs), seconds

    repeated: tuple[torch.Tensor, float] = probe.once("again", timed)
    return repeated


def _observed(probe: Probe) -> Call:
    before = _peak()
    built, (inputs, seeds) = probe.built, usual_inputs(probe)
    arguments, results, did = copied(inputs), list[Any](), list[str]()
    with watched() as seen:
        try:
            with undisturbed():
                results.append(probe.call(built, arguments, seeds))
        except ContractError as error:
            if not results:
                raise
            did.append(str(error))
    if seen:
        did.append(f"did what a component may not do: {', '.join(sorted(set(seen))[:3])}")
    untouched = all(torch.equal(tensor, arguments[name]) for name, tensor in inputs.items())
    flat = probe.flat(results[0], inputs).clone()
    after = _peak()
    grown = None if after is None or before is None else after - before
    return Call(inputs, seeds, results[0], flat, untouched, tuple(did), grown)


def _peak() -> float | None:
    """Return the largest resident memory of this process so far, in MiB; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
