"""Markup in names and texts of a stranger appears as text on pages, and has no effect."""

import warnings
from html import unescape
from pathlib import Path

import html5lib
import pytest
from pydantic import Field
from tests.blind import leaderboards
from tests.blind.test_names import Named

from imharness.components.provenance import Provenance
from imharness.images import DefenseInfo
from imharness_leaderboard.pages import build_site

MARKUP = ("\"'><img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "{{ 7 * 7 }}", "<!--", "]]>")
RUNS = ("onerror", "onload", "onclick", "style", "srcdoc")


class Marked(Named):
    """<b onclick=alert(1)>Leave</b> images as they are.

    </p><iframe srcdoc="<script>alert(1)</script>"></iframe> [x](javascript:alert(1))
    """

    info = DefenseInfo(id="acme/marked", version="1<i>", differentiable=True)
    note: str = Field(default="", description="</td><svg onload=alert(1)>")


def test_pages_hold_markup_of_names_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    author = Provenance("st<u>r", "1<s>0", "A <script>alert(2)</script>", "<style>*{}</style>", "javascript:alert(3)")
    monkeypatch.setattr(leaderboards, "STRANGERS", author)
    leaderboards.ran(tmp_path / "store", [Marked(note=text) for text in MARKUP], [])
    with warnings.catch_warnings(action="ignore"):
        built = build_site(str(tmp_path / "store"), tmp_path / "site")
    assert list(built.problems) == []
    pages = {path: path.read_text() for path in (tmp_path / "site").rglob("*.html")}
    page_text = " ".join(unescape(text) for text in pages.values())
    assert all(f"acme/marked[note={text}]" in page_text for text in MARKUP)
    assert "<svg onload=alert(1)>" in page_text
    for path, text in pages.items():
        for element in html5lib.parse(text, namespaceHTMLElements=False).iter():
            if not isinstance(element.tag, str):
                continue
            assert element.tag not in ("iframe", "style", "u", "s", "object", "embed"), path
            assert element.tag != "script" or not (element.text or "").strip(), path
            assert not set(element.attrib) & set(RUNS), path
            assert not any("script:" in link for name in ("href", "src") if (link := element.get(name, ""))), path
