"""The cached list of components is that of this environment: it is written anew when packages change."""

import importlib.metadata
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import Harness

from imharness.cli import index as indexing
from imharness.cli.index import Index, LeftOut, Listed, cache_folder, index, registry_for
from imharness.components.registry import Registry, installed
from imharness.contracts.component import KINDS, Component
from imharness.errors import UsageError

PACKAGE = "counted_plugins"


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Install a plugin package, empty the cache, and return a list with one number: how often plugins were imported.

    The only component of the list that an import makes is labelled with the number so far, such as "[2]".
    """
    packages, count = tmp_path / "packages", [0]
    (packages / PACKAGE / "data").mkdir(parents=True)
    (packages / PACKAGE / "__init__.py").write_text("")
    (packages / PACKAGE / "data" / "presets.toml").write_text("a = 1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])
    point = importlib.metadata.EntryPoint("counted", f"{PACKAGE}.module", "imharness")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])

    def fake() -> Index:
        count[0] += 1
        return Index(components=(Listed(kind="attack", label=str(count), summary="", distribution="", plugin=""),))

    monkeypatch.setattr(indexing, "_imported", fake)
    return count


def test_nothing_is_imported_again_while_nothing_changes(imported: list[int], tmp_path: Path) -> None:
    assert index() == index()
    (tmp_path / "packages" / PACKAGE / "__pycache__").mkdir()
    (tmp_path / "packages" / PACKAGE / "__pycache__" / "module.pyc").write_text("byte code")
    assert index() == index()
    assert imported == [1]


@pytest.mark.parametrize(
    "file",
    [f"{PACKAGE}/new.py", f"{PACKAGE}/__init__.py", f"{PACKAGE}/data/presets.toml", "scipy-2.0.dist-info/METADATA"],
)
def test_a_change_of_a_plugin_or_of_what_is_installed_is_seen(imported: list[int], tmp_path: Path, file: str) -> None:
    before = index()
    path = tmp_path / "packages" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("a = 22")
    assert index() != before
    assert imported == [2]


def test_a_damaged_list_is_made_anew(imported: list[int]) -> None:
    index()
    (path,) = cache_folder().iterdir()
    path.write_text(path.read_text()[:-9])
    index()
    assert (imported, index().components[0].label) == ([2], "[2]")


def test_nothing_is_kept_where_a_plugin_was_left_out(imported: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Index(components=(), left_out=(LeftOut(name="acme:broken", reason="a library is missing"),))
    monkeypatch.setattr(indexing, "_imported", lambda: broken)
    assert index() == broken
    assert not cache_folder().exists()


def test_a_folder_that_cannot_be_written_costs_only_time(imported: list[int], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert (index().components[0].label, index().components[0].label) == ("[1]", "[2]")


def test_the_list_is_that_of_the_registry_and_the_second_needs_no_torch(
    tmp_path: Path, harness_forked: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys\nfrom imharness.cli.index import index\nprint(index())\nprint('torch' in sys.modules)"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = harness_forked("-c", code, cwd=tmp_path)
    second = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    outputs = [one.stdout.splitlines() for one in (first, second)]
    assert outputs[0][0] == outputs[1][0]
    assert "harness/jpeg" in outputs[0][0]
    assert outputs[1][1] == "False"


@pytest.mark.parametrize("name", ["psnr", "harness/square", "lira[*]", "invgrad[steps=400]"])
def test_a_name_means_the_same_where_only_plugins_with_it_are_loaded(name: str) -> None:
    index()
    few, all_of_them = registry_for(name), installed()
    assert len(few.entries) < len(all_of_them.entries) / 10
    meant = {kind: _found(all_of_them, kind, name) for kind in KINDS}
    assert any(meant.values())
    assert {kind: _found(few, kind, name) for kind in KINDS} == meant
    assert all(few.provenance(one) == all_of_them.provenance(one) for several in meant.values() for one in several)


def test_an_unknown_name_is_answered_by_all_components(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry_for("sqare") is installed()
    gap = Index(components=index().components, left_out=(LeftOut(name="acme", reason="broken"),))
    monkeypatch.setattr(indexing, "index", lambda: gap)
    assert registry_for("psnr") is installed(), "what was left out may have the name, too"


def _found(registry: Registry, kind: str, name: str) -> list[Component]:
    with suppress(UsageError):
        return registry.find(kind, name)
    return []
