"""What the pages show is what the code does; every file they name exists."""

import os
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.conftest import Harness
from tests.typed_commands import blocks, commands, read

from imharness.cli import cli
from imharness.errors import UsageError
from imharness_submissions.sandbox.warming import MANY

ROOT = Path(__file__).resolve().parents[1]


CHECK = """
import runpy, sys
from imharness.cli import console
console.out.width = 100  # as it is where it is first imported below a COLUMNS of 100
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_generated_parts_are_current(harness_forked: Harness, tmp_path: Path) -> None:
    result = harness_forked("-c", CHECK, str(ROOT / "docs" / "generate.py"), "--check", cwd=tmp_path)
    assert result.returncode == 0, result.stderr


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "submissions/README.md",
    "CODE_OF_CONDUCT.md",
    *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md") if not {"_build", "generated"} & set(p.parts)),
]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("[!i]*.md"))
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.M | re.S)


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


def test_the_threat_model_says_after_how_many_sessions_memory_lies_in_large_pages() -> None:
    page = (ROOT / "docs" / "threat-model.md").read_text()
    assert re.findall(r"After (\d+) sessions, the memory", page) == [str(MANY)]


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


def test_every_hook_is_documented() -> None:
    from imharness.components import hookspecs

    hooks = [hook for name, hook in vars(hookspecs).items() if hasattr(hook, f"{hookspecs.PROJECT}_spec")]
    text = (ROOT / "docs" / "reference" / "hooks.md").read_text()
    assert {"components", "board_finished"} < {hook.__name__ for hook in hooks}
    for hook in hooks:
        assert hook.__doc__
        assert f"autofunction:: imharness.components.hookspecs.{hook.__name__}\n" in text
    assert "`components()`" in (ROOT / "CONTRIBUTING.md").read_text()


def listed() -> set[str]:
    """Every page that a table of contents names, by its path below docs/, without the ending."""
    found = set()
    for page in PAGES:
        for tree in TREE.findall((ROOT / page).read_text()):
            names = (line for line in tree.splitlines() if line and not line.startswith(":"))
            found |= {os.path.normpath(Path(page).parent / name).removeprefix("docs/") for name in names}
    return found


def test_every_page_is_in_a_table_of_contents() -> None:
    pages = {page.removeprefix("docs/").removesuffix(".md") for page in PAGES if page.startswith("docs/")}
    assert pages - {"index"} <= listed()


def test_every_group_of_entry_points_is_told() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    told = (ROOT / "docs" / "reference" / "hooks.md").read_text()
    assert [group for group in groups if f"| `{group}` |" not in told] == []


def test_there_are_five_tutorials_whose_commands_are_right() -> None:
    assert len(TUTORIALS) == 5
    for page in TUTORIALS:
        text = page.read_text()
        cells = re.findall(r"^```\{code-cell\}\n(.*?)^```", text, re.M | re.S)
        assert len(cells) >= 2, page.name
        for words in (found for cell in cells if cell.startswith("%%bash") for found in commands(cell)):
            read(words)


@pytest.mark.parametrize("page", [p for p in PAGES if p.startswith(("docs/howto", "docs/tutorials", "docs/concepts"))])
def test_every_command_of_a_page_is_one_the_command_line_takes(page: str) -> None:
    for block in blocks(page):
        for words in commands(block):
            read(words)


def test_docs_names_the_built_page_or_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imharness.cli.docs._checkout", list)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"sphinx-build -b html docs docs/_build/html"):
        CliRunner().invoke(cli, ["docs", "--no-browser"], catch_exceptions=False, standalone_mode=False)
    page = tmp_path / "docs" / "_build" / "html" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    assert CliRunner().invoke(cli, ["docs", "--no-browser"]).output.strip() == page.as_uri()
