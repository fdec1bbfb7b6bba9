"""What a component does with usual inputs: it is called once, and every check looks at what came of it."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from typing import Any

import torch

from imharness.errors import ContractError
from imharness.testing.audit import undisturbed, watched
from imharness.testing.probe import Inputs, Probe


@dataclass(frozen=True)
class Call:
    """The first call of a built component on usual inputs, and what it did beside its work."""

    inputs: Inputs
    """What went in, as it was before the call."""
    seeds: list[int]
    result: Any
    flat: torch.Tensor
    """The result as one tensor."""
    untouched: bool
    """Whether the inputs are after the call what they were before it."""
    did: tuple[str, ...]
    """What a component may not do, and this one did."""
    mebibytes: float
    """How much the peak memory of this process grew with the building and the call."""


def usual_inputs(probe: Probe) -> tuple[Inputs, list[int]]:
    """Return inputs of the usual size, drawn anew, and the seeds of their rows."""
    size = probe.sizes[0]
    return probe.inputs(*size), probe.seeds(size[0])


def copied(inputs: Inputs) -> Inputs:
    """Return inputs that a component may change, and that leave these as they are."""
    return {name: tensor.clone() for name, tensor in inputs.items()}


def usual(probe: Probe) -> Call:
    """Return the first call on usual inputs, which all checks of a component share."""
    found: Call = probe.once("usual", lambda: _observed(probe))
    return found


def again(probe: Probe) -> tuple[torch.Tensor, float]:
    """Return what the same built component gives the second time, as one tensor, and how long it took, s."""

    def timed() -> tuple[torch.Tensor, float]:
        first = usual(probe)
        inputs, start = copied(first.inputs), time.perf_counter()
        result = probe.call(probe.built, inputs, first.seeds)
        seconds = time.perf_counter() - start
        return probe.flat(result, inputs), seconds

    found: tuple[torch.Tensor, float] = probe.once("again", timed)
    return found


def _observed(probe: Probe) -> Call:
    before = _peak()
    built, (inputs, seeds) = probe.built, usual_inputs(probe)
    given, results, did = copied(inputs), list[Any](), list[str]()
    with watched() as seen:
        try:
            with undisturbed():
                results.append(probe.call(built, given, seeds))
        except ContractError as error:
            if not results:
                raise
            did.append(str(error))
    if seen:
        did.append(f"did what a component may not do: {', '.join(sorted(set(seen))[:3])}")
    untouched = all(torch.equal(tensor, given[name]) for name, tensor in inputs.items())
    flat = probe.flat(results[0], inputs).clone()
    return Call(inputs, seeds, results[0], flat, untouched, tuple(did), _peak() - before)


def _peak() -> float:
    """Return the largest resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
