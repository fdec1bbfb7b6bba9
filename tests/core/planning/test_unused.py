"""Components that a track does not use, and folders in place of names, are refused; a limit without effect is named."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import imharness as ih
from imharness.cli import cli
from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.planning.profiles import load_profile
from imharness.planning.selection import refuse_unused
from imharness.results.store import Store
from imharness.running.session import Session


@pytest.mark.parametrize(
    ("track", "kind", "name"),
    [("membership", "defense", "jpeg"), ("iqa", "defense", "mixup"), ("perceptual", "metric", "embedded-cnn")],
)
def test_a_component_of_another_track_is_refused(tmp_path: Path, track: str, kind: str, name: str) -> None:
    session = Session(Store(tmp_path), load_profile("embedded"))
    graphs = session.plan([track], only={kind: [name]})
    with pytest.raises(UsageError, match=rf"--{kind}: harness/{track} has no use for harness/{name}; its {kind}s are "):
        refuse_unused(graphs, installed(), {kind: [name]})
    both = session.plan(only={kind: [name]})
    refuse_unused(both, installed(), {kind: [name]})


def test_own_components_and_patterns_are_not_refused(tmp_path: Path) -> None:
    session = Session(Store(tmp_path), load_profile("embedded"))
    only = {"defense": ["*", "jpeg[*]", "!flip"], "attack": ["ifgsm"]}
    refuse_unused(session.plan(["iqa"], only=only), installed(), only)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": ["jpeg"], "track": "membership"}, "against: harness/membership has no use for harness/jpeg"),
        ({"against": ["none"], "track": "iqa"}, "objects: harness/iqa has no use for harness/mixup"),
    ],
)
def test_evaluate_refuses_them_too(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    entry_name = "mixup" if arguments["track"] == "iqa" else "dropout"
    with pytest.raises(UsageError, match=message):
        ih.evaluate(entry_name, store=tmp_path, progress=False, **arguments)  # type: ignore[arg-type]


def test_a_folder_in_the_place_of_a_data_set_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "imgs20"
    folder.mkdir()
    session = Session(Store(tmp_path / "store"), load_profile("embedded"))
    with pytest.raises(UsageError, match="imgs20 is a folder; write folder:"):
        session.plan(["iqa"], only={"dataset": [str(folder)]})
    with pytest.raises(UsageError, match="imgs20 is a folder, and harness/membership cannot read one"):
        session.plan(["membership"], only={"dataset": [str(folder)]})


def test_a_limit_that_changes_nothing_is_said(tmp_path: Path) -> None:
    """Membership has records and no images, so that a limit of images does not shorten its run."""
    session = Session(Store(tmp_path), load_profile("embedded"), limit=9)
    line = "the limit of 9 images changes nothing in harness/membership: all records are used there"
    assert session.said_of_limit(graphs := session.plan()) == line
    assert Session(Store(tmp_path), load_profile("embedded")).said_of_limit(graphs) == ""


def test_all_ways_to_a_limit_say_that_it_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--track", "membership", "--limit", "9", "--store", str(tmp_path / "store"), "--dry-run"]
    assert "changes nothing in harness/membership" in " ".join(CliRunner().invoke(cli, words).output.split())
    monkeypatch.setattr(Session, "run", lambda *args, **kwargs: SimpleNamespace(leaderboards=[]))
    monkeypatch.setattr("imharness.notebook.run.joined", lambda results, source: None)
    ih.run("quick", track="membership", store=tmp_path / "store", limit=9)
    assert "changes nothing in harness/membership" in capsys.readouterr().err
