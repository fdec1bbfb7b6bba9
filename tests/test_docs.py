"""What the pages show is what the code does; every file they name exists."""

import os
import re
import tomllib
from pathlib import Path

import pytest
from tests.conftest import Harness
from tests.typed_commands import blocks, commands, read

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
TUTORIALS = [ROOT / "docs" / "start" / "run-it.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.M | re.S)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).is_file(), f"{page} links to {target}"


def promises() -> dict[str, list[str]]:
    """Return the tests of each promise of the threat model: of what is prevented or detected, and of each contract."""
    facts = tomllib.loads((ROOT / "docs" / "threats.toml").read_text())
    threats = [threat for threat in facts["threat"] if threat["state"] != "open"]
    return {promise["name"]: promise.get("tests", []) for promise in (*threats, *facts["contract"])}


def missing_tests(names: list[str]) -> list[str]:
    """Return the tests that do not exist; at least one must be named."""
    named = [name.partition("::") for name in names]
    return [f"{file}::{test}" for file, _, test in named if test not in names_of_tests(file)] if named else ["no test"]


def names_of_tests(file: str) -> set[str]:
    path = ROOT / "tests" / file
    return set(re.findall(r"^def (test_\w+)", path.read_text(), re.M)) if path.is_file() else set()


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: " ".join(re.findall(r"\w+", promise)[:3]))
def test_every_promise_of_the_threat_model_names_tests_that_exist(promise: str) -> None:
    assert missing_tests(promises()[promise]) == []


def test_a_wrong_name_of_a_test_in_the_threat_model_is_noticed() -> None:
    assert len(promises()) > 20
    assert missing_tests([]) == ["no test"]
    right = "test_docs.py::test_links_lead_somewhere"
    assert missing_tests([right]) == []
    for wrong in ("test_docs.py::test_links", "sandbox/test_docs.py::test_links_lead_somewhere"):
        assert missing_tests([right, wrong]) == [wrong]


def test_every_path_on_the_map_exists() -> None:
    named = re.findall(r"`([\w./-]+/[\w./-]*)`", (ROOT / "docs" / "map.md").read_text())
    assert named
    for path in named:
        assert (ROOT / path).exists(), f"docs/map.md names {path}"


def test_every_hook_is_documented() -> None:
    from imharness.components import hookspecs

    hooks = [hook for name, hook in vars(hookspecs).items() if hasattr(hook, f"{hookspecs.PROJECT}_spec")]
    text = (ROOT / "docs" / "reference" / "hooks.md").read_text()
    assert {"components", "leaderboard_finished"} < {hook.__name__ for hook in hooks}
    for hook in hooks:
        assert hook.__doc__
        assert f"autofunction:: imharness.components.hookspecs.{hook.__name__}\n" in text
    assert "`components()`" in (ROOT / "docs" / "howto" / "plugin.md").read_text()


def listed() -> set[str]:
    """Every page that a table of contents names, by its path below docs/, without the ending."""
    pages = set()
    for page in PAGES:
        for tree in TREE.findall((ROOT / page).read_text()):
            names = (line for line in tree.splitlines() if line and not line.startswith(":"))
            pages |= {os.path.normpath(Path(page).parent / name).removeprefix("docs/") for name in names}
    return pages


def test_every_page_is_in_a_table_of_contents() -> None:
    pages = {page.removeprefix("docs/").removesuffix(".md") for page in PAGES if page.startswith("docs/")}
    assert pages - {"index"} <= listed()


def test_every_group_of_entry_points_is_told() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    text = (ROOT / "docs" / "reference" / "hooks.md").read_text()
    assert [group for group in groups if f"| `{group}` |" not in text] == []


def test_there_are_five_tutorials_whose_commands_are_right() -> None:
    assert len(TUTORIALS) == 5
    for page in TUTORIALS:
        text = page.read_text()
        cells = re.findall(r"^```\{code-cell\}\n(.*?)^```", text, re.M | re.S)
        assert len(cells) >= 2, page.name
        for words in (command for cell in cells if cell.startswith("%%bash") for command in commands(cell)):
            read(words)


@pytest.mark.parametrize("page", [p for p in PAGES if p != "docs/releasing.md"])
def test_every_command_of_a_page_is_one_the_command_line_takes(page: str) -> None:
    for block in blocks(page):
        for words in commands(block):
            read(words)
