"""Every first-party plugin passes the conformance suite that plugins of third parties have to pass.

Published weights and data sets are stand-ins: random numbers and a few pictures, in the published layout.
"""

import gc
import importlib
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from tests.standins import StandIns

from imharness.components.registry import installed
from imharness.contracts.component import Component
from imharness.contracts.purification import Purification
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import IMAGES
from imharness.running import projections
from imharness.testing import CheckResult, Trial, metrics, placement, trials
from imharness.testing.devices import stays
from imharness.testing.placement import MAC
from imharness.testing.probe import Inputs, Probe
from imharness.testing.probes import probe_of
from imharness.testing.samples import images
from imharness_iqa.metrics import koncept512, spaq
from imharness_reconstruction.metrics import fid

ROOT = Path(__file__).resolve().parents[3]
INTERRUPTED = [pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
AT_BOUND_S = 0.08
"""Seconds for a check at the end of a parameter's bounds: errors come early. `harness plugins check` waits longer."""
PATIENCE_S = 600.0
"""Seconds for other checks: a busy machine is no failure. `harness plugins check` waits a tenth of it."""
IMPORTED_LATE = ("kornia", "lpips", "statsmodels.stats.proportion")
"""Libraries that components import when they are first called."""
ACCELERATOR, DEVICE = "runs on the accelerator too", "keeps every tensor on its device"
FEW_QUERIES = 24
"""Queries of a search on a simulated accelerator, where an operation takes 0.2 ms: enough to run each of its lines."""
FEW = {
    "queries": 200, "steps": 10, "iterations": 10, "population": 12, "generations": 2, "pairs": 2, "epochs": 2,
    "starts": 1, "width": 8, "depth": 3, "tile": 64, "samples": 300, "selection": 20, "copies": 2, "budget": 60,
}  # fmt: skip
"""Parameter -> its largest value here: enough to see a method at work."""
FEWER = {
    "parsimonious": {"queries": 60},
    "memguard": {"patience": 10},
    "cadv": {"iterations": 2},
    "diffpure": {"steps": 2},
    "zhang-dists": {"iterations": 2},
    "zhang-lpips": {"iterations": 3},
    "patch-rs": {"queries": 50},
    "square": {"queries": 50},
    "reversal-square": {"queries": 50},
    **{name: {"samples": 40, "selection": 5} for name in ("ddrs", "dms", "dp", "drs")},
    **{name: {"per_photograph": 4} for name in ("distorted-pairs", "cnn-pairs")},
    "crossed-pairs": {"size": 48},
    "densenet-bc": {"depth": 22, "growth": 12},
}
"""Component -> parameters whose largest values are others than those of `FEW`."""
LARGE = {
    "koncept512": 64, "linearity": 48, "spaq": 64, "fid": 64, "dists": 32, "zhang-dists": 32, "zhang-lpips": 32,
    "cadv": 32, "fpr": 32, "ddrs": 8, "dms": 8, "dp": 8, "drs": 8, "diffpure": 16, "disco": 16, "mprnet": 32,
}  # fmt: skip
"""Networks that take up to a second for an image, which are built once for all checks and see two images at most;
the images' side, px."""
FEW_DIRECTIONS = 8
"""Changes at each size of squares: a gradient of chance passes at all three sizes in 1.7 %; of 12 changes in 0.9 %."""
SMALLER = {
    "semsim": 48, "lpips": 48, "r-lpips": 48, "deep-features": 48, "lipsim": 48, "dreamsim": 64, "meta-iqa": 48,
    "fsim": 64, "r-clip": 64, "real-esrgan": 32,
}  # fmt: skip
"""Networks that are built as often as others, and see two small images at most; the images' side, px."""
PYIQA = {"maniqa", "clip-iqa-plus", "topiq", "paq2piq", "pyiqa", "pyiqa-fr"}
"""They load weights that pyiqa keeps, in files that have no stand-in: without the weights they cannot be called."""
RECORDED = {"recorded"}
"""It knows the images of its folder alone, and the suite shows others: tests/plugins/iqa/test_attacked_folder.py."""
EXTRA = {"foolbox", "mprnet", "torchattacks"} | PYIQA
"""Components that need a package which is not a dependency."""


def name_of(component: Component) -> str:
    return component.info.id.partition("/")[2]


def marks(component: Component) -> list[pytest.MarkDecorator]:
    """Mark what needs an extra package; what such a package does at its import is no fault of the component."""
    if name_of(component) not in EXTRA or getattr(component, "backbone", "") == "embedded":
        return []
    return [pytest.mark.extra, pytest.mark.filterwarnings("ignore:.*gaussian_filter. from:DeprecationWarning")]


def small(component: Component) -> Component:
    """Return a component with less work to do, where that is allowed."""
    for name, value in (FEW | FEWER.get(name_of(component), {})).items():
        if name in type(component).model_fields and getattr(component, name) > value:
            with suppress(ValidationError):
                component = component.with_parameters(**{name: value})
    return component


def first_of_each_class() -> list[Component]:
    components = {type(entry.component): entry.component for entry in reversed(installed().entries.values())}
    return [small(component) for component in sorted(components.values(), key=lambda c: (c.kind, c.label))]


def cases(components: list[Component], *, accelerator: bool) -> list[pytest.param]:
    return [
        pytest.param(
            component, trial.check, id=trial.name, marks=[*marks(component), *(INTERRUPTED if trial.at_bound else [])]
        )
        for component in components
        for trial in trials(component)
        if (trial.check == ACCELERATOR) == accelerator
        and (name_of(component) not in PYIQA | RECORDED or component.is_here())
    ]


@pytest.fixture
def component(request: pytest.FixtureRequest, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch) -> Component:
    """The component of a case, with stand-ins for what it needs."""
    stand_in = stand_ins.provide(request.param)
    name = name_of(stand_in)
    monkeypatch.setattr(metrics, "FOLLOWED", 1 if name in LARGE else 2)
    if name in LARGE:
        monkeypatch.setattr(projections, "DIRECTIONS", FEW_DIRECTIONS)
        build_once(stand_in, monkeypatch)
    if name in LARGE | SMALLER and probe_of(stand_in, 1) is not None:  # a training may have the name of its metric
        show_few(stand_in, (LARGE | SMALLER)[name], monkeypatch)
    return stand_in


BUILT: dict[str, object] = {}
"""The large component that was built last, by its label and the device."""


def build_once(component: Component, patch: pytest.MonkeyPatch) -> None:
    """Build a component once for all its checks."""
    build = type(component).build

    def once(self: Component, device: torch.device) -> object:
        key = f"{self.label} {device}"
        if key not in BUILT:
            for other in [other for other in BUILT if not other.startswith(f"{self.label} ")]:
                del BUILT[other]
            BUILT[key] = build(self, device)
        return BUILT[key]

    patch.setattr(type(component), "build", once)
    patch.setattr(koncept512, "SIZE", (128, 96))
    patch.setattr(koncept512, "POOLED", 1)  # the last maps of so small an image are not 8 px wide
    patch.setattr(spaq, "WINDOW", 64)
    patch.setattr(fid, "SIDE", 107)


def show_few(component: Component, side: int, patch: pytest.MonkeyPatch) -> None:
    """Show a component few small images."""
    probe = type(probe_of(component, 1))
    inputs = probe.inputs

    def few(self: Probe, n: int, height: int = side, width: int = side) -> Inputs:
        return inputs(self, n, min(height, side + 11), min(width, side))

    by_row = probe_of(component, 1).by_row
    patch.setattr(probe, "sizes", ((2, side, side), (1, side + 11, side - 3))[: 1 + by_row])
    patch.setattr(probe, "inputs", few)


LAST: list[tuple[Component, list[Trial]]] = []
"""The component that was checked last, and its checks."""


def shared(component: Component) -> list[Trial]:
    """Return the checks of a component, one list for all its tests: they share what they build and call."""
    if not LAST or LAST[0][0] != component:
        LAST[:] = [(component, trials(component, 1))]
    return LAST[0][1]


def with_few_queries(component: Component) -> Component:
    if "queries" in type(component).model_fields:
        with suppress(ValidationError):
            return component.with_parameters(queries=FEW_QUERIES)
    return component


def interrupted(trial: Trial) -> CheckResult:
    """Run a check until its limit; a file that is open then is closed in its test, which ignores that.

    Libraries that components import late are imported before: one whose import is interrupted could not be imported
    again. The collector is off meanwhile: what the check leaves stays in the youngest generation, which alone is
    collected after it.
    """
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    gc.disable()
    try:
        outcome = replace(trial, limit=AT_BOUND_S).run()
        gc.collect(0)
    finally:
        gc.enable()
    return outcome


def passes(component: Component, check: str) -> None:
    trial = next(t for t in shared(component) if t.check == check)
    outcome = interrupted(trial) if trial.at_bound else replace(trial, limit=PATIENCE_S).run()
    assert outcome.status == "passed", outcome.message


def passes_on_simulated_ones(component: Component, patch: pytest.MonkeyPatch) -> None:
    """See that a component keeps its tensors on ``cuda:0``, and on the GPU of a Mac, which has no float64.

    `test_no_plugin_asks_which_gpu_it_has` shows that plugins treat all GPUs alike. So a component that puts no float64
    on ``cuda:0`` puts none on ``mps:0``, and only the others are tried on ``mps:0``.
    """
    types, placed = set[torch.dtype](), placement._Operations._placed

    def noted(self: placement._Operations, tensor: torch.Tensor) -> torch.Tensor:
        types.add(tensor.dtype)
        return placed(self, tensor)

    component = with_few_queries(component)
    with patch.context() as watching:
        watching.setattr(placement._Operations, "_placed", noted)
        passes(component, DEVICE)
    assert types or component.isolation or component.kind == "dataset"
    if types & {torch.float64, torch.complex128}:
        assert stays(component, probe_of(component, 1), MAC)


@pytest.mark.parametrize(
    ("component", "check"), cases(first_of_each_class(), accelerator=False), indirect=["component"]
)
def test_a_plugin_keeps_its_contract(component: Component, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if check == DEVICE and not torch.cuda.is_available():
        passes_on_simulated_ones(component, monkeypatch)
    else:
        passes(component, check)


def test_no_plugin_asks_which_gpu_it_has() -> None:
    """What works on one accelerator works on another, but for the types that a Mac's has not."""
    asks = re.compile(r"""["']cuda|["']mps|is_cuda|is_mps|torch\.cuda|backends\.(mps|cuda)""")
    users = {"imharness_ray", "notebook"}  # what spreads work over a user's devices has to ask
    users |= {"captured.py"}  # only CUDA has graphs; any other device computes the same steps one by one
    files = [path for path in (ROOT / "plugins").rglob("*.py") if not users & {*path.parts}]
    assert len(files) > 100
    assert [str(path) for path in files if asks.search(path.read_text(encoding="utf-8"))] == []


if torch.cuda.is_available():

    @pytest.mark.parametrize(
        ("component", "check"), cases(first_of_each_class(), accelerator=True), indirect=["component"]
    )
    def test_a_plugin_runs_on_the_accelerator(component: Component, check: str) -> None:
        passes(component, check)

else:

    @pytest.mark.skip(reason="no accelerator on this machine")
    def test_plugins_run_on_the_accelerator() -> None: ...


def test_all_plugins_load() -> None:
    assert installed().failures == []


def purifications() -> list[pytest.param]:
    components = [e.component for e in installed().entries.values() if isinstance(e.component, Purification)]
    return [pytest.param(c, id=c.label, marks=marks(c)) for c in components]


@pytest.mark.parametrize("component", purifications(), indirect=True)
def test_a_purification_takes_a_thumbnail(component: Purification) -> None:
    if "size" in type(component).model_fields:
        component = component.with_parameters(size=8)
    batch = images(2, 12, 12, 0)
    IMAGES.check(component.build(torch.device("cpu"))(batch, ImageRng([1, 2])), {}, 2, component.label)
