"""What each first-party component gives on small inputs, kept by its version: ``python -m tests.core.testing.numbers``.

The table `numbers.json` has, for one component of each class, its version, a few numbers that summarise its output, and
the tolerance for other machines. The tolerance is measured: the same is computed for inputs with a noise of 1e-6, as
other processors and libraries make, and twenty times the largest change is allowed. Components that need files which
are not here, or more than `MOST_S`, are listed without numbers; only their own tests compare them.
"""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from tests.core.testing.test_first_party import small
from tests.standins import StandIns

from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.results.identity import DISTRIBUTION
from imharness.running.numerics import fresh_numerics
from imharness.testing.probe import Inputs, Probe
from imharness.testing.probes import probe_of

TABLE = Path(__file__).with_name("numbers.json")
COMMAND = "python -m tests.core.testing.numbers"
ROWS, SIDE, PROJECTIONS = 3, 48, 5
LARGER = {"harness/ms-ssim": 176}
"""Component -> the side of its images, px, where `SIDE` is too small for it."""
MOST_S = 0.12
"""Seconds: a component that takes more for one answer is left out, because all are computed in each test run."""
NOISE, TRIALS, MARGIN = 1e-6, 2, 20.0
"""The size of the noise, how many noisy inputs are tried, and how many times the largest change is allowed."""
LEAST = 1e-4
"""The least difference that counts, relative to the root mean square of the output."""
LEAST_OF_ATTACKS = 1e-3
"""The same of attacks: the sign of a gradient that is nearly 0 is another one on other processors (seen: 3.2e-4)."""


@functools.cache
def first_party() -> dict[str, Component]:
    """Return a component of each first-party class by kind and label, with little work to do."""
    entries = [e for e in installed().entries.values() if e.provenance.distribution == DISTRIBUTION]
    of_class = {type(entry.component): entry.component for entry in reversed(entries)}
    fitted = [small(component) for component in of_class.values()]
    return {f"{one.kind} {one.label}": one for one in sorted(fitted, key=lambda one: (one.kind, one.label))}


def numbers_of(component: Component, noise: int = 0) -> list[float]:
    """Return root mean square, mean and random projections of the output on the usual inputs; `noise`: its seed."""
    probe = probe_of(component, 1)
    if probe is None:
        return []
    with fresh_numerics():
        output = _answer(probe, noise)
    flat = output.detach().double().nan_to_num(-1.0).flatten()
    generator = torch.Generator().manual_seed(flat.numel())
    signs = torch.randint(0, 2, (PROJECTIONS, flat.numel()), generator=generator, dtype=torch.int8).double() * 2 - 1
    return [float(flat.square().mean().sqrt()), float(flat.mean()), *(signs @ flat / max(len(flat), 1) ** 0.5).tolist()]


def _answer(probe: Probe, noise: int) -> torch.Tensor:
    rows = ROWS if probe.by_row else probe.sizes[0][0]
    side = LARGER.get(probe.component.info.id, SIDE)
    inputs = _disturbed(probe.inputs(rows, side, side), noise)
    return probe.tensor(probe.build(probe.component), inputs, probe.seeds(rows))


def _disturbed(inputs: Inputs, noise: int) -> Inputs:
    if not noise:
        return inputs
    generator = torch.Generator().manual_seed(noise)

    def with_noise(values: torch.Tensor) -> torch.Tensor:
        if not values.is_floating_point():
            return values
        drawn = torch.rand(values.shape, generator=generator, dtype=values.dtype) - 0.5
        return torch.where(values > 0.5, values - drawn.abs() * NOISE, values + drawn.abs() * NOISE)

    return {name: with_noise(values) for name, values in inputs.items()}


def recorded(component: Component) -> dict[str, Any]:
    """Return the entry of a component in the table."""
    version = component.info.version
    start = time.process_time()
    numbers = numbers_of(component)
    if not numbers:
        return {"version": version, "left_out": "has no call"}
    if time.process_time() - start > MOST_S:
        start = time.process_time()
        numbers_of(component)  # what a library loads once does not count
        if time.process_time() - start > MOST_S:
            return {"version": version, "left_out": "takes too long"}
    others = [numbers_of(component, noise) for noise in range(1, TRIALS + 1)]
    scale, least = max(numbers[0], 1e-12), LEAST_OF_ATTACKS if component.kind == "attack" else LEAST
    spread = max(abs(a - b) / scale for other in others for a, b in zip(numbers, other, strict=True))
    return {
        "version": version,
        "numbers": [float(f"{number:.7g}") for number in numbers],
        "tolerance": float(f"{max(least, MARGIN * spread):.2g}"),
    }


def main() -> None:
    """Write the table."""
    table = {}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        stand_ins = StandIns(Path(folder), patch)
        for name, component in first_party().items():
            start = time.process_time()
            try:
                here = stand_ins.provide(component)
                here.require()
            except Exception as error:
                table[name] = {
                    "version": component.info.version,
                    "left_out": f"has no stand-in ({type(error).__name__})",
                }
                continue
            if time.process_time() - start > MOST_S:
                table[name] = {"version": component.info.version, "left_out": "has a large stand-in"}
                continue
            try:
                table[name] = recorded(here)
            except Exception as error:
                table[name] = {"version": component.info.version, "left_out": f"raises {type(error).__name__}"}
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in table.items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
