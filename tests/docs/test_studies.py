"""The pages of the studies say what their files hold: each number of ours stands beside its place."""

import json
import re
from pathlib import Path

import pytest
from tests.core.papers.test_summary import placed, wrong

STUDIES = Path(__file__).resolve().parents[2] / "docs" / "studies"
OURS = re.compile(r"(-?[\d.]+) \(`([\w-]+)` · ([^·`]+?) · ([^·`]+?)\)(?=[\s,.;:])")
FILES = sorted(STUDIES.glob("*.json"))


def tables(facts: dict) -> dict[tuple[str, str, str], str]:
    """Return the numbers of a study's tables by table, row and column."""
    found = {}
    for name, lines in (own for track in facts.values() for own in track["tables"].items()):
        bare = [re.sub(r"<sup>.*?</sup>|\*\*|\\\*|\\(?=.)", "", line) for line in lines if line.startswith("|")]
        heads, _, *rows = ([cell.strip(" ↑↓") for cell in line.strip("| ").split(" | ")] for line in bare)
        for label, *cells in rows:
            found |= {(name, label, head): cell.split(" ")[0] for head, cell in zip(heads[1:], cells, strict=True)}
    return found


def misplaced(page: str, facts: dict) -> list[str]:
    """Return the numbers of a page that the study's file does not have at the place beside them."""
    known = tables(facts)
    text = page.replace("\\|", "|").replace("\n", " ")
    return [" · ".join(own) for own in OURS.findall(text) if known.get(own[1:]) != own[0]]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_numbers_of_a_study_are_those_of_its_file_and_of_the_paper(file: Path) -> None:
    page = file.with_suffix(".md").read_text()
    assert "<!-- generated: study" in page
    assert "<!-- generated: table" in page
    assert OURS.search(page.replace("\n", " "))
    assert misplaced(page, json.loads(file.read_text())) == []
    assert len(placed(page)) == len(re.findall(r"`[a-z]+/[\w-]+` · ", page))
    assert wrong(page) == []


def test_a_wrong_number_of_a_study_is_noticed() -> None:
    table = ["| defense | D^D %, worst ↓ |", "| :--- | ---: |", r"| **flip**<sup>a</sup> | **6.50**\* \[6.10, 7.00\] |"]
    facts = {"iqa": {"tables": {"ranking": table}}}
    right = "It has 6.50 (`ranking` · flip · D^D %, worst), and more."
    assert misplaced(right, facts) == []
    for other in (right.replace("6.50", "6.51"), right.replace("flip", "crop"), right.replace("worst", "mean")):
        assert len(misplaced(other, facts)) == 1
