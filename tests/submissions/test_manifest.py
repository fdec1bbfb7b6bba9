"""A manifest says everything, and one line says what is wrong with it."""

import tomllib
from pathlib import Path

import pytest
from tests.submissions.conftest import HOSTILE, MakeSubmission, wheel_of

from imharness.errors import HarnessError, UsageError
from imharness_submissions.environment import environment_of
from imharness_submissions.ledger import Ledger
from imharness_submissions.manifest import read_lock, read_manifest
from imharness_submissions.opening import open_submission
from imharness_submissions.starting import start_submission, toml_lines, write_manifest

CLAIM = """[[claims]]
track = "harness/iqa"
table = "defenses"
row = "good/median"
column = "d_fixed"
value = 3.5
tolerance = 0.1"""
ENTRY = '[[entries]]\nkind = "defense"\nid = "good/median"\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "format"),
        ('contact = "a@b.example"', 'contact = "nobody"', "contact"),
        ('licence = "MIT"', "", "licence"),
        ('sha256 = "', 'sha256 = "x', "sha256"),
        ("[hardware]", 'repository = "https://x.example/y"\n[hardware]', "repository and commit"),
        (
            "[hardware]",
            'repository = "https://x.example/y"\ncommit = "' + "0" * 40 + '"\n[hardware]',
            "pin the package",
        ),
        (ENTRY, ENTRY + ENTRY, "is listed twice"),
        (ENTRY, ENTRY.replace("defense", "track"), "kind"),
        ("memory_gib = 3", "memory_gib = 900", "memory_gib"),
        ("memory_gib = 3", "memory = 3", "memory"),
        ("format = 1", "format = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_said(submission: MakeSubmission, old: str, new: str, message: str) -> None:
    folder = submission("honest/median", ENTRY)
    path = folder / "submission.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=message) as caught:
        read_manifest(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ['"\\', "line\nfeed", "\x00\u202e", "\U000e0001"])
def test_any_text_is_read_back_from_the_manifest_that_was_started(text: str) -> None:
    facts = {"summary": text, "facts": {text: [text]}}
    assert tomllib.loads(toml_lines(facts)) == facts


def test_requirements_without_a_hash_are_refused(submission: MakeSubmission) -> None:
    folder = submission("honest/median", ENTRY)
    digest = "a" * 64
    (folder / "requirements.txt").write_text(f"# made by uv\none==1.0 \\\n    --hash=sha256:{digest}\n")
    assert read_lock(folder) == [f"one==1.0 --hash=sha256:{digest}"]
    for line in ("one==1.0", "one>=1 --hash=sha256:" + digest, "--index-url https://evil.example", "-e ."):
        (folder / "requirements.txt").write_text(line + "\n")
        with pytest.raises(UsageError, match="is not pinned as"):
            read_lock(folder)


def test_a_wheel_with_another_hash_is_refused(submission: MakeSubmission) -> None:
    folder = submission("honest/median", ENTRY, sha256="0" * 64)
    with pytest.raises(UsageError, match="has the sha256"):
        environment_of(folder, read_manifest(folder).package)


def test_a_package_of_another_name_is_refused(submission: MakeSubmission) -> None:
    folder = submission("honest/median", ENTRY)
    path = folder / "submission.toml"
    path.write_text(path.read_text().replace('version = "1.0"', 'version = "2.0"'))
    with pytest.raises(HarnessError, match=r"the manifest says median 2\.0, the package holds median 1\.0"):
        environment_of(folder, read_manifest(folder).package)


def test_entries_must_be_in_the_package(submission: MakeSubmission, described_once: None) -> None:
    folder = submission("honest/median", ENTRY.replace("good/median", "good/mean"))
    with pytest.raises(UsageError, match="registers only good/median"):
        open_submission(folder, read_manifest(folder))


def test_parameters_must_be_what_the_class_takes(submission: MakeSubmission, described_once: None) -> None:
    folder = submission("honest/median", ENTRY + "parameters = { radius = 3 }\n")
    with pytest.raises(UsageError, match="radius"):
        open_submission(folder, read_manifest(folder))


def test_strengths_must_agree(submission: MakeSubmission, described_once: None) -> None:
    text = '[[entries]]\nkind = "attack"\nid = "evil/asks-too-much"\nstrengths = { weak = { radius = 1 } }\n'
    folder = submission("hostile/asks_too_much", text)
    with pytest.raises(UsageError, match="they must agree"):
        open_submission(folder, read_manifest(folder))


def test_nothing_of_a_package_runs_here_when_it_is_unpacked(
    submission: MakeSubmission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not its import, not a .pth file; nor is byte code made of it, even where a person asks uv for that."""
    monkeypatch.setenv("UV_COMPILE_BYTECODE", "1")
    import zipfile

    mark = tmp_path / "it-ran"
    folder = submission("honest/median", ENTRY, sha256="")
    wheel = tmp_path / "median-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "a") as file:
        file.writestr("evil.pth", f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n")
    text = (folder / "submission.toml").read_text()
    import hashlib
    import re

    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "submission.toml").write_text(re.sub(r'sha256 = "\w+"', f'sha256 = "{digest}"', text))
    opened = open_submission(folder, read_manifest(folder))
    opened.guest.kill()
    assert [c.label for c in opened.components] == ["good/median"]
    assert not mark.exists()


def test_the_leaderboard_names_the_authors_of_the_manifest(submission: MakeSubmission, described_once: None) -> None:
    folder = submission("honest/median", ENTRY)
    text = (folder / "submission.toml").read_text()
    (folder / "submission.toml").write_text(text.replace('["A stranger"]', '["Ada Author", "Ben Author"]'))
    opened = open_submission(folder, read_manifest(folder))
    opened.guest.kill()
    (registered,) = [one for one in opened.description.entries() if one.component.info.id == "good/median"]
    assert registered.provenance.author == "Ada Author, Ben Author"


def test_a_first_manifest_is_written_from_what_the_package_says(tmp_path: Path, described_once: None) -> None:
    wheel = wheel_of(HOSTILE / "hostile" / "asks_too_much.py", tmp_path)
    folder = start_submission("asks-too-much", wheel, tmp_path / "submissions", trusted=False)
    with pytest.raises(UsageError, match="contact: this is a placeholder; replace it"):
        read_manifest(folder)
    file = folder / "submission.toml"
    file.write_text(file.read_text().replace("you@example.org", "me@acme.dev").replace("name the licence", "MIT"))
    submission = read_manifest(folder)
    (entry,) = submission.entries
    assert (entry.kind, entry.id, dict(entry.strengths)) == ("attack", "evil/asks-too-much", {"weak": {}})
    assert submission.authors == ("A stranger",)
    opened = open_submission(folder, submission)
    opened.guest.kill()
    assert [c.label for c in opened.components] == ["evil/asks-too-much"]
    with pytest.raises(UsageError, match="exists; choose another name"):
        start_submission("asks-too-much", wheel, tmp_path / "submissions", trusted=False)


def test_the_ledger_alone_gives_the_manifest_back(submission: MakeSubmission, tmp_path: Path) -> None:
    manifest = read_manifest(submission("honest/median", ENTRY, claims=CLAIM))
    line = Ledger(tmp_path / "store").append(
        "median", ("good/median",), "added", "x", manifest=manifest.model_dump(mode="json"), lock=()
    )
    again = tmp_path / "again"
    again.mkdir()
    assert read_manifest(write_manifest(line, again)) == manifest
