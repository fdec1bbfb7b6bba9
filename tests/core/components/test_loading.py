"""A package that cannot be used is named with the reason and left out; the rest goes on."""

from importlib.metadata import EntryPoint

import pytest

from imharness.components.loading import load_plugins
from imharness.components.registry import build_registry


def reasons(points: list[EntryPoint]) -> dict[str, str]:
    registry = build_registry(load_plugins(points))
    return {f"{failure.name} {i}": failure.reason for i, failure in enumerate(registry.failures)}


@pytest.mark.parametrize(
    ("package", "part"),
    [
        ("acme-broken", "No module named 'no_such_package_anywhere'"),
        ("acme-misspelt", "no hook is called 'component'. Did you mean 'components'?"),
        ("acme-signature", "wrong signature"),
        ("acme-future", "made for API version 9.0"),
    ],
)
def test_a_broken_package_is_named_and_the_good_one_stays(install_packages, package: str, part: str) -> None:
    points = install_packages(package, "acme-median-smoothing")
    registry = build_registry(load_plugins(points))
    assert [f.name for f in registry.failures] == [f"{package}:{package.replace('-', '_')}"]
    assert part in registry.failures[0].reason
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
