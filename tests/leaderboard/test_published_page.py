"""The page "Published and ours": what it says of a leaderboard, and that it escapes all texts of a table."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import html5lib
import pytest

from imharness.errors import PluginError
from imharness.papers.published import PublishedTable
from imharness.results.store import Store
from imharness_leaderboard import addresses, pages, published
from imharness_leaderboard.drawing_files import slope_files
from imharness_leaderboard.folder import SiteFolder

from .conftest import ENTRIES, EVIL, sample_leaderboard

SVG = "{http://www.w3.org/2000/svg}"


def evil_table(**changes) -> PublishedTable:
    rows = [
        {"label": f"{EVIL} {i}", "ours": label, "values": str(i + 1), "note": EVIL} for i, label in enumerate(ENTRIES)
    ]
    column = {"key": "d", "label": EVIL, "ours": "main:d", "note": EVIL}
    facts = {
        "name": "1",
        "paper": "a2020",
        "table": "1",
        "track": "acme/evil",
        "title": EVIL,
        "setting": EVIL,
        "profiles": [EVIL],
        "notes": [EVIL],
        "columns": [column],
        "rows": rows,
        "headline": [EVIL],
        "citation": {"title": EVIL, "url": "javascript:alert(1)"},
    }
    return PublishedTable.model_validate(facts | changes)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Return a function that writes the page of a leaderboard beside tables, and returns its text and problems."""

    def write(tables, **changes) -> tuple[str | None, list[str]]:
        monkeypatch.setattr(published, "published_tables", tables if callable(tables) else lambda: tables)
        leaderboard = sample_leaderboard(charts=(), comparisons=(), **changes)
        build = pages._Build(Store(tmp_path / "store"), SiteFolder(tmp_path / "site"), [leaderboard], [], "", None)
        wrote = build._write_published(leaderboard)
        build.site.finish()
        return (
            tmp_path / "site" / addresses.published_page(leaderboard)
        ).read_text() if wrote else None, build.problems

    return write


def test_the_page_says_the_order_and_holds_every_number(page, tmp_path):
    left_out = evil_table(name="2", table="2", columns=[], rows=[], headline=[], left_out="no numbers")
    text, problems = page([evil_table(title="Blurs", setting="s", headline=[]), left_out])
    assert problems == []
    assert "Table 1: Blurs" in text
    places = [text.index(piece) for piece in ('<svg class="slopes"', 'id="tables"', 'id="without"', 'id="papers"')]
    assert places == sorted(places), "ranks against ranks come first, then tables, then prose"
    assert "<table" not in text[: places[0]]
    assert "no numbers" in text
    (facts,) = json.loads(
        (tmp_path / "site" / addresses.data_file(sample_leaderboard(), "published", "json")).read_text()
    )
    (series,) = facts["series"]
    assert series["order"]["tau"] == pytest.approx(1)
    assert [(c["published"], c["ours"], c["verdict"]) for c in series["cells"]] == [
        (i + 1, 1.25 + i, "another setting") for i in range(len(ENTRIES))
    ]


def test_a_figure_is_called_one_and_names_of_components_are_code(page):
    figure = evil_table(name="f", table="figure 4", columns=[], rows=[], headline=[], left_out="see `harness/pairs`.")
    text, _ = page([evil_table(title="Blurs", setting="s", headline=[]), figure])
    assert "Figure 4, " in text
    assert "see <code>harness/pairs</code>." in text
    assert "Table figure" not in text
    assert "1 quantity in another setting has too few entries to compare orders." in text


def test_the_drawing_of_an_order_is_a_file_with_its_numbers(page, tmp_path):
    text, _ = page([evil_table()])
    site, (drawn,) = tmp_path / "site", re.findall(r'<svg class="slopes".*?</svg>', text, re.S)
    svg, numbers = slope_files(sample_leaderboard(), 1)
    assert svg in text
    assert numbers in text
    file = (site / svg).read_text()
    assert drawn in file
    assert ElementTree.fromstring(file).findtext(f"{SVG}title").startswith(f"{EVIL}, table 1: 4 entries are too few")
    rows = list(csv.DictReader((site / numbers).read_text().splitlines()))
    assert [(row["entry"], float(row["published"]), float(row["here"])) for row in rows] == [
        (f"{EVIL} {i}", i + 1, 1.25 + i) for i in range(len(ENTRIES))
    ]
    assert [(row["place published"], row["place here"]) for row in rows] == [(f"{i}.0", f"{i}.0") for i in (4, 3, 2, 1)]


def test_nothing_of_a_published_table_breaks_out(page):
    text, _ = page([evil_table()])
    assert "<script>alert" not in text
    assert 'href="javascript' not in text
    assert [
        e for e in html5lib.HTMLParser(strict=False).parse(text).iter("{http://www.w3.org/1999/xhtml}script") if e.text
    ] == []


def test_a_leaderboard_in_the_same_setting_says_how_many_numbers_agree(page):
    data = sample_leaderboard().entries[0].model_copy(update={"kind": "dataset", "label": "acme/set"})
    table = evil_table(profiles=["p"], data=["acme/set"])
    text, _ = page([table], entries=(data,), limit=None)
    assert "In the same setting 3 of 3 numbers agree, 1 undecided." in text


def test_without_tables_there_is_no_page_and_a_broken_file_is_a_problem(page):
    assert page([]) == (None, [])

    def broken():
        raise PluginError("acme/papers/table-1.toml: rows")

    text, problems = page(broken)
    assert text is None
    assert problems == ["acme/evil: published tables are not shown: acme/papers/table-1.toml: rows"]


def test_the_leaderboard_of_the_demo_is_compared_with_the_paper(ran: Path):
    text = (ran / "site" / "perceptual" / "published.html").read_text()
    assert "No number was measured in the setting of the paper." in text
    assert "perceptual/published.html" in (ran / "site" / "perceptual.html").read_text()
    (agreement, *_) = [
        comparison
        for comparison in json.loads((ran / "site/data/perceptual/published.json").read_text())
        if comparison["table"] == "perceptual/5"
    ]
    assert "harness/lpips is not there" in agreement["not_run"]
    (command,) = agreement["commands"]
    assert command.startswith("harness run --profile lpips-2afc --track perceptual --dataset harness/bapps --metric ")
    assert agreement["differs"][0] == "profile embedded, not lpips-2afc or paper"
