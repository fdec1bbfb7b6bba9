"""The page "Published and ours": what it says of a board, and that nothing of a table breaks out of it."""

from __future__ import annotations

import json
from pathlib import Path

import html5lib
import pytest

from imharness.errors import PluginError
from imharness.papers.published import PublishedTable
from imharness.results.store import Store
from imharness_leaderboard import addresses, pages, published
from imharness_leaderboard.folder import SiteFolder

from .conftest import ENTRIES, EVIL, board


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
    """Return a function that writes the page of a board beside tables; it returns the text, or None, and problems."""

    def write(tables, **changes) -> tuple[str | None, list[str]]:
        monkeypatch.setattr(published, "published_tables", tables if callable(tables) else lambda: tables)
        own = board(charts=(), comparisons=(), **changes)
        build = pages._Build(Store(tmp_path / "store"), SiteFolder(tmp_path / "site"), [own], [], "", None)
        wrote = build._write_published(own)
        build.site.finish()
        return (tmp_path / "site" / addresses.published_page(own)).read_text() if wrote else None, build.problems

    return write


def test_the_page_says_the_order_and_holds_every_number(page, tmp_path):
    left_out = evil_table(name="2", table="2", columns=[], rows=[], headline=[], left_out="no numbers")
    text, problems = page([evil_table(title="Blurs", setting="s", headline=[]), left_out])
    assert problems == []
    assert "Table 1: Blurs" in text
    places = [text.index(part) for part in ('<svg class="slopes"', 'id="tables"', 'id="without"', 'id="papers"')]
    assert places == sorted(places), "ranks against ranks come first, then tables, then prose"
    assert "<table" not in text[: places[0]]
    assert "no numbers" in text
    (facts,) = json.loads((tmp_path / "site" / addresses.data_file(board(), "published", "json")).read_text())
    (series,) = facts["series"]
    assert series["order"]["tau"] == pytest.approx(1)
    assert [(c["published"], c["ours"], c["verdict"]) for c in series["cells"]] == [
        (i + 1, 1.25 + i, "other data") for i in range(len(ENTRIES))
    ]


def test_nothing_of_a_published_table_breaks_out(page):
    text, _ = page([evil_table()])
    assert "<script>alert" not in text
    assert 'href="javascript' not in text
    assert [
        e for e in html5lib.HTMLParser(strict=False).parse(text).iter("{http://www.w3.org/1999/xhtml}script") if e.text
    ] == []


def test_a_board_in_the_same_setting_says_how_many_numbers_agree(page):
    data = board().entries[0].model_copy(update={"kind": "dataset", "label": "acme/set"})
    table = evil_table(profiles=["p"], data=["acme/set"])
    text, _ = page([table], entries=(data,), limit=None)
    assert "In the same setting 3 of 3 numbers agree, 1 cannot tell." in text


def test_without_tables_there_is_no_page_and_a_broken_file_is_a_problem(page):
    assert page([]) == (None, [])

    def broken():
        raise PluginError("acme/papers/table-1.toml: rows")

    text, problems = page(broken)
    assert text is None
    assert problems == ["acme/evil: published tables are not shown: acme/papers/table-1.toml: rows"]


def test_the_board_of_the_demo_is_compared_with_the_paper(ran: Path):
    text = (ran / "site" / "perceptual" / "published.html").read_text()
    assert "No number was measured in the setting of the paper." in text
    assert "perceptual/published.html" in (ran / "site" / "perceptual.html").read_text()
    (agreement, *_) = [
        own
        for own in json.loads((ran / "site/data/perceptual/published.json").read_text())
        if own["table"] == "perceptual/5"
    ]
    assert "harness/lpips is not there" in agreement["not_run"]
    (command,) = agreement["commands"]
    assert command.startswith("harness run --profile paper --track perceptual --dataset harness/bapps --metric ")
    assert agreement["differs"][0] == "profile embedded, not paper"
