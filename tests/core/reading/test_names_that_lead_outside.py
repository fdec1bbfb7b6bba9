"""Names of files that are read from a store, a ledger or a site never lead outside of its folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from imharness.errors import DamagedError, HarnessError, StoreError, UsageError
from imharness.results import disk
from imharness.results.disk import below, write_whole
from imharness.results.storage import open_backend
from imharness.results.storage.files import Files, StoredFile
from imharness_leaderboard.folder import SiteFolder
from imharness_submissions.commands.submissions import rebuild
from imharness_submissions.ledger import Ledger, Line
from imharness_submissions.starting import write_manifest

OUTSIDE = ["../x", "a/../../x", "/tmp/x", "a/..", "..", "x\0"]
MANIFEST = {"format": 1, "package": {"name": "x"}, "hardware": {}, "entries": [], "claims": []}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize(
    "use",
    [
        lambda root, name: write_whole(root, name, b"x"),
        lambda root, name: open_backend(root).put(name, b"x"),
        lambda root, name: open_backend(root).get(name),
        lambda root, name: open_backend(root).delete(name),
        lambda root, name: open_backend(root).replace(name, b"x"),
        lambda root, name: open_backend(root).append(name, lambda lines: b"x"),
        lambda root, name: open_backend(root).lines(name),
        lambda root, name: open_backend(root).sizes(name),
        lambda root, name: open_backend(root).size(name),
        lambda root, name: Files(root).content(StoredFile(file=name, sha256="0" * 64, size=1)),
        lambda root, name: Files(root).path_of(StoredFile(file=name, sha256="0" * 64, size=1)),
        lambda root, name: SiteFolder(root).write(name, b"x"),
    ],
    ids=[
        "write",
        "put",
        "get",
        "delete",
        "replace",
        "append",
        "lines",
        "sizes",
        "size",
        "content",
        "path",
        "site",
    ],
)
def test_no_name_leads_out_of_a_folder(use: Callable[[Path, str], object], name: str, tmp_path: Path) -> None:
    root = tmp_path / "outer" / "inner"
    root.mkdir(parents=True)
    (tmp_path / "outer" / "x").write_text("of somebody else")
    with pytest.raises(StoreError, match="leads outside") as caught:
        use(root, name)
    assert str(caught.value).isprintable()
    assert (tmp_path / "outer" / "x").read_text() == "of somebody else"


def test_usual_names_stay(tmp_path: Path) -> None:
    for name in ("a", "a/b.json", ".hidden", "a..b", "...", "ä/é"):
        assert below(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize("name", ["C:/x", "C:x", "C:\\x", "\\x", "\\\\server\\share\\x", "..\\x", "a\\..\\..\\x"])
def test_what_leads_outside_on_windows_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_WINDOWS", False)
    assert below(tmp_path, name).is_relative_to(tmp_path)
    monkeypatch.setattr(disk, "_WINDOWS", True)
    with pytest.raises(StoreError, match="leads outside"):
        below(tmp_path, name)
    for usual in ("a", "a/b.json", ".hidden", "a..b", "ä/é"):
        assert below(tmp_path, usual) == tmp_path / usual


def ledger_with(folder: Path, **changes: Any) -> Path:
    """Write a ledger of one decision with a right seal, so that only `changes` can be refused; return its file."""
    facts = {
        "number": 1,
        "date": "2026-01-01",
        "name": "x",
        "ids": (),
        "decision": "added",
        "reason": "",
        "previous": "",
        "manifest": MANIFEST,
        **changes,
    }
    line = Line.model_construct(**facts)
    content = {**line.model_dump(mode="json"), "seal": line.expected_seal()}
    folder.mkdir()
    (folder / "ledger.jsonl").write_text(json.dumps(content) + "\n")
    return folder / "ledger.jsonl"


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "..", "a/b", "", "X", "x" * 80])
def test_a_decision_names_a_submission_by_a_plain_word(name: str, tmp_path: Path) -> None:
    file = ledger_with(tmp_path / "theirs", name=name)
    with pytest.raises(DamagedError, match="line 1 is damaged"):
        Ledger(tmp_path / "theirs").lines()
    places = ["--store", str(tmp_path / "store"), "--site", str(tmp_path / "site")]
    done = CliRunner().invoke(rebuild, [str(file), *places])
    assert isinstance(done.exception, HarnessError)
    assert {path.name for path in tmp_path.iterdir()} <= {"theirs", "store", "site"}


def test_a_decision_with_a_manifest_that_is_none_writes_nothing(tmp_path: Path) -> None:
    """Keys of a manifest become lines of submission.toml, so an unknown key with line breaks could add lines.

    `MANIFEST` is not whole either: it lacks the summary and other fields.
    """
    for manifest in (None, {}, MANIFEST, {**MANIFEST, 'x = 1\n[package]\nfile = "/etc/passwd"\n#': 1}):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        ledger_with(folder, manifest=manifest)
        (line,) = Ledger(folder).lines()
        with pytest.raises(UsageError, match="decision 1, x: "):
            write_manifest(line, folder)
        assert not (folder / "x").exists()
