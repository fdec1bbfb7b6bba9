"""Every published data set is imported and loaded in the layout of its publisher, and its labels are the right ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data_layouts import DATA_LAYOUTS, Item, colour

from imharness.components.inputs.checking import check_data
from imharness.components.inputs.importing import RECORD, digest_of, import_data
from imharness.components.inputs.needs import inputs_of
from imharness.components.registry import installed
from imharness.data import DataSource, ImageSet

CPU = torch.device("cpu")
USERS = {
    name: need
    for name, need in inputs_of(entry.component for entry in installed().entries.values()).items()
    if isinstance(need.what, DataSource)
}
FACTS = {"source", "scores", "labels", "units", "not-confirmed"}


@pytest.fixture
def imported(empty_places: Path) -> Callable[[str], Path]:
    """Return a function that imports a stand-in for a data set in the published layout, and returns its folder.

    Stand-ins differ from the published data set in the number of images or rows.
    """

    def take(name: str) -> Path:
        layout, source = DATA_LAYOUTS[name], USERS[name].what
        files = layout.write(empty_places / "got")
        assert {archive.file for archive in source.archives} <= {file.name for file in files}
        source = layout.of_stand_in(source)
        folder, digests = import_data(
            source, files, lambda: check_data(USERS[name].users, source), empty_places / "shelf"
        )
        assert all(digest_of(file) == digests[file.name] for file in files)
        assert all(digest in (folder / RECORD).read_text() for digest in digests.values())
        return folder

    return take


def test_every_data_set_has_a_layout_with_its_source() -> None:
    assert set(USERS) == set(DATA_LAYOUTS)
    for name, layout in DATA_LAYOUTS.items():
        assert layout.facts["source"], name
        assert layout.facts.keys() <= FACTS, name
        assert {"scores", "labels"} & layout.facts.keys(), name
        assert ("units" in layout.facts) == bool(USERS[name].what.units), name
        used = {user.info.id.partition("/")[2] for user in USERS[name].users}
        assert used == {item.dataset.partition("[")[0] for item in layout.items}, name


@pytest.mark.parametrize("name", DATA_LAYOUTS)
def test_files_in_the_layout_of_their_publisher_are_imported_and_read(
    name: str, imported: Callable[[str], Path]
) -> None:
    imported(name)
    for item in DATA_LAYOUTS[name].items:
        check(item)


def check(item: Item) -> None:
    """Compare columns and mean colour of an image, or class and first values of a row, with the expected ones."""
    data, facts = installed().one("dataset", item.dataset).build(CPU), dict(item.columns)
    if isinstance(data, ImageSet):
        position = data.names.index(item.name)
        if file := facts.pop("file", ""):
            mean = 255 * data.load([position])[0].mean((1, 2)).numpy()
            np.testing.assert_allclose(mean, colour(file), atol=6)
        values = {key: data.columns[key][position] for key in facts}
    else:
        position = int(item.name)
        first = [number(text) for text in facts.pop("values").split(",")]
        np.testing.assert_allclose(data.features[position].flatten()[: len(first)].numpy(), first, rtol=1e-6)
        values = {"label": data.labels[position].item(), "classes": data.classes}
    for key, wanted in facts.items():
        value = values[key]
        if isinstance(value, str):
            assert value == wanted, (item, key)
        else:
            assert float(value) == pytest.approx(number(wanted), rel=1e-6, nan_ok=True), (item, key)


def number(text: str) -> float:
    over, _, under = text.partition("/")
    return float(over) / float(under or 1)


def test_both_tables_of_koniq_give_the_same_scores(imported: Callable[[str], Path], empty_places: Path) -> None:
    """The other table has ratings from 1 to 5 in its column MOS."""
    folder, other = imported("koniq10k"), "koniq10k_scores_and_distributions.csv"
    koniq = installed().one("dataset", "koniq10k")
    first = koniq.build(CPU)
    (folder / "koniq10k_distributions_sets.csv").unlink()
    (empty_places / "got" / other).rename(folder / other)
    assert koniq.build(CPU).names == first.names
    np.testing.assert_array_equal(koniq.build(CPU).columns["mos"], first.columns["mos"])
