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
    "submissions/README.md",
    *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).is_file(), f"{page} links to {target}"


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
