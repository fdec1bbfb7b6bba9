"""A package that cannot be used is named with the reason and left out; the rest goes on.

The packages acme-... that tests install lie in tests/packages.
"""

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from imharness.components.loading import hook_of, load_plugins
from imharness.components.registry import build_registry
from imharness.tracks import hookimpl


def reasons(points: list[EntryPoint]) -> dict[str, str]:
    """Return the failures of loading these entry points, in their order."""
    registry = build_registry(load_plugins(points))
    return {f"{failure.name} {i}": failure.reason for i, failure in enumerate(registry.failures)}


@pytest.mark.parametrize(
    ("package", "fragment"),
    [
        ("acme-broken", "No module named 'no_such_package_anywhere'"),
        ("acme-misspelt", "no hook is called 'component'. Did you mean 'components'?"),
        ("acme-signature", "wrong signature"),
        ("acme-future", "made for API version 9.0"),
    ],
)
def test_a_broken_package_is_named_and_the_good_one_stays(install_packages, package: str, fragment: str) -> None:
    points = install_packages(package, "acme-median-smoothing")
    registry = build_registry(load_plugins(points))
    assert [f.name for f in registry.failures] == [f"{package}:{package.replace('-', '_')}"]
    assert fragment in registry.failures[0].reason
    assert [c.label for c in registry.of_kind("defense")] == [
        "acme/median-smoothing",
        "acme/median-smoothing[radius=2]",
    ]


def test_same_entry_point_name_in_two_packages_loads_both_and_a_second_label_is_refused(install_packages) -> None:
    registry = build_registry(load_plugins(install_packages("acme-median-smoothing", "acme-twin")))
    assert {f.name for f in registry.failures} == {"acme-twin:acme_twin"}
    assert "already registered by acme-median-smoothing:acme_median_smoothing" in registry.failures[0].reason
    assert len(registry.of_kind("defense")) == 2


def test_an_entry_point_declared_twice_is_named(install_packages) -> None:
    (point,) = install_packages("acme-median-smoothing")
    other = EntryPoint("median-smoothing", "no_such_module", "imharness")
    vars(other)["dist"] = point.dist
    registry = build_registry(load_plugins([point, other]))
    assert ["declared twice" in f.reason for f in registry.failures] == [True]
    assert registry.of_kind("defense")


def test_wrong_metadata_leaves_out_the_component_alone(install_packages) -> None:
    registry = build_registry(load_plugins(install_packages("acme-metadata")))
    assert [c.label for c in registry.of_kind("defense")] == ["acme/identity"]
    text = "\n".join(f.reason for f in registry.failures)
    assert "WrongInfo.info must be a DefenseInfo, got Info" in text
    assert "Undocumented has no docstring" in text
    assert "Uncited cites paper='nobody1999', which is not in acme_metadata/papers.toml." in text
    assert "Identity (a class: return an instance)" in text
    assert "'a string'" in text


def test_order_of_discovery_does_not_matter(install_packages) -> None:
    points = install_packages("acme-median-smoothing", "acme-twin", "acme-broken")
    assert reasons(points) == reasons(points[::-1])


def test_provenance_comes_from_the_package(install_packages) -> None:
    registry = build_registry(load_plugins(install_packages("acme-median-smoothing")))
    entry = registry.provenance(registry.one("defense", "acme/median-smoothing"))
    assert (entry.provenance.distribution, entry.provenance.author, entry.provenance.licence) == (
        "acme-median-smoothing",
        "The image-privacy-harness authors",
        "MIT",
    )


def test_a_module_is_imported_for_the_hook_that_its_entry_point_names_alone(install_packages, monkeypatch) -> None:
    points = install_packages("acme-hooks")
    modules = ("acme_lines", "acme_always", "acme_check")
    for module in modules:
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert load_plugins(points).plugins == []
    checks = load_plugins(points, hook="doctor")
    assert [checks.ask(plugin) for plugin in checks.plugins] == [[{"acme licence": "none"}]]
    assert [module for module in modules if module in sys.modules] == ["acme_check"]


@pytest.mark.parametrize(
    ("entry", "hook", "message"),
    [
        ("acme.doctr", "components", "the entry point 'acme.doctr': no hook is called 'doctr'. Did you mean 'doctor'?"),
        ("acme.listeners", "listeners", "does not implement the hook; write a function listeners() and mark it"),
        ("acme.doctor", "doctor", "implements standings(), but no entry point says so; add NAME.standings = "),
    ],
)
def test_an_entry_point_and_its_module_name_the_same_hooks(entry: str, hook: str, message: str, monkeypatch) -> None:
    module = ModuleType("acme_checks")
    for name in ("doctor", "standings"):
        exec(f"def {name}(): return {{}}", vars(module))
        hookimpl(getattr(module, name))
    monkeypatch.setitem(sys.modules, "acme_checks", module)
    (failure,) = load_plugins([EntryPoint(entry, "acme_checks", "imharness")], hook=hook).failures
    assert message in failure.reason
    both = [EntryPoint(f"acme.{name}", "acme_checks", "imharness") for name in ("doctor", "standings")]
    for name in ("doctor", "standings"):
        assert len(load_plugins(both, hook=name).plugins) == 1


def test_there_are_four_groups_of_entry_points() -> None:
    """Every other way to add to the harness is a hook."""
    read = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["entry-points"]
    assert set(read) - {"pytest11"} == {"imharness", "imharness.commands", "imharness.executors", "imharness.notebook"}
    hooks = {hook for hook in vars(load_plugins([]).manager.hook) if not hook.startswith("_")}
    assert {hook_of(entry) for entry in read["imharness"]} <= hooks
