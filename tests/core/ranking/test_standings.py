"""A hook asks packages what was decided about entries; if one does not load, no tables are made."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from imharness.components import loading
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.components.standings import Standings
from imharness.documents.entries import Standing
from imharness.errors import PluginError
from imharness.images import DefenseInfo, Purification
from imharness.ranking.entries import StoreEntries, known_entries
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
    """Return an empty module, the only one with an entry point; its entry point announces the hook `standings`."""
    installed()  # cached now, so that other tests see all that is installed
    module_object = ModuleType("acme_judge")
    monkeypatch.setitem(sys.modules, "acme_judge", module_object)
    points = [EntryPoint("acme.standings", "acme_judge", "imharness")]
    monkeypatch.setattr(loading.importlib.metadata, "entry_points", lambda group: points)
    return module_object


def test_what_a_package_knows_of_entries_joins_what_is_installed(tmp_path: Path, module: ModuleType) -> None:
    @hookimpl
    def standings(store: Store) -> Standings:
        entry = Registered(Apart(), "acme:acme_judge", Provenance("acme", "1"))
        return Standings([entry], {"acme/apart": DECIDED}, {"acme/gone": f"asked of {Path(store.address).name}"})

    module.standings = standings  # type: ignore[attr-defined]
    entries = known_entries(Store(tmp_path / "own"))
    assert entries.submitted == {"acme/apart"}
    assert entries.standing == {"acme/apart": DECIDED}
    assert entries.withdrawn["acme/gone"] == "asked of own"
    assert "local/" in entries.withdrawn
    assert entries.registry.one("defense", "apart").label == "acme/apart"


def test_tables_are_not_made_without_one_that_does_not_load(tmp_path: Path, module: ModuleType) -> None:
    with pytest.raises(PluginError, match="unknown:acme_judge cannot say what was decided about entries: does not im"):
        known_entries(Store(tmp_path))


def test_entries_come_by_kind_and_label_whatever_was_computed_first() -> None:
    names = [("metric", "mse"), ("defense", "jpeg"), ("attack", "ifgsm"), ("defense", "flip"), ("attack", "square")]
    refs = {f"role {i}": installed().one(kind, name).ref() for i, (kind, name) in enumerate(names)}
    records = [SimpleNamespace(spec=SimpleNamespace(components=refs), seconds=seconds) for seconds in (2.0, 3.0)]
    entries = StoreEntries(installed()).of(records)  # type: ignore[arg-type]
    assert [(entry.kind, entry.id.partition("/")[2]) for entry in entries] == sorted(names)
