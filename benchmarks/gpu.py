"""Compares a GPU with the CPU, in at most eight minutes: speed, and whether both give the same numbers.

Each section is a function of the device and of the `Sizes` of its work, and returns lines of the report. On a machine
without a GPU, `lines` raises `Unavailable`.
"""

import itertools
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torchvision.models import resnet18

from benchmarks.timing import Line, best_of
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator, seeded_init
from imharness.errors import Unavailable
from imharness.membership import TrainingData, TrainingPlan
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running.device import device_name, synchronise
from imharness.running.executor import open_executor
from imharness.running.local import PREPARED
from imharness.running.numerics import fresh_numerics
from imharness.running.sweep import execute
from imharness.running.target import MetricTarget
from imharness.testing.devices import on_accelerator
from imharness.testing.probes import probe_of
from imharness_iqa.certifications.rs import Rs
from imharness_membership.training import epochs, together
from imharness_reconstruction.attacks.invgrad import InvGrad
from imharness_reconstruction.captured import SWITCH
from imharness_reconstruction.models.lenet import LeNet
from imharness_reconstruction.per_image import image_gradients
from imharness_submissions.sandbox.jail import GuestSpec, arguments, interpreter, require_sandbox
from imharness_vision.weights import folded, frozen

CPU = torch.device("cpu")
SAME_GAIN, SAME_ROWS = 0.005, 0.01
"""The largest differences between devices: of a gain, as a share of it, and of scores, as a share of their range."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of all work; tests use smaller ones.

    Attributes:
        side: height and width of the images, px.
        iterations: of I-FGSM.
        images: the images that are attacked.
        copies: the noisy copies of one image in smoothing.
        steps: of gradient inversion.
        models: the reference models that are trained at once.
        epochs: of their training.
        conformance_s: the time after which no further component is checked, s.
        conforming: the most components that are checked; None means all.
    """

    side: int = 224
    iterations: int = 10
    images: int = 64
    copies: int = 4096
    steps: int = 40
    models: int = 32
    epochs: int = 5
    conformance_s: float = 240.0
    conforming: int | None = None


def lines(device: str = "cuda", sizes: Sizes | None = None) -> list[Line]:
    """Return the lines of all sections for a device; raises `Unavailable` for "cuda" on a machine without a GPU."""
    if device == "cuda" and not torch.cuda.is_available():
        raise Unavailable("unavailable: no GPU on this machine")
    torch_device, sizes = torch.device(device if device == "cpu" else f"{device}:0"), sizes or Sizes()
    sections = (_attack, _smoothing, _inversion, _reference_models, _halving, _runs, _fork, _sandbox, _conformance)
    results = [Line("device", device_name(torch_device), "", True)]
    with fresh_numerics():
        for section in sections:
            results += section(torch_device, sizes)
    return results


def _timed(device: torch.device, function: Callable[[], object]) -> float:
    """Return the shortest wall time of two calls after a first one, with the device synchronised, s."""

    def whole() -> None:
        function()
        synchronise(device)

    return best_of(2, whole, time.perf_counter)


def _photographs(n: int, side: int) -> torch.Tensor:
    """Return smooth random images with some noise ``(n, 3, side, side)`` in [0, 1]."""
    smooth = torch.rand(n, 3, 14, 14, generator=generator(0))
    larger = torch.nn.functional.interpolate(smooth, (side, side), mode="bicubic")
    return (larger + 0.05 * torch.randn(larger.shape, generator=generator(1))).clamp(0, 1)


def _network(device: torch.device) -> torch.nn.Module:
    """Return a ResNet-18 with random weights and one output."""
    with seeded_init(generator(0)):
        network = resnet18(num_classes=1)
    return frozen(folded(network), device)


def _attack(device: torch.device, sizes: Sizes) -> list[Line]:
    """Attack with I-FGSM in float32 and in bfloat16; compare the gain with that on the CPU for a few images."""
    attack = installed().one("attack", "ifgsm").with_parameters(iterations=sizes.iterations)
    images = _photographs(sizes.images, sizes.side)

    def attacked(processor: torch.device, precision: str, count: int) -> tuple[float, Callable[[], torch.Tensor]]:
        """Return the mean gain on the first images, and the function that attacks them."""
        network, batch = _network(processor), images[:count].to(processor)

        def run() -> torch.Tensor:
            target = MetricTarget(
                lambda x: network(x).flatten(), (0, 1), images=len(batch), differentiable=True, precision=precision
            )
            return attack.build(processor)(batch, target, ImageRng(range(len(batch)), processor))

        result = run()
        with torch.no_grad():
            gain = network(result) - network(batch)
        return float(gain.mean()), run

    few = min(4, sizes.images)
    gain_on_cpu, _ = attacked(CPU, "strict", few)
    gain_on_device, _ = attacked(device, "strict", few)
    off = abs(gain_on_device / gain_on_cpu - 1)
    gains, seconds = {}, {}
    for precision in ("strict", "fast"):
        gains[precision], run = attacked(device, precision, sizes.images)
        seconds[precision] = _timed(device, run)
    loss, what = abs(gains["fast"] / gains["strict"] - 1), f"I-FGSM on a ResNet-18, {sizes.side} px"
    speed = seconds["strict"] / seconds["fast"]
    return [
        Line(f"{what}: images per second", f"{sizes.images / seconds['strict']:.0f}", "", True),
        Line("    gain of the score, difference to the CPU", f"{100 * off:.2f} %", "<= 0.5 %", off <= SAME_GAIN),
        Line("    bfloat16 (--precision fast): times as fast", f"{speed:.1f}x", "", True),
        Line("    bfloat16: difference of the gain", f"{100 * loss:.2f} %", "<= 0.5 %", loss <= SAME_GAIN),
    ]


def _smoothing(device: torch.device, sizes: Sizes) -> list[Line]:
    """Compare the speed of a noisy pass with that of the network alone."""
    network, image = _network(device), _photographs(1, sizes.side).to(device)
    rs = Rs(selection=sizes.copies // 4, samples=sizes.copies - sizes.copies // 4)

    def smoothed() -> torch.Tensor:
        return rs.smooth(device)(lambda x: network(x).flatten(), image, ImageRng([0], device))

    def alone() -> None:
        for chunk in image.expand(sizes.copies, -1, -1, -1).split(256):
            network(chunk)

    with torch.no_grad():
        share = _timed(device, alone) / _timed(device, smoothed)
    what = f"Smoothing, {sizes.copies} noisy copies: share of the speed of the network alone"
    return [Line(what, f"{100 * share:.0f} %", "", True)]


def _inversion(device: torch.device, sizes: Sizes) -> list[Line]:
    """Invert gradients on the CPU, on the device, and with steps as CUDA graphs; compare gradients of single images."""
    images, labels = _photographs(8, 32), torch.arange(8) % 4

    def rebuilt(processor: torch.device, steps: int) -> torch.Tensor:
        network = LeNet().build(processor)((3, 32, 32), 4, generator(0)).requires_grad_(False)
        shared = image_gradients(network, images.to(processor), labels.to(processor))
        attack = InvGrad(steps=steps, starts=1).build(processor)
        return attack(shared, network, (3, 32, 32), ImageRng(range(8), processor), lambda done, total: None)

    seconds = [
        _timed(processor, lambda current=processor: rebuilt(current, sizes.steps)) for processor in (CPU, device)
    ]
    plain = rebuilt(device, sizes.steps)
    with patch.dict(os.environ, {SWITCH: "1"}):
        graphed_s = _timed(device, lambda: rebuilt(device, sizes.steps))
        difference = float((rebuilt(device, sizes.steps) - plain).abs().mean())
    gradients = [
        image_gradients(
            LeNet().build(processor)((3, 32, 32), 4, generator(0)), images.to(processor), labels.to(processor)
        )
        for processor in (CPU, device)
    ]
    off = max(float((gradients[1][n].cpu() - g).norm() / g.norm()) for n, g in gradients[0].items())
    what = f"InvGrad, 8 images of 32 px, {sizes.steps} steps: times as fast as on the CPU"
    return [
        Line(what, f"{seconds[0] / seconds[1]:.1f}x", "", True),
        Line(f"    steps as CUDA graphs ({SWITCH}=1): times as fast", f"{seconds[1] / graphed_s:.1f}x", "", True),
        Line(
            "    steps as CUDA graphs: mean difference of a pixel", f"{difference:.1e}", "<= 1e-3", difference <= 1e-3
        ),
        Line("    gradients of single images, difference to the CPU", f"{off:.1e}", "<= 1e-3", off <= 1e-3),
    ]


def _reference_models(device: torch.device, sizes: Sizes) -> list[Line]:
    """Train small networks at once and one by one; compare their logits with those of training on the CPU."""
    rows, features = 512, 128
    plan = TrainingPlan(epochs=sizes.epochs, batch_size=64, learning_rate=0.01)

    def data(number: int, processor: torch.device) -> TrainingData:
        x = torch.rand(rows, features, generator=generator(number)).to(processor)
        y = torch.randint(10, (rows,), generator=generator(number)).to(processor)
        return TrainingData(x, y, x, y)

    def fresh(number: int, processor: torch.device) -> torch.nn.Module:
        with seeded_init(generator(number)):
            layers = torch.nn.Sequential(torch.nn.Linear(features, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        return layers.to(processor)

    def at_once(processor: torch.device, count: int) -> list[torch.nn.Module]:
        networks, rngs = [fresh(i, processor) for i in range(count)], [generator(i) for i in range(count)]
        together()(networks, [data(i, processor) for i in range(count)], plan, rngs, lambda done, total: None)
        return networks

    def one_by_one() -> None:
        for number in range(sizes.models):
            network = fresh(number, device)
            for _ in epochs(network, data(number, device), plan, generator(number)):
                pass

    ratio = _timed(device, one_by_one) / _timed(device, lambda: at_once(device, sizes.models))
    probe = torch.rand(64, features, generator=generator(7))
    here, there = (at_once(processor, 2)[1](probe.to(processor)).detach().cpu() for processor in (CPU, device))
    off = float((here - there).abs().max())
    what = f"{sizes.models} reference models trained at once (vmap): times as fast as one by one"
    return [
        Line(what, f"{ratio:.1f}x", "", True),
        Line("    logits after training, difference to the CPU", f"{off:.1e}", "<= 1e-2", off <= 1e-2),
    ]


def _halving(device: torch.device, sizes: Sizes) -> list[Line]:
    """Score eight images by a metric that takes a third of all memory for each, so that the batch must be halved.

    Behind a random defense, the scores must be those of batches of one image. (On a CPU, the metric asks for too much
    memory if it gets more than two images.)
    """
    share = torch.cuda.get_device_properties(device).total_memory // 3 if device.type == "cuda" else 2**60
    seen: list[int] = []

    def score(images: torch.Tensor) -> torch.Tensor:
        needed = share * (len(images) if device.type == "cuda" else len(images) > 2)
        torch.empty(needed, dtype=torch.uint8, device=device)
        seen.append(len(images))
        return images.mean(dim=(1, 2, 3))

    def scores(batch: int) -> torch.Tensor:
        def noisy(x: torch.Tensor, rng: ImageRng) -> torch.Tensor:
            return x + 0.1 * rng.normal(*x.shape[1:])

        images, rng = _photographs(8, 16).to(device), ImageRng(range(8), device)
        target = MetricTarget(score, (0, 1), images=8, differentiable=False, purify=noisy, rng=rng, micro_batch=batch)
        return target(images)

    off = float((scores(8) - scores(1)).abs().max())
    met = off <= 1e-5 and max(seen) < 8
    message = f"8 images in batches of at most {max(seen)}, scores off by {off:.0e}"
    return [Line("Out of memory: batches are halved, scores stay", message, "<= 1e-5", met)]


def _runs(device: torch.device, sizes: Sizes) -> list[Line]:
    """Compute the same tasks in this process on the CPU, in this process on the device, and in two on the device."""
    only = {
        "attack": ["ifgsm[iterations=3]"],
        "metric": ["embedded-cnn"],
        "defense": ["none", "gaussian-blur"],
        "dataset": ["harness/severity-ladder[severities=[3],size=48]"],
    }
    graph = plan_track("harness/iqa", load_profile("embedded"), installed(), only=only, limit=2)
    bounds = installed().one("metric", "embedded-cnn").bounds
    with tempfile.TemporaryDirectory() as folder:
        here, alone, two = (
            _scores(graph, Path(folder) / name, processor, workers)
            for name, processor, workers in (("cpu", "cpu", 0), ("alone", str(device), 0), ("two", str(device), 2))
        )
    off = float(np.abs(alone - here).max() / (bounds[1] - bounds[0]))
    apart = float(np.abs(two - alone).max() / (bounds[1] - bounds[0]))
    goal = f"<= {100 * SAME_ROWS:.0f} %"
    what = f"Rows of {len(graph.tasks)} tasks, {len(here)} scores: largest difference to the CPU, share of the range"
    return [
        Line(what, f"{100 * off:.3f} %", goal, off <= SAME_ROWS),
        Line("    two processes on the device, compared with one", f"{100 * apart:.3f} %", goal, apart <= SAME_ROWS),
    ]


def _scores(graph: Graph, folder: Path, device: str, workers: int) -> np.ndarray:
    """Return all scores of a run, in the order of the tasks' keys ``(n,)``."""
    store = Store(folder)
    outcome = execute([graph], store, lambda: open_executor(store.address, devices=[device], workers=workers))
    if outcome.done != set(graph.tasks):
        raise RuntimeError(f"{len(graph.tasks) - len(outcome.done)} tasks failed on {device}")
    records = [store.record(key) for key in sorted(graph.tasks)]
    columns = [store.rows(record) for record in records if record is not None]
    return np.concatenate([c["score"].astype(float) for c in columns if "score" in c])


def _fork(device: torch.device, sizes: Sizes) -> list[Line]:
    """Check that a process that is forked from the prepared server can use the device: the server must not use it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PREPARED])
    here, there = context.Pipe()
    process = context.Process(target=_used, args=(there, str(device)))
    process.start()
    there.close()
    try:
        answer = here.recv() if here.poll(120) else "no answer"
    except EOFError:
        answer = "it died"
    process.join(5)
    return [Line("A fork of the prepared server computes on the device", str(answer), "6.0", answer == 6.0)]


def _used(pipe: multiprocessing.connection.Connection, device: str) -> None:
    """Compute 0 + 1 + 2 + 3 on the device, and send the sum, or the error."""
    try:
        pipe.send(float(torch.arange(4.0, device=device).sum()))
    except RuntimeError as error:
        pipe.send(" ".join(str(error).split())[:100])


_ASK = "import torch; print(torch.cuda.device_count(), torch.ones(3, device={device!r}).sum().item())"


def _sandbox(device: torch.device, sizes: Sizes) -> list[Line]:
    """Compute a sum on the device inside of the sandbox."""
    what = "The sandbox has the device's nodes and computes on it"
    try:
        require_sandbox()
    except Unavailable as error:
        return [Line(what, f"unavailable: {error}", "", True)]
    with tempfile.TemporaryDirectory() as folder:
        spec = GuestSpec("image-privacy-harness", Path(folder), threads=1, gpu=device.type == "cuda")
        ask = f"import sys; sys.path[:] = {[p for p in sys.path if p]!r}; {_ASK.format(device=str(device))}"
        inside = [*interpreter(), "-c", ask]
        ran = subprocess.run(arguments(spec, inside), capture_output=True, text=True, timeout=120, check=False)
    nodes = sum("/dev/nvidia" in argument for argument in arguments(spec)) // 2
    output = ran.stdout.strip() or ran.stderr.strip()[-100:]
    return [Line(what, f"{nodes} nodes; {output}", "", ran.stdout.strip().endswith("3.0"))]


def _conformance(device: torch.device, sizes: Sizes) -> list[Line]:
    """Check every component that can be built here on the CPU and on the device, attacks last, until time is up."""
    end, counted, failed = time.monotonic() + sizes.conformance_s, 0, []
    for label, check in itertools.islice(_checks(device), sizes.conforming):
        if time.monotonic() > end:
            break
        counted += 1
        try:
            check()
        except Unavailable:
            counted -= 1
        except Exception as error:
            failed.append(f"{label}: {' '.join(str(error).split())[:80]}")
    message = f"{counted} components" + (f"; failed: {'; '.join(failed)}" if failed else "")
    return [Line("Conformance: components work on the device", message, "0 failed", not failed)]


def _checks(device: torch.device) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the label of one component of each class, and the function that checks it."""
    first = {type(entry.component): entry.component for entry in reversed(installed().entries.values())}
    for component in sorted(first.values(), key=lambda c: (c.kind == "attack", c.kind, c.label)):
        probe = probe_of(component, 1)
        if probe is not None and component.is_here():
            yield component.label, lambda c=component, p=probe: on_accelerator(p, device)
