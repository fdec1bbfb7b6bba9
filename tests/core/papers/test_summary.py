"""docs/papers.md has the numbers of the transcribed tables and of our studies.

A comment behind each number, which readers do not see, names the table or study, the row and the column.
"""

import json
import re
from pathlib import Path

from imharness.papers.order import SAYS
from imharness.papers.published import find_table, published_tables

DOCS = Path(__file__).resolve().parents[3] / "docs"
NUMBER = re.compile(r"([\d.]+)(?:\sms)?<!-- ([a-z]+/[\w-]+) · ([^·]+?) · ([^·]+?) -->")
"""A published number, and its comment: table, row and column."""
OURS = re.compile(r"(-?[\d.]+)<!-- ([\w-]+) · ([\w-]+) · ([^·]+?) · ([^·]+?) -->")
"""A number of ours, and its comment: study, table, row and column."""
DECIMAL = re.compile(r"(?<![\w/.])-?\d*\.\d+")


def placed(page: str) -> list[tuple[str, str, str, str]]:
    """Return the published numbers of a page, each with its table, row and column."""
    return NUMBER.findall(page.replace("\\|", "|").replace("\n", " "))


def wrong(page: str) -> list[str]:
    """Return the published numbers of a page that differ from those of their table, row and column."""
    mistakes = []
    for value, name, row, column in placed(page):
        table = find_table(name)
        columns = [table_column.label for table_column in table.columns]
        values = [table_row.values for table_row in table.rows if table_row.label == row.strip()]
        if column not in columns or not values or values[0][columns.index(column)].text != value:
            mistakes.append(f"{value} ({name} · {row} · {column})")
    return mistakes


def tables(facts: dict) -> dict[tuple[str, str, str], str]:
    """Return the numbers of a study's tables by table, row and column."""
    numbers = {}
    for name, lines in (table for track in facts.values() for table in track["tables"].items()):
        bare = [re.sub(r"<sup>.*?</sup>|\*\*|\\\*|\\(?=.)", "", line) for line in lines if line.startswith("|")]
        heads, _, *rows = ([task.strip(" ↑↓") for task in line.strip("| ").split(" | ")] for line in bare)
        for label, *tasks in rows:
            numbers |= {(name, label, head): task.split(" ")[0] for head, task in zip(heads[1:], tasks, strict=True)}
    return numbers


def prose(page: str) -> str:
    """Return a page without its generated parts, in one line."""
    return re.sub(r"<!-- generated: .*?<!-- end -->", "", page, flags=re.DOTALL).replace("\\|", "|").replace("\n", " ")


def stale(page: str) -> list[str]:
    """Return the numbers of ours on a page that differ from those of their study, table, row and column."""
    mistakes = []
    for value, study, *address in OURS.findall(prose(page)):
        facts = json.loads((DOCS / "studies" / f"{study}.json").read_text())
        if tables(facts).get(tuple(address)) != value:
            mistakes.append(f"{value} ({study} · {' · '.join(address)})")
    return mistakes


def unplaced(page: str) -> list[str]:
    """Return the decimal numbers of a page's text that have no such comment."""
    return DECIMAL.findall(OURS.sub("", NUMBER.sub("", prose(page))))


def test_each_number_stands_in_its_file() -> None:
    page = (DOCS / "papers.md").read_text()
    assert len(placed(page)) == len(re.findall(r"<!-- [a-z]+/", page)) >= 30
    assert len(OURS.findall(prose(page))) >= 6
    assert wrong(page) == stale(page) == unplaced(page) == []


def test_a_number_of_ours_that_is_stale_or_has_no_place_is_noticed() -> None:
    right = "It has 0.596<!-- location30 · defenses · advreg · balanced accuracy -->, and more."
    assert stale(right) == unplaced(right) == []
    assert stale(right.replace("0.596", "0.609")) == ["0.609 (location30 · defenses · advreg · balanced accuracy)"]
    assert unplaced("the worst attack finds .609 there, in 5 splits and 95 %") == [".609"]


def test_a_wrong_number_is_noticed() -> None:
    right = "no defense has 66.68<!-- iqa/2 · W/o Defense · D %, non-adaptive -->"
    assert wrong(right) == []
    assert wrong(right.replace("66.68", "66.69")) == ["66.69 (iqa/2 · W/o Defense · D %, non-adaptive)"]
    assert wrong(right.replace("adaptive", "aware")) == ["66.68 (iqa/2 · W/o Defense · D %, non-aware)"]


def test_the_compared_quantities_are_headlines_of_the_tables() -> None:
    tables = {table.address: table for table in published_tables()}
    facts = json.loads((DOCS / "compared.json").read_text())
    assert set(facts) == {"iqa", "membership", "perceptual", "reconstruction"}
    for headline in (line for track in facts.values() for line in track["headlines"]):
        assert headline["quantity"] in tables[headline["table"]].headline
        assert headline["says"] in SAYS
        assert headline["n"] == len(headline["entries"])
