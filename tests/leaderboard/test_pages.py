"""The pages show what the boards hold, escaped, and nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.results import Board, ColumnSpec, Missing, Row, Table, Value
from harness.store import Store
from harness_leaderboard.pages import build_site

EVIL = "<script>alert('x')</script>"


def board(**changes) -> Board:
    table = Table(
        id="t", title=EVIL, caption=EVIL, entry="defense", note=EVIL, ranked_by="d",
        columns=(ColumnSpec(key="d", label=EVIL, description='" onmouseover="alert(1)', better="lower"),),
        rows=(
            Row(label=EVIL, values={"d": Value(value=1.25, low=1.0, high=1.5, n=7)}),
            Row(label="plain", values={"d": Value(missing=EVIL)}),
        ),
    )  # fmt: skip
    facts = {
        "track": "acme/evil", "title": EVIL, "measures": EVIL, "profile": "p", "seed": 0, "limit": 3, "command": EVIL,
        "finished": "2026-01-02", "cells_done": 1, "cells_failed": 1, "cells_missing": 1, "tables": (table,),
        "missing": (Missing(what=EVIL, reason=EVIL, remedy=EVIL),), "failed": {EVIL: EVIL}, "versions": {"torch": EVIL},
        "components": (), "sources": "",
    }  # fmt: skip
    return Board(**(facts | changes))


@pytest.fixture
def pages(tmp_path: Path) -> dict[str, str]:
    store = Store(tmp_path / "store")
    store.save_board(board())
    assert build_site(tmp_path / "store", tmp_path / "site") == 2
    return {path.name: path.read_text() for path in (tmp_path / "site").glob("*.html")}


def test_everything_is_escaped(pages: dict[str, str]) -> None:
    assert set(pages) == {"index.html", "acme--evil.html"}
    for text in pages.values():
        assert EVIL not in text
        assert "&lt;script&gt;" in text
        assert 'onmouseover="alert' not in text


def test_nothing_is_loaded_from_elsewhere(pages: dict[str, str]) -> None:
    for text in pages.values():
        assert not re.search(r'(src|href)="(https?:)?//', text)
        assert "default-src 'none'" in text


def test_numbers_come_with_interval_n_and_reasons(pages: dict[str, str]) -> None:
    text = pages["acme--evil.html"]
    assert "1.250" in text
    assert "1.000 – 1.500, n 7" in text
    assert text.count("–</td>") == 1
    assert "first 3 images" in text


def test_a_page_that_did_not_change_keeps_its_time(tmp_path: Path, pages: dict[str, str]) -> None:
    page = tmp_path / "site" / "index.html"
    before = page.stat().st_mtime_ns
    build_site(tmp_path / "store", tmp_path / "site")
    assert page.stat().st_mtime_ns == before


def test_a_store_without_tables_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run `harness run --all` first"):
        build_site(tmp_path / "nothing", tmp_path / "site")


def test_building_the_site_loads_no_torch(tmp_path: Path, pages: dict[str, str]) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom harness_leaderboard.pages import build_site\n"
        f"build_site(Path({str(tmp_path / 'store')!r}), Path({str(tmp_path / 'site')!r}))\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
