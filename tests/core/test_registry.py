"""Names: by id, by label, by parameters; unknown ones get a suggestion."""

import pytest

from harness.errors import UsageError
from harness.loading import load_plugins
from harness.registry import Registry, build_registry


@pytest.fixture
def registry(install_packages) -> Registry:
    return build_registry(load_plugins(install_packages("acme-smoothing")))


def test_an_id_means_all_its_labels_and_one_means_the_plain(registry: Registry) -> None:
    assert len(registry.find("defense", "median-smoothing")) == 2
    assert registry.one("defense", "acme/median-smoothing").label == "acme/median-smoothing"


def test_parameters_start_from_the_defaults_of_the_class(registry: Registry) -> None:
    found = registry.one("defense", "median-smoothing[radius=3]")
    assert (found.label, found.radius) == ("acme/median-smoothing[radius=3]", 3)
    assert registry.one("defense", "median-smoothing[]").radius == 1


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("median-smoothin", "Did you mean"),
        ("median-smoothing[radius=0]", "greater than or equal to 1"),
        ("median-smoothing[radus=2]", "radus"),
        ("median-smoothing[radius]", "cannot read parameter"),
        ("", "no defense"),
    ],
)
def test_a_wrong_name_is_explained(registry: Registry, name: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        registry.find("defense", name)


def test_a_component_comes_back_from_its_reference(registry: Registry) -> None:
    component = registry.one("defense", "median-smoothing[radius=2]")
    assert registry.revive(component.ref()) == component
