"""Packages that judge entries are asked by a hook; one that cannot be asked ends the making of tables."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from imharness.components import loading
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.components.standings import Standings
from imharness.errors import PluginError
from imharness.images import DefenseInfo, Purification
from imharness.ranking.entries import known_entries
from imharness.results.entries import Standing
from imharness.results.store import Store
from imharness.tracks import hookimpl

DECIDED = (Standing(date="2026-01-02", decision="withheld", reason="it looks at names"),)


class Apart(Purification):
    """A defense that came with a submission and is not installed."""

    info = DefenseInfo(id="acme/apart", version="1", differentiable=False)

    def build(self, device):
        raise AssertionError("it can be shown only")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    installed()  # is kept for other tests, with all that is installed
    found = ModuleType("acme_judge")
    monkeypatch.setitem(sys.modules, "acme_judge", found)
    points = [EntryPoint("acme.standings", "acme_judge", "imharness")]
    monkeypatch.setattr(loading.importlib.metadata, "entry_points", lambda group: points)
    return found


def test_what_a_package_knows_of_entries_joins_what_is_installed(tmp_path: Path, module: ModuleType) -> None:
    @hookimpl
    def standings(store: Store) -> Standings:
        entry = Registered(Apart(), "acme:acme_judge", Provenance("acme", "1"))
        return Standings([entry], {"acme/apart": DECIDED}, {"acme/gone": f"asked of {Path(store.address).name}"})

    module.standings = standings  # type: ignore[attr-defined]
    known = known_entries(Store(tmp_path / "own"))
    assert known.submitted == {"acme/apart"}
    assert known.standing == {"acme/apart": DECIDED}
    assert known.withdrawn["acme/gone"] == "asked of own"
    assert "local/" in known.withdrawn
    assert known.registry.one("defense", "apart").label == "acme/apart"


def test_tables_are_not_made_without_one_that_does_not_load(tmp_path: Path, module: ModuleType) -> None:
    with pytest.raises(PluginError, match="unknown:acme_judge cannot say what was decided about entries: does not im"):
        known_entries(Store(tmp_path))
