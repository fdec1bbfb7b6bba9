"""Components are found by id, by label and with parameters; an unknown name gets a suggestion."""

import pytest

from imharness.components.loading import load_plugins
from imharness.components.registry import Registry, build_registry, installed
from imharness.errors import UsageError


@pytest.fixture
def registry(install_packages) -> Registry:
    return build_registry(load_plugins(install_packages("acme-median-smoothing")))


def test_an_id_means_all_its_labels_and_one_means_the_plain(registry: Registry) -> None:
    assert len(registry.find("defense", "median-smoothing")) == 2
    assert registry.one("defense", "acme/median-smoothing").label == "acme/median-smoothing"


def test_parameters_start_from_the_defaults_of_the_class(registry: Registry) -> None:
    defense = registry.one("defense", "median-smoothing[radius=3]")
    assert (defense.label, defense.radius) == ("acme/median-smoothing[radius=3]", 3)
    assert registry.one("defense", "median-smoothing[]").radius == 1


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("median-smoothin", "Did you mean"),
        ("median-smoothing[radius=0]", "greater than or equal to 1"),
        ("median-smoothing[radus=2]", "radus"),
        ("median-smoothing[radius]", "cannot read parameter"),
        ("", "no defense"),
    ],
)
def test_a_wrong_name_is_explained(registry: Registry, name: str, fragment: str) -> None:
    with pytest.raises(UsageError, match=fragment):
        registry.find("defense", name)


def test_a_component_comes_back_from_its_reference(registry: Registry) -> None:
    component = registry.one("defense", "median-smoothing[radius=2]")
    assert registry.revive(component.ref()) == component


def test_every_first_party_component_is_data_also_where_its_files_are_missing() -> None:
    for entry in installed().entries.values():
        assert installed().revive(entry.component.ref()) == entry.component


def test_a_star_in_brackets_means_the_parameter_study_and_a_colon_the_address() -> None:
    components = installed().find("defense", "jpeg[*]")
    assert [c.quality for c in components] == [10, 30, 50, 70, 90]
    assert {c.without_grid().label for c in components} == {"harness/jpeg"}
    assert [c.label for c in installed().find("defense", "flip[*]")] == ["harness/flip"]
    folder = installed().one("dataset", "folder:/some, odd[place]")
    assert folder.path == "/some, odd[place]"
    with pytest.raises(UsageError, match="no dataset is called"):
        installed().find("dataset", "severity-ladder:/x")


def test_files_behind_a_parameter_are_part_of_the_identity(tmp_path) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    first = dataset.ref().identity()
    Image.new("RGB", (9, 8)).save(tmp_path / "a.png")
    assert dataset.ref().identity() != first
    assert "content" not in installed().one("defense", "flip").ref().identity()
