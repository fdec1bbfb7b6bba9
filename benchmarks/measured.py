"""Measures memory and time of the networks of the profile `official` on a device.

    python -m benchmarks memory --device cuda

Measured memory stands beside what `benchmarks.memory` predicts, measured time beside what ``harness run --dry-run``
assumes. Networks have random weights. A time is the median of several passes after a warm-up, with the device
synchronised. Precisions: "strict" is float32 as in a run; "tf32" lets the GPU round the factors of convolutions and
products to 10 bits; "bf16" is `--precision fast`. If a network fails, or its package is not installed, only its own
line has no numbers.
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import nn

from benchmarks.memory import CPU, GB, cost, faked
from benchmarks.networks import CATALOGUE, Network, facts, smaller
from imharness.cli import console
from imharness.errors import Unavailable
from imharness.running.device import device_name, synchronise
from imharness.running.numerics import fresh_numerics, tensor_cores

BUDGET_S = 230.0
"""The time for all networks together, s; a network that is not begun by then is left out, and its line says so."""
EACH_S, PASSES = 0.6, 7
"""The time after which no further pass begins for one figure, s, and the most passes; two warm-up passes come first."""
PRECISIONS = ("strict", "tf32", "bf16")
RATE = 20e12
"""Operations per second of the GPU that `--dry-run` assumes."""


@dataclass
class Measurement:
    """What was predicted and measured of a network.

    Attributes:
        network: its name in the catalogue.
        unavailable: why nothing was measured, or "".
        batch: the number of images of a timed pass.
        predicted: number of images -> predicted GB of a pass forward and of a step, with the weights.
        measured: number of images -> measured GB of a pass forward and of a step, with the weights.
        reserved: the most GB that torch reserved on the GPU.
        forward_ms: precision -> time of a pass forward, ms per image.
        step_ms: precision -> time of a step, ms per image.
        operations: GFLOP per image: "counted_forward" and "counted_step" as torch counts them, "assumed_forward" and
            "assumed_step" as the cost table of the dry run assumes them.
        took_s: how long the whole measurement took, s.
    """

    network: str
    unavailable: str = ""
    batch: int = 0
    predicted: dict[int, tuple[float, float]] = field(default_factory=dict)
    measured: dict[int, tuple[float, float]] = field(default_factory=dict)
    reserved: float = 0.0
    forward_ms: dict[str, float] = field(default_factory=dict)
    step_ms: dict[str, float] = field(default_factory=dict)
    operations: dict[str, float] = field(default_factory=dict)
    took_s: float = 0.0


def measure(
    device: torch.device, names: list[str], *, predict: bool = True, small: bool = False
) -> Iterator[Measurement]:
    """Yield the measurement of each network; if `small`, with smaller images and batches, for a CPU."""
    end = time.monotonic() + BUDGET_S
    if device.type == "cuda":
        _warm(device)
    for name in names:
        network = smaller(CATALOGUE[name], 64, 2) if small else CATALOGUE[name]
        measurement, start = Measurement(name, batch=network.batch), time.monotonic()
        try:
            if start > end:
                raise Unavailable(f"unavailable: left out after {BUDGET_S:.0f} s")
            _fill(measurement, network, device, predict)
        except Exception as error:  # of a library or of the device; the others are measured
            measurement.unavailable = " ".join(str(error).split())[:160] or type(error).__name__
            if not isinstance(error, Unavailable):
                measurement.unavailable = f"failed: {type(error).__name__}: {measurement.unavailable}"
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        measurement.took_s = round(time.monotonic() - start, 1)
        yield measurement


def _fill(measurement: Measurement, network: Network, device: torch.device, predict: bool) -> None:
    """Predict and measure memory for half a batch and for a whole one, and measure times, in all precisions."""
    real = network.made()
    sizes = sorted({max(2, network.batch // 2), network.batch})
    measurement.operations = facts(network) if device.type == "cuda" else {}  # the table is for images of full size
    if predict:
        fake = faked(real)
        for size in sizes:
            forward = cost(network, size, back=False, module=fake)
            step = cost(network, size, back=True, module=fake)
            measurement.predicted[size] = round(forward.peak / GB, 3), round(step.peak / GB, 3)
        counted = {"counted_forward": forward.operations / 1e9, "counted_step": step.operations / 1e9}
        measurement.operations |= {name: round(value, 3) for name, value in counted.items()}
    before = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
    module = real.to(device, memory_format=torch.channels_last)
    with fresh_numerics():
        for size in sizes if device.type == "cuda" else ():
            images = network.inputs(size, device)
            forward_bytes = _peak(lambda images=images: network.forward(module, images), device) - before
            step_bytes = _peak(lambda images=images: network.step(module, images), device) - before
            measurement.measured[size] = round(forward_bytes / GB, 3), round(step_bytes / GB, 3)
            measurement.reserved = round(torch.cuda.max_memory_reserved(device) / GB, 3)
        images = network.inputs(network.batch, device)
        for precision in _precisions(network, device):
            with _computing(precision, device):
                measurement.forward_ms[precision] = _timed(
                    lambda: network.forward(module, images), device, network.batch
                )
                measurement.step_ms[precision] = _timed(lambda: network.step(module, images), device, network.batch)


def _precisions(network: Network, device: torch.device) -> tuple[str, ...]:
    """Return the precisions that are measured: a CPU has no tf32, and gradients of gradients have no bf16."""
    precisions = PRECISIONS if device.type == "cuda" else ("strict", "bf16")
    return tuple(name for name in precisions if name != "bf16") if network.inverts else precisions


def _peak(function: Callable[[], object], device: torch.device) -> int:
    """Return the most bytes that were allocated while `function` ran, the second time."""
    function()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    function()
    synchronise(device)
    return int(torch.cuda.max_memory_allocated(device))


def _timed(function: Callable[[], object], device: torch.device, images: int) -> float:
    """Return the median time of warm passes, ms for one image."""
    for _ in range(2 if device.type == "cuda" else 1):
        function()
    synchronise(device)
    times, end = list[float](), time.perf_counter() + EACH_S
    while not times or (len(times) < PASSES and time.perf_counter() < end):
        start = time.perf_counter()
        function()
        synchronise(device)
        times.append(time.perf_counter() - start)
    return round(1000 * statistics.median(times) / images, 4)


@contextmanager
def _computing(precision: str, device: torch.device) -> Iterator[None]:
    """Compute in a precision; "strict" is what `fresh_numerics` gives."""
    with tensor_cores(precision == "tf32"), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def _warm(device: torch.device) -> None:
    """Let libraries allocate their workspaces, so that they are not counted as memory of the first network."""
    layer = nn.Sequential(nn.Conv2d(8, 8, 3), nn.Flatten(), nn.LazyLinear(8)).to(device)
    layer(torch.rand(2, 8, 32, 32, device=device)).sum().backward()
    synchronise(device)


def report(device: torch.device, names: list[str], path: Path | None, *, predict: bool = True) -> None:
    """Print tables of memory and of time, then all figures as JSON, one network a line."""
    small = device.type == "cpu"
    measurements = list[Measurement]()
    start = time.monotonic()
    for one in measure(device, names, predict=predict, small=small):
        measurements.append(one)
        console.say(f"{one.network}: {one.unavailable or 'measured'} ({one.took_s} s)")
    lines = [json.dumps(asdict(one)) for one in measurements]
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    head = json.dumps({"device": device_name(device), "small": small, **versions})
    if path is not None:
        path.write_text("\n".join([head, *lines]) + "\n")
    what = f"{device_name(device)}, torch {torch.__version__}"
    if not small:
        console.table(f"Memory on {what}, GB: predicted / measured", _MEMORY, [_memory(one) for one in measurements])
    console.table(f"Time on {what}, ms for an image", _TIMES, [_times(one) for one in measurements])
    console.say(f"{time.monotonic() - start:.0f} s in all")
    sys.stdout.write("\n".join([head, *lines]) + "\n")


_MEMORY = ["network", "images", "forward", "step", "images", "forward", "step", "reserved"]
_TIMES = [
    "network", "images", "GFLOP counted", "table says", "forward", "tf32", "bf16", "step", "tf32", "bf16",
    "table: forward", "step", "step, measured / table", "TFLOP/s",
]  # fmt: skip


def _memory(measurement: Measurement) -> tuple[object, ...]:
    """Return a row of the table with the columns `_MEMORY`."""
    if measurement.unavailable:
        return measurement.network, "", measurement.unavailable, *[""] * 5
    cells = list[object]()
    for size in measurement.measured:
        pairs = zip(measurement.predicted.get(size, (0.0, 0.0)), measurement.measured[size], strict=True)
        cells += [size, *(f"{predicted:.2f} / {real:.2f}" for predicted, real in pairs)]
    cells += [""] * (6 - len(cells))
    return measurement.network, *cells, f"{measurement.reserved:.1f}"


def _times(measurement: Measurement) -> tuple[object, ...]:
    """Return a row of the table with the columns `_TIMES`."""
    if measurement.unavailable:
        return measurement.network, "", measurement.unavailable, *[""] * 11
    operations = measurement.operations
    counted = f"{operations.get('counted_forward', 0):.2f} / {operations.get('counted_step', 0):.2f}"
    assumed = ""
    if "assumed_step" in operations:
        assumed = f"{operations['assumed_forward']:.2f} / {operations['assumed_step']:.2f}"
    times = [
        f"{by_precision[precision]:.3f}" if precision in by_precision else ""
        for by_precision in (measurement.forward_ms, measurement.step_ms)
        for precision in PRECISIONS
    ]
    forward_ms, step_ms = (
        operations.get(name, 0.0) * 1e9 / RATE * 1000 for name in ("assumed_forward", "assumed_step")
    )
    strict_ms = measurement.step_ms["strict"]
    ratio = f"{strict_ms / step_ms:.2f}" if step_ms else ""
    tera_per_second = operations.get("counted_step", 0.0) / strict_ms  # GFLOP per ms
    cells = (counted, assumed, *times, f"{forward_ms:.3f}", f"{step_ms:.3f}", ratio, f"{tera_per_second:.1f}")
    return measurement.network, measurement.batch, *cells


def place(name: str) -> torch.device:
    """Return a device; raises `Unavailable` where it is not on this machine."""
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise Unavailable("unavailable: no GPU on this machine")
    return CPU if name == "cpu" else torch.device("cuda:0" if name == "cuda" else name)


@dataclass
class Options:
    """The options of the command line; without a device, nothing is measured."""

    device: str = ""
    file: Path | None = None
    predict: bool = True
    names: list[str] = field(default_factory=list)


def options(words: list[str]) -> Options:
    """Read ``[--device NAME] [--json FILE] [--no-prediction] [NAME...]``; NAMEs are parts of names, none means all."""
    request, rest = Options(), iter(words)
    for word in rest:
        if word == "--device":
            request.device = next(rest, "")
        elif word == "--json":
            request.file = Path(next(rest, "measured.json"))
        elif word == "--no-prediction":
            request.predict = False
        else:
            meant = [name for name in CATALOGUE if word in name]
            if not meant:
                raise Unavailable(f"no such network: {word}; there are {', '.join(CATALOGUE)}")
            request.names += meant
    request.names = request.names or list(CATALOGUE)
    return request
