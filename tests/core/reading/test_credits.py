"""Every binary file that ships has a source, a licence and somebody to be named, in the tables that packages carry."""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.reading.credits import FILE, credits, credits_in, tables

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("core/", "plugins/", "leaderboard/", "submissions/")
"""Folders of packages; a wheel holds the packages without these folders."""
MADE = {"__pycache__", "_build", "generated"}
"""Folders that a build makes; the repository and archives do not have them."""
# A table of credits without an error.
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
    """Yield each file of the repository that is not text: its path in a table of credits, and the file."""
    for folder in ("benchmarks", "docs", "tests", *PARTS):
        for file in sorted((ROOT / folder).rglob("*")):
            name = file.relative_to(ROOT).as_posix()
            if not file.is_file() or MADE & {*file.parts} or is_text(file.read_bytes()):
                continue
            yield next((name.removeprefix(prefix) for prefix in PARTS if name.startswith(prefix)), name), file


def is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_every_binary_file_that_ships_is_in_the_table_as_it_is() -> None:
    digests = {name: sha256(file) for name, file in binaries()}
    assert len(digests) >= 25
    assert digests == {file: digest for one in credits() if not one.inside for file, digest in one.files}


def test_files_of_other_packages_are_the_ones_that_the_table_means() -> None:
    """Credits that are `inside` are of files in installed packages of others."""
    for one in credits():
        for file, digest in one.files if one.inside else ():
            package, _, rest = file.partition("/")
            spec = find_spec(package)
            assert spec is not None
            (folder,) = spec.submodule_search_locations or ()
            assert sha256(Path(folder, rest)) == digest, file


def test_shipped_files_whose_licence_asks_for_it_name_its_address_and_say_that_they_were_changed() -> None:
    asking = [one for one in credits() if one.licence.startswith("CC-BY")]
    assert len(asking) >= 5
    assert all(one.terms.startswith("https://creativecommons.org/licenses/by/") for one in asking)
    assert all("changed: " in one.provenance for one in asking if not one.inside)
    assert all(one.terms in one.line for one in asking)


def test_the_licence_of_the_distribution_covers_every_file_that_ships_and_the_table_is_among_its_texts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shipped = {one.licence for one in credits() if one.files and not one.inside}
    free = {"public domain", "released for unrestricted use"}
    assert {*project["license"].split(" AND ")} == shipped - free
    licensed = {"/".join(Path(file).parts[-2:]) for file in project["license-files"]}
    assert {f"{table.parent.name}/{table.name}" for table in tables()} <= licensed


def test_weights_say_what_they_were_trained_on() -> None:
    weights = [one for one in credits() if any(file.endswith(".safetensors") for file, _ in one.files)]
    assert weights
    assert all(one.trained_on for one in weights)


def test_all_weights_have_a_card_beside_them() -> None:
    weights = [file for _, file in binaries() if file.suffix == ".safetensors"]
    assert [file.name for file in weights if not json.loads(file.with_suffix(".json").read_text())] == []


def test_what_a_source_is_used_by_is_installed() -> None:
    names = {entry.component.info.id for entry in installed().entries.values()}
    names |= {training.info.id for training in installed().of_kind("weight-training")}
    assert {name for one in credits() for name in one.used_by} <= names


def test_the_table_is_found_without_an_import() -> None:
    assert [path.parent.name for path in tables()] == ["imharness_embedded"]


def test_tables_come_by_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    files = [tmp_path / f"acme_credits_{letter}" / FILE for letter in "abcdefgh"]
    for file in files:
        file.parent.mkdir()
        file.touch()
        (file.parent / "__init__.py").touch()
    points = [EntryPoint(file.parent.name, f"{file.parent.name}.hooks:loaded", "imharness") for file in reversed(files)]
    assert tables(points) == files


def test_the_card_of_a_component_shows_its_credits() -> None:
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
        (('licence = "CC0-1.0"', 'licence = "CC-BY-2.0"'), "does not say terms"),
        (("[file]", "[files]"), r"needs \[source.NAME\] and \[file\]"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "whole.toml").write_text(WHOLE)
    assert [one.line for one in credits_in(tmp_path / "whole.toml")] == ["Cat (A. Person; CC0-1.0)"]
    (tmp_path / "sources.toml").write_text(WHOLE.replace(*change))
    with pytest.raises(UsageError, match=says):
        credits_in(tmp_path / "sources.toml")
