"""The import rules hold, and each would catch the import it forbids. Rules stand in pyproject.toml."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter import Contract, ContractCheck
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("core", "plugins", "leaderboard", "submissions")
TYPES: dict[str, type[Contract]] = {
    "forbidden": ForbiddenContract,
    "layers": LayersContract,
    "protected": ProtectedContract,
}
PUBLIC = {f"imharness.{name}" for name in ("images", "gradients", "membership", "data", "tracks", "stats")}
CONFIGURATION = read_configuration(str(ROOT / "pyproject.toml"))
RULES: dict[str, dict[str, Any]] = {rule["name"]: rule for rule in CONFIGURATION["contracts_options"]}
STACK = "Data flows one way through the core"
PACKAGES = "The core imports blocks, statistics and readers alone, and packages beside it do not import each other"
PLUGINS = "Plugins import the public modules of the core only"
LEADERBOARD = "The leaderboard reads results and rankings, nothing else of the core"
TORCH = "Results, rankings, plans and the leaderboard load no torch"


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return grimp.build_graph(
        *options["root_packages"], include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def check(graph: grimp.ImportGraph, name: str, *planted: tuple[str, str]) -> ContractCheck:
    """Return what a rule says of the graph with more imports in it."""
    changed = copy.deepcopy(graph)
    for importer, imported in planted:
        changed.add_import(importer=importer, imported=imported, line_number=1, line_contents=f"import {imported}")
    options = {key: value for key, value in RULES[name].items() if key not in ("name", "type")}
    rule = TYPES[RULES[name]["type"]](name, CONFIGURATION["session_options"], options)
    return rule.check(changed, verbose=False)


def texts(value: object) -> Iterator[str]:
    """Yield every text inside what a rule found."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from texts(item)
    elif hasattr(value, "__dict__"):
        yield from texts(vars(value))
    else:
        yield str(value)


@pytest.mark.parametrize("name", RULES)
def test_the_rule_holds(graph: grimp.ImportGraph, name: str) -> None:
    found = check(graph, name)
    assert found.kept, found.metadata


def test_every_package_of_the_tree_is_checked(graph: grimp.ImportGraph) -> None:
    packages = {file.parent.name for part in PARTS for file in (ROOT / part).glob("*/__init__.py")}
    layers = {name.strip() for layer in RULES[PACKAGES]["layers"] for name in layer.split("|")}
    assert packages == layers == {name for name in graph.modules if name.startswith("imharness") and "." not in name}


def test_a_plugin_may_import_no_private_module_whatever_it_is_called(graph: grimp.ImportGraph) -> None:
    folder = ROOT / "core"
    packages = ("imharness", "imharness_cli", "imharness_statistics", "imharness_training")
    files = (file.relative_to(folder).with_suffix("") for name in packages for file in (folder / name).rglob("*.py"))
    modules = {".".join(file.parts).removesuffix(".__init__") for file in files}
    private = modules - PUBLIC - {"imharness_training.contracts"}
    assert len(private) > 50
    planted = [("imharness_iqa.track", module) for module in sorted(modules)]
    found = check(graph, PLUGINS, *planted)
    refused = set(texts(found.metadata)) & modules
    assert refused == private


@pytest.mark.parametrize(
    ("rule", "importer", "imported"),
    [
        (STACK, "imharness.planning.plan", "imharness.running.device"),
        (STACK, "imharness.components.registry", "imharness.contracts.track"),
        (STACK, "imharness.ranking.tables", "imharness.components.registry"),
        (STACK, "imharness.results.store", "imharness.images"),
        (PACKAGES, "imharness.results.store", "imharness_leaderboard.pages"),
        (PACKAGES, "imharness.running.local", "imharness_cli.console"),
        (PACKAGES, "imharness_statistics.wilcoxon", "imharness.errors"),
        (PACKAGES, "imharness_files.opening", "imharness.errors"),
        (PACKAGES, "imharness_files.tables", "imharness_statistics.ranks"),
        (PACKAGES, "imharness.running.local", "imharness_conformance.audit"),
        (PACKAGES, "imharness_conformance.audit", "imharness_submissions.ledger"),
        (PACKAGES, "imharness_iqa.track", "imharness_perceptual.track"),
        (PLUGINS, "imharness_iqa.track", "imharness_training.checkpoints"),
        (PLUGINS, "imharness_vision.weights", "imharness_conformance.audit"),
        (PLUGINS, "imharness_iqa.track", "imharness_cli.commands"),
        (PLUGINS, "imharness_iqa.track", "imharness_errors"),
        (LEADERBOARD, "imharness_leaderboard.pages", "imharness.tracks"),
        (LEADERBOARD, "imharness_leaderboard.pages", "imharness.components.registry"),
        (TORCH, "imharness_leaderboard.pages", "torch"),
        (TORCH, "imharness.results.identity", "torch"),
        (TORCH, "imharness.ranking.tables", "imharness.randomness"),
    ],
)
def test_a_planted_import_is_refused(graph: grimp.ImportGraph, rule: str, importer: str, imported: str) -> None:
    found = check(graph, rule, (importer, imported))
    assert not found.kept
    assert {importer, imported} <= set(texts(found.metadata))


def test_a_module_without_a_layer_is_refused(graph: grimp.ImportGraph) -> None:
    changed = copy.deepcopy(graph)
    changed.add_module("imharness.attic")
    assert "attic" in " ".join(texts(check(changed, STACK).metadata))
