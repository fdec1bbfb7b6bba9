"""The code of packages of others is part of the identity of results, however they are installed."""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from imharness.components.code import Code, code_of
from imharness.components.loading import load_plugins
from imharness.components.registry import Registry, build_registry, installed
from imharness.errors import HarnessError
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task

# A module with one metric; {imports} are lines at its top, {lazy} is a line in `build`.
METRIC = """
from imharness.images import MetricInfo, NoReferenceMetric, hookimpl
{imports}

class Mean(NoReferenceMetric):
    '''The mean.'''

    info = MetricInfo(id="acme/mean", version="1", bounds=(0.0, 1.0), higher_means="better_quality")

    def build(self, device):
        {lazy}
        return lambda x: x.mean((1, 2, 3)) * 1.0

@hookimpl
def components():
    return [Mean()]
"""
Layout = Callable[[Path, Path], None]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def metric(imports: str = "", lazy: str = "pass") -> str:
    return METRIC.format(imports=imports, lazy=lazy)


def wheel(site: Path, files: dict[str, str], entry: str) -> None:
    """Lay out what an installer makes of a wheel."""
    for name, text in files.items():
        write(site / name, text)
    write(site / "acme_x-1.0.dist-info" / "RECORD", "".join(f"{name},,\n" for name in files))
    describe(site, entry)


def editable(site: Path, project: Path, files: dict[str, str], entry: str, top: str = "") -> None:
    """Lay out what an installer makes of a project that is installed editable; `top` is its folder of sources."""
    for name, text in files.items():
        write(project / name, text)
    write(site / "_acme_x.pth", f"{project / top}\n")
    facts = site / "acme_x-1.0.dist-info"
    write(facts / "direct_url.json", json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}}))
    write(facts / "RECORD", "_acme_x.pth,,\nacme_x-1.0.dist-info/direct_url.json,,\n")
    describe(site, entry)


def describe(site: Path, entry: str, further: str = "") -> None:
    """Write the metadata of acme-x; `entry` is the value of its entry point, `further` are more lines of METADATA."""
    facts = site / "acme_x-1.0.dist-info"
    write(facts / "METADATA", f"Metadata-Version: 2.1\nName: acme-x\nVersion: 1.0\n{further}")
    write(facts / "entry_points.txt", f"[imharness]\nacme_x = {entry}\n")


class Machine:
    """A machine with a folder of installed packages, and a folder in which people develop."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.site, self.project, self.patch = folder / "site-packages", folder / "project", patch
        self.site.mkdir()
        patch.syspath_prepend(str(self.site))

    def start(self, *paths: Path) -> Registry:
        """Return the registry of a process that starts now, with further folders on its path."""
        for path in paths:
            self.patch.syspath_prepend(str(path))
        for name in [name for name in sys.modules if name.startswith("acme")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        points = self.distribution().entry_points
        return build_registry(load_plugins(points))

    def distribution(self) -> PathDistribution:
        return PathDistribution(self.site / "acme_x-1.0.dist-info")

    def version(self, *paths: Path) -> str:
        registry = self.start(*paths)
        assert registry.failures == []
        return registry.version("metric", "acme/mean")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    installed()  # is cached now, before packages are written to the folder
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Machine(tmp_path, monkeypatch)
    for name in [name for name in sys.modules if name.startswith("acme")]:
        del sys.modules[name]


def changed(machine: Machine, path: Path, text: str, *paths: Path) -> bool:
    """Write a text to a file, return whether that changes the version of the metric, and restore the file.

    `paths` are further folders on the path of Python.
    """
    before, content = machine.version(*paths), path.read_bytes() if path.exists() else None
    write(path, text)
    after = machine.version(*paths)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert machine.version(*paths) == before
    return after != before


def test_an_edited_file_of_a_wheel_is_another_code(machine: Machine) -> None:
    files = {"acme_x/__init__.py": metric(), "acme_x/deep/tool.py": "", "acme_x/table.csv": "1,2\n"}
    wheel(machine.site, files, "acme_x")
    version = machine.version()
    assert version.startswith("1+")
    for name in files:
        assert changed(machine, machine.site / name, files[name] + "\n# edited\n"), name
    assert changed(machine, machine.site / "acme_x" / "new.py", "")
    assert not changed(machine, machine.site / "acme_x" / "__pycache__" / "tool.cpython-311.pyc", "bytes")
    assert not changed(machine, machine.site / "acme_x" / ".DS_Store", "bytes")
    assert not changed(machine, machine.site / "other.py", "")


@pytest.mark.parametrize("entry", ["acme_x", "acme_x:components", "acme_x:plugin", "acme_x.inner:plugin [extra]"])
def test_an_entry_point_names_a_module_or_an_attribute(machine: Machine, entry: str) -> None:
    text = metric() + "\nimport types\nplugin = types.SimpleNamespace(components=components)\n"
    files = {"acme_x/__init__.py": text, "acme_x/inner.py": text}
    wheel(machine.site, files if "inner" in entry else {"acme_x.py": text}, entry)
    (path,) = machine.site.glob("acme_x/__init__.py" if "inner" in entry else "acme_x.py")
    assert changed(machine, path, text.replace("* 1.0", "* 0.5"))


@pytest.mark.parametrize("top", ["", "src"])
@pytest.mark.parametrize("name", ["acme_x.py", "acme_x/__init__.py"])
def test_an_editable_package_counts_by_its_tree_of_sources(machine: Machine, top: str, name: str) -> None:
    files = {
        f"{top}/{name}".lstrip("/"): metric(lazy="import acme_core.tool"),
        f"{top}/acme_core/__init__.py".lstrip("/"): "from acme_more import thing\n",
        f"{top}/acme_core/tool.py".lstrip("/"): "",
        f"{top}/acme_more.py".lstrip("/"): "thing = 1\n",
        "tests/test_acme.py": "import acme_x\n",
        "draw_figures.py": "import acme_x\n",
        "store/tasks/ab/record.json": "{}",
    }
    editable(machine.site, machine.project, files, "acme_x", top)
    folder = machine.project / top
    for file in files:
        counts = file.endswith(name) or "acme_core" in file or "acme_more" in file
        assert changed(machine, machine.project / file, files[file] + "\n", folder) == counts, file
    assert not changed(machine, machine.project / "store" / "rows.parquet", "rows", folder)


def test_a_library_that_is_developed_beside_the_plugin_counts_and_an_installed_one_by_its_version(
    machine: Machine, tmp_path: Path
) -> None:
    wheel(machine.site, {"acme_x.py": metric("import acme_lib, acme_installed")}, "acme_x")
    describe(machine.site, "acme_x", "Requires-Dist: acme-installed>=1\nRequires-Dist: torch\n")
    write(tmp_path / "library" / "acme_lib" / "__init__.py", "from . import inner\n")
    write(tmp_path / "library" / "acme_lib" / "inner.py", "")
    write(machine.site / "acme_installed.py", "")
    facts = machine.site / "acme_installed-1.0.dist-info" / "METADATA"
    write(facts, "Metadata-Version: 2.1\nName: acme-installed\nVersion: 1.0\n")
    folder = tmp_path / "library"
    assert changed(machine, folder / "acme_lib" / "inner.py", "value = 1\n", folder)
    assert not changed(machine, machine.site / "acme_installed.py", "# another text, the same version\n", folder)
    assert changed(machine, facts, "Metadata-Version: 2.1\nName: acme-installed\nVersion: 1.1\n", folder)


def test_the_code_that_is_imported_counts_where_it_lies_before_the_installed_one(machine: Machine) -> None:
    wheel(machine.site, {"acme_x.py": metric()}, "acme_x")
    write(machine.project / "acme_x.py", metric().replace("* 1.0", "* 0.5"))
    assert machine.version() != machine.version(machine.project)
    assert changed(machine, machine.project / "acme_x.py", metric().replace("* 1.0", "* 0.1"), machine.project)


def test_a_wheel_and_an_editable_install_of_the_same_sources_are_one_code(machine: Machine, tmp_path: Path) -> None:
    files = {"acme_x/__init__.py": metric(), "acme_x/table.csv": "1\n"}
    wheel(machine.site, files, "acme_x")
    version = machine.version()
    other = Machine(tmp_path / "other", machine.patch) if (tmp_path / "other").mkdir() is None else None
    assert other is not None
    editable(other.site, other.project, files, "acme_x")
    assert other.version(other.project) == version


def test_a_link_to_a_folder_counts_and_a_circle_ends(machine: Machine, tmp_path: Path) -> None:
    wheel(machine.site, {"acme_x/__init__.py": metric()}, "acme_x")
    write(tmp_path / "weights" / "w.bin", "1")
    (machine.site / "acme_x" / "weights").symlink_to(tmp_path / "weights")
    (tmp_path / "weights" / "back").symlink_to(machine.site / "acme_x")
    assert changed(machine, tmp_path / "weights" / "w.bin", "2")


def test_a_package_without_files_that_can_be_read_is_left_out(machine: Machine) -> None:
    describe(machine.site, "acme_nowhere")
    registry = machine.start()
    assert [failure.reason for failure in registry.failures] == [
        "no file of acme_nowhere can be read; unpack it, or install it with pip"
    ]


def beside(registry: Registry) -> Registry:
    """Return the installed components with those of a registry."""
    assert registry.failures == []
    return installed().joined(registry.entries.values())


def plan(registry: Registry) -> Graph:
    select = {
        "dataset": ["severity-ladder[size=96]"],
        "metric": ["acme/mean"],
        "attack": ["ifgsm"],
        "defense": ["none"],
    }
    profile = Profile(name="test", description="", tracks={"harness/iqa": {"select": select}})
    return plan_track("harness/iqa", profile, registry, limit=2)


def test_tasks_of_changed_code_have_other_keys_and_those_without_it_the_same(machine: Machine) -> None:
    wheel(machine.site, {"acme_x.py": metric()}, "acme_x")
    before = plan(beside(machine.start()))
    write(machine.site / "acme_x.py", metric().replace("* 1.0", "* 0.5"))
    after = plan(beside(machine.start()))
    shared = before.tasks.keys() & after.tasks.keys()
    assert {task.address for task in before.tasks.values()} == {task.address for task in after.tasks.values()}
    uses = {key: "metric" in task.spec.components for key, task in before.tasks.items()}
    assert shared == {key for key, used in uses.items() if not used}
    assert any(uses.values())
    assert not any("+" in ref.version for key in shared for ref in before.tasks[key].spec.components.values())


def test_code_that_changed_after_its_import_is_not_planned_with(machine: Machine) -> None:
    wheel(machine.site, {"acme_x.py": metric()}, "acme_x")
    registry = beside(machine.start())
    plan(registry)
    write(machine.site / "acme_x.py", metric() + "# edited\n")
    with pytest.raises(HarnessError, match=r"^acme_x.py of acme-x changed after this process had imported it"):
        plan(registry)


def test_a_worker_with_other_code_than_the_plan_computes_nothing(machine: Machine, tmp_path: Path) -> None:
    import torch

    wheel(machine.site, {"acme_x.py": metric()}, "acme_x")
    graph = plan(beside(machine.start()))
    key, task = next((key, task) for key, task in graph.tasks.items() if task.spec.step == "clean")

    def computed() -> str:
        cache = BuildCache(beside(machine.start()), Store(tmp_path / "store"), torch.device("cpu"), 8)
        cache.store.prepare()
        record = run_task(cache, key, task.spec, lambda done, total: None)
        assert record is not None
        return record.failure.message if record.failure else record.status

    assert computed() == "done"
    write(machine.site / "acme_x.py", metric().replace("* 1.0", "* 0.5"))
    assert "acme/mean was planned with other code of acme-x than is imported here" in computed()


def test_a_large_package_is_read_once_and_a_digest_costs_nothing_afterwards(machine: Machine) -> None:
    wheel(machine.site, {"acme_x/__init__.py": metric(), "acme_x/weights.bin": "0" * 4_000_000}, "acme_x")
    machine.patch.syspath_prepend(str(machine.site))
    code: Code = code_of(machine.distribution())
    first = code.digest
    os.truncate(machine.site / "acme_x" / "weights.bin", 0)
    assert code.digest == first
    with pytest.raises(HarnessError, match="changed after"):
        code.check()
