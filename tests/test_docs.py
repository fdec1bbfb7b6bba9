"""What the pages show is what the code does; every file they name exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_generated_parts_are_current() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "submissions/README.md",
    *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).is_file(), f"{page} links to {target}"


NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
PARTS = ("prevented", "detected, but not prevented")


def promises() -> list[str]:
    """The rows of the threat model's table, and its list of what is detected."""
    page = (ROOT / "docs" / "threat-model.md").read_text()
    prevented, detected = (page.split(f"## What is {part}\n")[1].split("\n## ")[0] for part in PARTS)
    return [*re.findall(r"^\| (?!threat |---).*", prevented, re.M), *re.split(r"^- ", detected, flags=re.M)[1:]]


def missing_tests(text: str) -> list[str]:
    """Return the tests that a text names and that do not exist; it must name at least one."""
    found = NAMED.findall(text)
    return [f"{file}::{name}" for file, name in found if name not in names_of_tests(file)] if found else [text]


def names_of_tests(file: str) -> set[str]:
    path = ROOT / "tests" / file
    return set(re.findall(r"^def (test_\w+)", path.read_text(), re.M)) if path.is_file() else set()


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: " ".join(re.findall(r"\w+", promise)[:3]))
def test_every_promise_of_the_threat_model_names_tests_that_exist(promise: str) -> None:
    assert missing_tests(promise) == []


def test_a_wrong_name_of_a_test_in_the_threat_model_is_noticed() -> None:
    assert len(promises()) > 20
    assert missing_tests("no test") == ["no test"]
    right = "`test_docs.py::test_links_lead_somewhere`"
    assert missing_tests(right) == []
    for wrong in ("`test_docs.py::test_links`", "`sandbox/test_docs.py::test_links_lead_somewhere`"):
        assert missing_tests(f"{right} {wrong}") == [wrong.strip("`")]


def test_every_path_on_the_map_exists() -> None:
    named = re.findall(r"`([\w./-]+/[\w./-]*)`", (ROOT / "docs" / "map.md").read_text())
    assert named
    for path in named:
        assert (ROOT / path).exists(), f"docs/map.md names {path}"


def test_every_hook_is_documented_and_named_in_contributing() -> None:
    from imharness.components import hookspecs

    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert hookspecs.components.__doc__
    assert "`components()`" in text
