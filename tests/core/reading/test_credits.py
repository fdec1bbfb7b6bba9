"""Every binary file that ships has a source, a licence and somebody to be named, in the tables that packages carry."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.reading.credits import credits, credits_in, tables

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("core/", "plugins/", "leaderboard/", "submissions/")
"""The folders whose packages the wheel holds without them."""
WHOLE = """
[source.cat]
title = "Cat"
address = "https://example.org/cat"
licence = "CC0-1.0"
attribution = "A. Person"
[file]
"a/cat.jpg" = { source = "cat", sha256 = "00" }
"""


def binaries() -> Iterator[tuple[str, Path]]:
    """Yield the path that a table gives, and the file, of whatever the repository holds that is not text."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        file = ROOT / name
        if file.is_file() and not is_text(file.read_bytes()):
            yield next((name.removeprefix(part) for part in PARTS if name.startswith(part)), name), file


def is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_every_binary_file_that_ships_is_in_the_table_as_it_is() -> None:
    found = {name: sha256(file) for name, file in binaries()}
    assert len(found) >= 25
    assert found == {file: digest for one in credits() if not one.inside for file, digest in one.files}


def test_files_of_other_packages_are_the_ones_that_the_table_means() -> None:
    for one in credits():
        for file, digest in one.files if one.inside else ():
            package, _, rest = file.partition("/")
            spec = find_spec(package)
            assert spec is not None
            (folder,) = spec.submodule_search_locations or ()
            assert sha256(Path(folder, rest)) == digest, file


def test_weights_say_what_they_were_trained_on() -> None:
    weights = [one for one in credits() if any(file.endswith(".safetensors") for file, _ in one.files)]
    assert weights
    assert all(one.trained_on for one in weights)


def test_all_weights_have_a_card_beside_them() -> None:
    weights = [file for _, file in binaries() if file.suffix == ".safetensors"]
    assert [file.name for file in weights if not json.loads(file.with_suffix(".json").read_text())] == []


def test_what_a_source_is_used_by_is_installed() -> None:
    known = {entry.component.info.id for entry in installed().entries.values()}
    known |= {training.info.id for training in installed().of_kind("weight-training")}
    assert {name for one in credits() for name in one.used_by} <= known


def test_the_table_is_found_without_an_import() -> None:
    assert [path.parent.name for path in tables()] == ["imharness_embedded"]


def test_commands_show_credits() -> None:
    shown = CliRunner().invoke(cli, ["plugins", "credits"], catch_exceptions=False).output
    listed = json.loads(CliRunner().invoke(cli, ["plugins", "credits", "--json"], catch_exceptions=False).output)
    for one in credits():
        short = [word for word in (*one.title.split(), *one.licence.split()) if len(word) <= 8]
        assert [word for word in short if word not in shown] == [], "longer words may be broken between lines"
    assert [own["name"] for own in listed["credits"]] == [one.name for one in credits()]
    card = CliRunner().invoke(cli, ["plugins", "show", "severity-ladder", "--json"], catch_exceptions=False).output
    assert any("danielbuechele; CC-BY-2.0" in line for line in json.loads(card)["credits"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('source = "cat"', 'source = "dog"'), "a/cat.jpg needs sha256"),
        ((', sha256 = "00"', ""), "a/cat.jpg needs sha256"),
        (('attribution = "A. Person"', ""), "does not say attribution"),
        (('title = "Cat"', 'title = "Cat"\ntrained_on = ["dog"]'), "names dog: unknown"),
        (('title = "Cat"', 'title = "Cat"\nlicense = "MIT"'), "names license: unknown"),
        (("[file]", "[files]"), r"needs \[source.NAME\] and \[file\]"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "whole.toml").write_text(WHOLE)
    assert [one.line for one in credits_in(tmp_path / "whole.toml")] == ["Cat (A. Person; CC0-1.0)"]
    (tmp_path / "sources.toml").write_text(WHOLE.replace(*change))
    with pytest.raises(UsageError, match=says):
        credits_in(tmp_path / "sources.toml")
