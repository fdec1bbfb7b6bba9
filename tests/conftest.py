"""Fixtures and hooks of all tests: threads, seeds, real data, plugin packages, the command line and a browser."""

import atexit
import contextlib
import gc
import importlib.metadata
import importlib.util
import io
import os
import py_compile
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.long import LONG
from tests.skipped import pytest_terminal_summary as pytest_terminal_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from playwright.sync_api import Browser
    from tests.standins import StandIns

if "PYTEST_XDIST_WORKER" in os.environ:
    # Registered first, so that it runs last: it ends a worker at once, because to release all imported modules takes
    # 2 CPU seconds.
    atexit.register(os._exit, 0)
# One thread for each process: there are more processes than cores, so that more threads would only wait.
os.environ["OMP_NUM_THREADS"] = "1"
# Keep compiled modules even where the shell forbids it: many tests start processes, and each would compile every
# library anew. For the same reason large libraries are imported below this line.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Compile what was imported above this line and by plugins of pytest: a guest process would compile 78 files.
for _module in list(sys.modules.values()):
    _source, _kept = getattr(_module, "__file__", None) or "", getattr(_module, "__cached__", None)
    if _source.endswith(".py") and _kept and not os.path.exists(_kept):
        with contextlib.suppress(OSError, py_compile.PyCompileError):
            py_compile.compile(_source)
# Where torch is not compiled yet, as in a new environment, workers import large libraries in different orders: each
# compiles another library first, and finds the rest compiled by the others.
_LARGE = ("torch", "scipy.stats", "sympy", "pandas", "playwright.sync_api")
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
_torch = importlib.util.find_spec("torch") if _worker else None
if _torch and _torch.cached and not os.path.exists(_torch.cached):
    _first = int(_worker.removeprefix("gw")) % 3
    for _name in _LARGE[_first:] + _LARGE[:_first]:
        importlib.import_module(_name)
gc.disable()  # until all tests are imported, which makes no garbage

PATIENT_MS = 120_000
"""How long a page may take until it shows what a test waits for, ms: a slow machine is no failure."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
"""Lets Chromium reach this machine alone. Intercepting requests would do so, too, but turns off its cache."""
PACKAGES = Path(__file__).parent / "packages"
TEMPLATE = Path(__file__).resolve().parents[1] / "submissions" / "_template"
"""The package acme-median-smoothing: what `harness plugins new` writes."""
MOST_WORKERS = 12
"""The most processes that run tests: each takes about 1 GB of memory."""
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Where real data are, beside the repository, unless HARNESS_TEST_DATA names another folder."""


def pytest_configure() -> None:
    """Tell hypothesis that a slow machine is no failure."""
    from hypothesis import HealthCheck, settings

    settings.register_profile("harness", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("harness")


def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes run tests: half as many again as cores, so that no core is idle while tests wait."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + (cores + 1) // 2, MOST_WORKERS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first in the share of each worker: what workers take from each other at the end is short.

    The scheduler `worksteal` cuts the list into one share for each worker, and takes tests from the end of a share.
    """
    workers, remaining = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), list(items)
    items.clear()
    for remaining_workers in range(workers, 0, -1):
        size = len(remaining) // remaining_workers
        chunk, remaining = remaining[:size], remaining[size:]
        items += sorted(chunk, key=lambda item: not item.nodeid.startswith(LONG))


def pytest_collection_finish() -> None:
    """Turn the garbage collector on, but not for what was imported: processes that are forked then share its memory."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # libraries count the objects that remain at the end
    gc.enable()


def seed_global_generators() -> None:
    """Seed the global generators of Python, NumPy and torch, whose first seeds are otherwise drawn from the system."""
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    """Let a fixture draw the same numbers whatever ran before it."""
    seed_global_generators()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Let a test draw the same numbers whatever ran before it, and wherever it runs."""
    seed_global_generators()


@pytest.fixture(autouse=True, scope="module")
def _as_many_threads() -> Iterator[None]:
    """Fail a module that leaves torch with more than one thread, which would slow all tests after it."""
    yield
    if torch := sys.modules.get("torch"):
        assert torch.get_num_threads() == 1, f"{torch.get_num_threads()} threads of torch are left to other modules"


@pytest.fixture(autouse=True, scope="session")
def _unflushed() -> Iterator[None]:
    """Turn `os.fsync` off: tests write thousands of files, and would wait for the disk at each.

    Tests of flushing replace `os.fsync` by functions of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data; tests that need it skip without it."""
    folder = Path(os.environ.get("HARNESS_TEST_DATA", SHARED))
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder}; set HARNESS_TEST_DATA")
    return folder


@pytest.fixture
def assets_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let components find the real weights and parameters, where this machine has them."""
    folder = Path(os.environ.get("HARNESS_TEST_DATA", SHARED))
    if folder.is_dir():
        monkeypatch.setenv("HARNESS_ASSETS", str(folder))


@pytest.fixture(scope="module")
def stand_ins() -> Iterator["StandIns"]:
    """Random files in the layout of published weights and data sets, for the tests of a module."""
    from tests.standins import StandIns

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        yield StandIns(Path(folder), patch)


def install(folder: Path, *names: str) -> Path:
    """Install packages, names in tests/packages or paths, into a folder as an installer does: modules and metadata."""
    for name in names:
        source = TEMPLATE if name == "acme-median-smoothing" else PACKAGES / name
        project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
        for module in source.glob("*.py"):
            shutil.copy(module, folder)
        for init in source.glob("*/__init__.py"):
            shutil.copytree(init.parent, folder / init.parent.name)
        facts = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        facts.mkdir(parents=True)
        lines = [
            "Metadata-Version: 2.4",
            f"Name: {project['name']}",
            f"Version: {project['version']}",
            f"Author: {project['authors'][0]['name']}",
            f"License-Expression: {project['license']}",
        ]
        (facts / "METADATA").write_text("\n".join(lines) + "\n")
        groups = [
            "\n".join([f"[{group}]", *(f"{point} = {value}" for point, value in points.items())])
            for group, points in project["entry-points"].items()
        ]
        (facts / "entry_points.txt").write_text("\n".join([*groups, ""]))
    return folder


Install = Callable[..., list[importlib.metadata.EntryPoint]]


@pytest.fixture
def install_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs packages of tests/packages and returns their entry points."""

    def entry_points(*names: str) -> list[importlib.metadata.EntryPoint]:
        folder = tmp_path / "site-packages"
        folder.mkdir(exist_ok=True)
        install(folder, *names)
        monkeypatch.syspath_prepend(str(folder))
        return [p for d in importlib.metadata.distributions(path=[str(folder)]) for p in d.entry_points]

    return entry_points


def with_packages(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Install packages below a folder; return the environment variable that lets a process find them."""
    site_packages = folder / "site-packages"
    if names and not site_packages.exists():
        site_packages.mkdir()
        install(site_packages, *names)
    return {"PYTHONPATH": str(site_packages)} if names else {}


Harness = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def harness() -> Harness:
    """Return a function that runs the command line in a process of its own, with further packages if wanted."""

    def run(*words: str, cwd: Path, packages: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ) | with_packages(cwd, packages)
        command = [sys.executable, "-c", "from imharness.cli import main; main()", *words]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=400, check=False
        )

    return run


@pytest.fixture(scope="session")
def harness_forked() -> Iterator[Harness]:
    """Return a function like `harness` that forks a process which has imported the harness; it takes `-c CODE`, too."""
    from tests.forking import Server

    server = Server()

    def run(*words: str, cwd: Path, packages: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        environment = with_packages(cwd, packages)
        return server.run(words, cwd, dict(os.environ) | environment, list(environment.values()), 400)

    yield run
    server.close()


@pytest.fixture(scope="session")
def harness_here() -> Harness:
    """Return a function that runs the command line in this process, for tests that need no process of their own."""
    from imharness.cli import main

    def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        out, errors = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
            # A process would only print warnings, which pytest turns into errors.
            warnings.catch_warnings(action="ignore"),
        ):
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["harness", *words])
            with pytest.raises(SystemExit) as ended:
                main()
        return subprocess.CompletedProcess(words, int(ended.value.code or 0), out.getvalue(), errors.getvalue())

    return run


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """The system's headless Chromium; tests that need it skip without one."""
    from playwright.sync_api import expect, sync_playwright

    executable = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if executable is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    expect.set_options(timeout=PATIENT_MS)
    with sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu", NOWHERE_ELSE]
        )
        yield launched
        launched.close()


@contextlib.contextmanager
def few_resamples() -> Iterator[None]:
    """Use 300 resamples, fewer than a leaderboard: enough for means over studies and for entries far apart."""
    from imharness.documents import pairwise
    from imharness.statistics.differences import differences

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairwise, "differences", partial(differences, resamples=300))
        yield


@contextlib.contextmanager
def without_site() -> Iterator[None]:
    """Leave out the site of runs in this process, where tests read the store alone."""
    from imharness_leaderboard.pages import Built

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("imharness_leaderboard.pages.build_site", lambda address, site: Built(0, ()))
        yield


@pytest.fixture
def no_site() -> Iterator[None]:
    """Leave out the site of runs in this process, where a test reads the store alone."""
    with without_site():
        yield


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> "list[Figure]":
    """The figures that a test writes, in order: they hold the numbers that are drawn."""
    from matplotlib.figure import Figure

    written: list[Figure] = []
    write = Figure.savefig

    def savefig(figure: Figure, *words: Any, **options: Any) -> None:
        written.append(figure)
        write(figure, *words, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return written


@pytest.fixture
def empty_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the folders of assets and of the cache at new ones; return the folder that both are in."""
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path / "shelf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path
