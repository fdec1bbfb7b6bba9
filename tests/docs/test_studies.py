"""The pages of studies: each number of ours is the one that the file of the study has at the place beside it."""

import json
import re
from pathlib import Path

import pytest
from tests.core.papers.test_summary import placed, tables, wrong

STUDIES = Path(__file__).resolve().parents[2] / "docs" / "studies"
OURS = re.compile(r"(-?[\d.]+)<!-- ([\w-]+) · ([^·]+?) · ([^·]+?) -->")
"""A number, and the table, row and column that it comes from, in a comment that readers do not see."""
LONGEST = 20
"""The most words of the first sentence of a page."""
FILES = sorted(STUDIES.glob("*.json"))


def misplaced(page: str, facts: dict) -> list[str]:
    """Return the numbers of a page that the study's file does not have at the place beside them."""
    numbers = tables(facts)
    text = page.replace("\\|", "|").replace("\n", " ")
    return [" · ".join(match) for match in OURS.findall(text) if numbers.get(match[1:]) != match[0]]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_numbers_of_a_study_are_those_of_its_file_and_of_the_paper(file: Path) -> None:
    page = file.with_suffix(".md").read_text()
    assert "<!-- generated: study" in page
    assert "<!-- generated: table" in page
    assert OURS.search(page.replace("\n", " "))
    assert misplaced(page, json.loads(file.read_text())) == []
    assert len(placed(page)) == len(re.findall(r"<!-- [a-z]+/[\w-]+ · ", page))
    assert wrong(page) == []
    [first] = re.findall(r"^# .*?\n\n\*\*(.+?)\*\*\n", page, re.DOTALL)
    sentence = re.sub(r"<!--.*?-->", "", first, flags=re.DOTALL).split(". ")[0]
    assert len(sentence.split()) <= LONGEST
    assert len(OURS.findall(first.replace("\n", " "))) >= 2


REBUILT = re.compile(r"(-?[\d.]+)(?: \[(-?[\d.]+), (-?[\d.]+)\])?")
GUESS, ALONE = "mean image", " + plain-gradient"


def psnr_of(lines: list[str]) -> dict[str, re.Match[str]]:
    """Return protected model -> the PSNR of what is rebuilt, from a table in Markdown; {} if it has none."""
    bare = [re.sub(r"<sup>.*?</sup>|\*\*|\\\*|\\(?=.)", "", line) for line in lines if line.startswith("|")]
    heads, _, *rows = ([field.strip(" ↑↓") for field in line.strip("| ").split(" | ")] for line in bare)
    column = next((i for i, head in enumerate(heads) if head in ("psnr", "psnr, worst attack")), None)
    reached = {row[0]: REBUILT.match(row[column]) for row in rows if column is not None}
    return {label: match for label, match in reached.items() if match}


def controlled(facts: dict) -> bool:
    """Whether an attack on an undefended model is shown to come nearer than the mean image, in any table of the study.

    Shown: the lower end of the interval of its PSNR is above the PSNR of the mean image.
    """
    by_table = [psnr_of(lines) for lines in facts["reconstruction"]["tables"].values()]
    (guess,) = (float(reached[GUESS][1]) for reached in by_table if GUESS in reached)
    plain = [float(m[2]) for reached in by_table for label, m in reached.items() if label.endswith(ALONE) and m[2]]
    return any(value > guess for value in plain)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_study_of_reconstructions_without_a_positive_control_says_so_first(file: Path) -> None:
    facts = json.loads(file.read_text())
    if "ranking" not in facts.get("reconstruction", {}).get("tables", {}):
        pytest.skip("no ranking of reconstructions")
    first = file.with_suffix(".md").read_text().split("\n\n")[1]
    assert first.startswith("**No positive control.**") != controlled(facts)


def test_a_wrong_number_of_a_study_is_noticed() -> None:
    table = ["| defense | D^D %, worst ↓ |", "| :--- | ---: |", r"| **flip**<sup>a</sup> | **6.50**\* \[6.10, 7.00\] |"]
    facts = {"iqa": {"tables": {"ranking": table}}}
    right = "It has 6.50<!-- ranking · flip · D^D %, worst -->, and more."
    assert misplaced(right, facts) == []
    for other in (right.replace("6.50", "6.51"), right.replace("flip", "crop"), right.replace("worst", "mean")):
        assert len(misplaced(other, facts)) == 1
