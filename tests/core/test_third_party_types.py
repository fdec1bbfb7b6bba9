"""Packages of others are type-checked with strict settings of their own; no name of a public module is `Any`.

DOORS are the public modules of the core, the files directly in core/imharness.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from imharness.testing.scaffold import KINDS, write_package

ROOT = Path(__file__).resolve().parents[2]
DOORS = sorted(file.stem for file in (ROOT / "core" / "imharness").glob("*.py"))
PACKAGES = (
    "acme-track/acme_track",
    "acme-metric/acme_metric.py",
    "acme-executor/acme_executor.py",
    "acme-executor/acme_threads.py",
    "acme-hooks/acme_lines.py",
    "acme-contract/acme_contract.py",
    "acme-faces/acme_faces/__init__.py",
)
USES = {
    "context.images()": "imharness.contracts.image_dataset.ImageSet",
    "context.table()": "imharness.contracts.table_dataset.TableSet",
    "selection.of(FullReferenceMetric)[0].build(device)(images, images)": "torch._tensor.Tensor",
    "context.need('clean')": "imharness.contracts.track.Output",
    "context.rng(['a'], 'draw')": "imharness.contracts.randomness.ImageRng",
    "selection.of(FullReferenceMetric)": "list[imharness.contracts.full_reference_metric.FullReferenceMetric]",
    "planner.component('metric', 'harness/linf')": "imharness.contracts.component.Component",
    "planner.within(dataset=planner.component('dataset', 'a/b'))": "imharness.contracts.track.Planner",
    "planner.task('flip').available": "bool",
    "query.blocks('SELECT 1', entry='metric', by=[])": "imharness.results.blocks.Blocks",
    "worker.run('key', spec)": "imharness.running.executor.TaskResult",
    "spec.components['metric']": "imharness.results.identity.ComponentRef",
    "leaderboard.tables[0].rows[0].values['score'].value": "float | None",
}
"""Expression of a package -> the type that it gets from public modules."""
HEAD = """
import torch
from acme_executor import ThreadsOffer
from acme_threads import Threads
from imharness.extending import Executor, ExecutorOffer, TaskSpec, Worker
from imharness.images import FullReferenceMetric, Images
from imharness.leaderboard import Leaderboard
from imharness.tracks import Planner, Query, Selection, StepContext

def fits(threads: Threads) -> Executor:
    return threads

def offers(offer: ThreadsOffer) -> ExecutorOffer:
    return offer

def uses(context: StepContext, planner: Planner, selection: Selection, query: Query, worker: Worker, spec: TaskSpec,
         leaderboard: Leaderboard, device: torch.device, images: Images) -> None:
"""


INSIDE = (
    "torch._dynamo", "torch._export", "torch._functorch", "torch._higher_order_ops", "torch._inductor",
    "torch._library", "torch._native", "torch._numpy", "torch._prims", "torch._refs", "torch._subclasses", "torch.ao",
    "torch.distributed", "torch.distributions", "torch.export", "torch.fx", "torch.jit", "torch.masked", "torch.onnx",
    "torch.optim", "torch.package", "torch.profiler", "torch.quantization", "torch.testing", "torch.utils",
)  # fmt: skip
"""Inner modules of torch, half of what mypy would read; they are skipped, and a type from one of them is `Any`."""
SETTINGS = f"""[mypy]
strict = True
disallow_any_unimported = True

[mypy-{",".join(f"{module}.*" for module in INSIDE)}]
follow_imports = skip
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what mypy prints of the packages, of newly written ones, of all names of public modules, and of `USES`."""
    folder = tmp_path_factory.mktemp("others")
    (folder / "settings.ini").write_text(SETTINGS)
    (folder / "uses.py").write_text(HEAD + "".join(f"    reveal_type({use})\n" for use in USES))
    lines = [f"import imharness.{door}" for door in DOORS if door != "__init__"]
    lines += [f"reveal_type({name})" for name in offered()]
    (folder / "names.py").write_text("import imharness\n" + "\n".join(lines) + "\n")
    files = [str(ROOT / "tests" / "packages" / package) for package in PACKAGES]
    for kind in KINDS:  # a method may be called like its contract
        for name in (f"stranger/some-{kind}", f"stranger/{kind}"):
            files += map(str, write_package(kind, name, folder, "A").glob("*.py"))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "settings.ini",
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "third-party"),
        "uses.py",
        "names.py",
        *files,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def offered() -> list[str]:
    modules = ["imharness", *(f"imharness.{door}" for door in DOORS if door != "__init__")]
    names = {module: getattr(importlib.import_module(module), "__all__", ()) for module in modules}
    return [f"{module}.{name}" for module, module_names in names.items() for name in module_names]


def revealed(report: str, file: str) -> list[str]:
    return re.findall(rf'^{file}:\d+: note: Revealed type is "(.*)"$', report, re.M)


def test_packages_that_the_command_writes_have_no_type_error(report: str) -> None:
    assert f"no issues found in {len(PACKAGES) + 2 * len(KINDS) + 2} source files" in report


def test_no_name_of_a_door_is_any(report: str) -> None:
    types = dict(zip(offered(), revealed(report, "names.py"), strict=True))
    assert [name for name, type_name in types.items() if type_name == "Any"] == []
    assert len(types) > 200


def test_what_packages_get_from_doors_has_a_type(report: str) -> None:
    assert dict(zip(USES, revealed(report, "uses.py"), strict=True)) == USES
