"""The reader's summary says what the files hold: each published number on it stands beside its place."""

import json
import re
from pathlib import Path

from imharness.papers.order import SAYS
from imharness.papers.published import find_table, published_tables

DOCS = Path(__file__).resolve().parents[3] / "docs"
NUMBER = re.compile(r"([\d.]+)(?:\sms)?\s\(`([a-z]+/[\w-]+)` · ([^·()]+) · ((?:[^·()]|\([^·()]*\))+)\)")


def placed(page: str) -> list[tuple[str, str, str, str]]:
    """Return each number of a page with its table, row and column."""
    return NUMBER.findall(page.replace("\\|", "|").replace("\n", " "))


def wrong(page: str) -> list[str]:
    """Return the numbers of a page that the file does not have at the place beside them."""
    found = []
    for value, name, row, column in placed(page):
        table = find_table(name)
        columns = [own.label for own in table.columns]
        values = [own.values for own in table.rows if own.label == row.strip()]
        if column not in columns or not values or values[0][columns.index(column)].text != value:
            found.append(f"{value} ({name} · {row} · {column})")
    return found


def test_each_published_number_stands_in_its_file() -> None:
    page = (DOCS / "papers.md").read_text()
    assert len(placed(page)) == page.count("` · ") >= 30
    assert wrong(page) == []


def test_a_wrong_number_is_noticed() -> None:
    right = "no defense has 66.68 (`iqa/2` · W/o Defense · D %, non-adaptive)"
    assert wrong(right) == []
    assert wrong(right.replace("66.68", "66.69")) == ["66.69 (iqa/2 · W/o Defense · D %, non-adaptive)"]
    assert wrong(right.replace("adaptive)", "aware)")) == ["66.68 (iqa/2 · W/o Defense · D %, non-aware)"]


def test_the_compared_quantities_are_headlines_of_the_tables() -> None:
    known = {table.address: table for table in published_tables()}
    facts = json.loads((DOCS / "compared.json").read_text())
    assert set(facts) == {"iqa", "membership", "perceptual", "reconstruction"}
    for own in (line for track in facts.values() for line in track["headlines"]):
        assert own["quantity"] in known[own["table"]].headline
        assert own["says"] in SAYS
        assert own["n"] == len(own["entries"])
